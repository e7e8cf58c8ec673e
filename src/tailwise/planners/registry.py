"""Planners and policies by name.

Every module of this package names what it holds with :func:`register_planner`, in its own file. Other packages
add theirs by an entry point of the group ``tailwise.planners``, or are named in full, as ``package.module:Class``.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from tailwise.errors import OptionError, UnknownNameError

GROUP = "tailwise.planners"


@dataclass(frozen=True)
class PlannerKind:
    """One entry of the list.

    Attributes
    ----------
    name : str
        What ``kind=`` and ``--planner`` take.
    summary : str
        What it is, in one line.
    build : callable
        ``build(model, beta, *, seed, ...)`` returns a :class:`tailwise.Planner`, or a policy (an object with
        ``act(state, h)``), which takes no iterations. Its other keywords are the options of the kind.
    needs_outcomes : bool
        Whether the model must list its outcomes: a table, or a simulator that has ``outcomes``.
    bonus : type or None
        The rule that a plain number as ``bonus=`` is the constant of; None where there is none.
    """

    name: str
    summary: str
    build: Callable[..., Any]
    needs_outcomes: bool = False
    bonus: Callable[..., Any] | None = None


_KINDS: dict[str, PlannerKind] = {}


def register_planner(
    name: str,
    build: Callable[..., Any],
    *,
    summary: str,
    needs_outcomes: bool = False,
    bonus: Callable[..., Any] | None = None,
) -> None:
    """Give a planner or policy a name; see :class:`PlannerKind` for the parameters."""
    _KINDS[name] = PlannerKind(name, summary, build, needs_outcomes, bonus)


def list_planners() -> tuple[PlannerKind, ...]:
    """Return every planner and policy that has a name, entry points of other packages included.

    Examples
    --------
    >>> from tailwise.planners import list_planners
    >>> "erm-mcts" in [kind.name for kind in list_planners()]
    True
    """
    _load()
    return (*_KINDS.values(), *(_loaded(point.name, point.load) for point in _others()))


def find_planner(name: str) -> PlannerKind:
    """Return the entry of a name, or of ``package.module:Class``.

    Raises
    ------
    UnknownNameError
        If there is no such name, or nothing can be imported from there; the message names the nearest names.
    """
    _load()
    if name in _KINDS:
        return _KINDS[name]
    for point in _others():
        if point.name == name:
            return _loaded(name, point.load)
    module, colon, attribute = name.partition(":")
    if colon and attribute:
        return _loaded(name, lambda: getattr(importlib.import_module(module), attribute))
    known = [*_KINDS, *(point.name for point in _others())]
    close = difflib.get_close_matches(name, known, n=2)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(known)}"
    raise UnknownNameError(f"no planner is called {name!r}; {hint} (one of your own: package.module:Class)")


def _load() -> None:
    """Import the modules of this package, which register what they hold."""
    package = importlib.import_module("tailwise.planners")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def _others() -> list[Any]:
    return [point for point in entry_points(group=GROUP) if point.name not in _KINDS]


def _loaded(name: str, load: Callable[[], Any]) -> PlannerKind:
    try:
        build = load()
    except Exception as error:  # whatever importing another's code raises
        raise UnknownNameError(f"planner {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if name in _KINDS:  # it registered itself
        return _KINDS[name]
    if not callable(build):
        raise OptionError(f"planner {name!r} is {build!r}; expected a class or a function (model, beta, *, seed=None)")
    return PlannerKind(name, (inspect.getdoc(build) or "").partition("\n")[0], build)
