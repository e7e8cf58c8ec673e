"""Named, documented problems, ready to run: the list of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tailwise._lazy import import_modules, nearest
from tailwise._validate import integer, real, truth
from tailwise.errors import ModelError, OptionError, UnknownNameError

if TYPE_CHECKING:
    from tailwise.models import PartlyObserved, PomdpTable, Simulator, TabularMDP

__all__ = ["Domain", "list_domains", "make", "register"]

Builder: TypeAlias = "Callable[..., TabularMDP | Simulator | PomdpTable | PartlyObserved | PartlyObserved]"


@dataclass(frozen=True)
class Domain:
    """One entry of the list.

    Attributes
    ----------
    name : str
        What :func:`make` takes.
    kind : str
        "table", "simulator" or "hidden states".
    summary : str
        One line on what it models.
    options : tuple of str
        Keyword options of its builder, with their defaults.
    build : callable
        Returns the model.
    """

    name: str
    kind: str
    summary: str
    options: tuple[str, ...]
    build: Builder


_DOMAINS: dict[str, Domain] = {}


def register(name: str, kind: str) -> Callable[[Builder], Builder]:
    """Decorate the builder of a domain; the first line of its docstring is the summary."""
    if not isinstance(name, str) or not isinstance(kind, str):
        raise OptionError(f"a domain is registered as register(name, kind), two texts, not {name!r} and {kind!r}")

    def add(build: Builder) -> Builder:
        options = tuple(f"{p.name}={p.default!r}" for p in inspect.signature(build).parameters.values())
        summary = (inspect.getdoc(build) or "").partition("\n")[0]
        _DOMAINS[name] = Domain(name, kind, summary, options, build)
        return build

    return add


def list_domains() -> list[Domain]:
    """Return all domains, by name.

    Examples
    --------
    >>> from tailwise import domains
    >>> "grid-mdp" in [domain.name for domain in domains.list_domains()]
    True
    """
    import_modules("tailwise.domains")
    return [_DOMAINS[name] for name in sorted(_DOMAINS)]


def require_domain(name: Any) -> None:
    """Raise if there is no domain of that name."""
    import_modules("tailwise.domains")
    if not isinstance(name, str) or name not in _DOMAINS:
        is_folder = isinstance(name, str) and Path(name).is_dir()
        found = f"{name!r} is a folder, and no file with a model" if is_folder else f"no domain is called {name!r}"
        is_id = isinstance(name, str) and re.fullmatch(r"[\w/:.-]+-v\d+", name)
        gym = f" (an environment of Gymnasium is 'gym:{name}')" if is_id else ""
        raise UnknownNameError(f"{found}{gym}; {nearest(str(name), _DOMAINS)}")


def make(name: str, **options: Any) -> Any:
    """Build the domain called ``name``.

    Parameters
    ----------
    name : str
        One of :func:`list_domains`.
    **options
        The domain's own options (see ``Domain.options``).

    Returns
    -------
    TabularMDP, Simulator, PomdpTable or PartlyObserved
        The model.

    Raises
    ------
    UnknownNameError
        If there is no such domain; the message names the nearest ones.
    OptionError
        If the domain has no such option, or its value is of the wrong kind.
    ModelError
        If no model can be built with the options together.

    Examples
    --------
    >>> from tailwise import domains
    >>> domains.make("mdp-4").horizon
    20
    """
    require_domain(name)
    domain = _DOMAINS[name]
    known = {option.partition("=")[0] for option in domain.options}
    unknown = sorted(set(options) - known)
    if unknown:
        has = ", ".join(domain.options) or "none"
        raise OptionError(f"domain {name!r} has no option {unknown[0]!r}; its options are: {has}")
    defaults = inspect.signature(domain.build).parameters
    checked = {key: _checked(value, key, defaults[key].default, name) for key, value in options.items()}
    try:
        return _built(domain.build, checked)
    except OptionError:
        raise
    except (ArithmeticError, ValueError, IndexError) as error:
        given = ", ".join(f"{key}={value!r}" for key, value in checked.items())
        raise ModelError(f"domain {name!r} cannot be built with {given or 'its defaults'}: {error}") from error


def _built(build: Builder, options: dict[str, Any]) -> Any:
    """Return a domain's model; one of functions made in ``build``, which pickle cannot find, knows how it was made."""
    model = build(**options)
    if hasattr(model, "made_by"):
        model.made_by = (_built, (build, options), dict(vars(model)))
    return model


def _checked(value: Any, key: str, default: Any, name: str) -> Any:
    """Return an option's value in the type of its default, or raise ``OptionError``."""
    what = f"option {key} of domain {name!r}"
    if isinstance(default, bool):
        return truth(value, what)
    if isinstance(default, int):
        return integer(value, what, low=1 if key == "horizon" else 0)
    return real(value, what) if isinstance(default, float) else value
