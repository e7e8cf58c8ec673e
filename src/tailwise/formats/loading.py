"""``load``: the one way in for files, environments and names of domains."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailwise._validate import integer
from tailwise.errors import FormatError, OptionError
from tailwise.formats.settings import Settings, names
from tailwise.formats.spec import Spec, parse_spec, value_of
from tailwise.models import TabularMDP


def load(
    path_or_spec: str | os.PathLike[str] | TabularMDP,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
    **options: Any,
) -> Any:
    """Load a model from a file, an environment, or by name.

    =========================  ==========================================================================
    what                       options beside horizon, discount and start
    =========================  ==========================================================================
    ``x.csv``, ``x.arrow``     base, action_base (0 or 1), outcomes ("uniform" or an id), ignore_columns
    ``x.npz``
    ``x.nm``, ``x.prism``,     constants, reward, sense, label_costs, step_cost, until, max_states, progress
    ``x.jani``, ``x.drn``
    ``x.tra``                  the same, without constants; labels and rewards: files (names)
    ``gym:ID``                 levels (for continuous actions), those of the environment
    ``rddl:DOMAIN/INSTANCE``   max_actions, max_concurrent, integer_bound
    name of a domain           those of the domain
    =========================  ==========================================================================

    Options may also stand in the specification: ``"inventory.csv?base=1&horizon=50"``. Those given as
    arguments win. ``FORMAT:PATH`` (``prism:model.txt``) overrides the file's extension.

    Parameters
    ----------
    path_or_spec : str, path or TabularMDP
        What to load; a table is returned with the other options applied.
    horizon : int, optional
        Number of decisions. Where neither you nor the file gives it, it is 100 and a note says so.
    discount : float in (0, 1], optional
        Factor per step; the source's own if it has one, else 1.
    start : int or str, optional
        Initial state: an id as the file counts, or a label.
    **options
        See the table above.

    Returns
    -------
    TabularMDP or simulator
        ``model.notes`` tells what was assumed.

    Raises
    ------
    FormatError
        Naming the file and the line that is wrong.
    UnknownNameError
        If there is no such file, domain or environment.
    OptionError
        If an option is unknown or out of range.
    MissingExtraError
        If the format needs a package that is not installed.

    Examples
    --------
    >>> import tailwise
    >>> tailwise.load("mdp-4").num_states
    4
    """
    common: dict[str, Any] = {"horizon": horizon, "discount": discount, "start": start}
    if isinstance(path_or_spec, TabularMDP):
        _refuse(options, (), "a table")
        return _with_common(path_or_spec, common)
    if not isinstance(path_or_spec, (str, os.PathLike)):
        raise OptionError(
            f"expected a path, a specification or a TabularMDP, not {type(path_or_spec).__name__}; arrays "
            "and objects of other libraries have functions of their own: tailwise.formats.from_mdptoolbox, "
            "from_discrete_dp, TabularMDP.from_arrays, TabularMDP.from_gymnasium"
        )
    spec = parse_spec(os.fspath(path_or_spec))
    for name, value in spec.options:
        if name in common:
            common[name] = value if common[name] is None else common[name]
        else:
            options.setdefault(name, value)
    Settings(**common)  # checks the three
    return _LOADERS[spec.scheme](spec, common, options)


def _load_csv(spec: Spec, common: dict[str, Any], options: dict[str, Any]) -> TabularMDP:
    from tailwise.formats.csv_table import read_csv

    return read_csv(_existing(spec), _list_settings(spec, common, options))


def _load_arrow(spec: Spec, common: dict[str, Any], options: dict[str, Any]) -> TabularMDP:
    from tailwise.formats.arrow_table import read_arrow

    return read_arrow(_existing(spec), _list_settings(spec, common, options))


def _list_settings(spec: Spec, common: dict[str, Any], options: dict[str, Any]) -> Settings:
    _refuse(options, ("base", "action_base", "outcomes", "ignore_columns"), f"{spec.scheme} files")
    if "ignore_columns" in options:
        options["ignore_columns"] = names(options["ignore_columns"], "ignore_columns")
    return Settings(**common, **options)


def _load_npz(spec: Spec, common: dict[str, Any], options: dict[str, Any]) -> TabularMDP:
    from tailwise.formats.npz_table import read_npz

    _refuse(options, (), "npz files")
    mdp: TabularMDP = _with_common(read_npz(_existing(spec)), common)
    return mdp


def _load_storm(spec: Spec, common: dict[str, Any], options: dict[str, Any]) -> TabularMDP:
    from tailwise.formats.storm_options import StormOptions
    from tailwise.formats.storm_table import read_storm

    known = tuple(name for name in inspect.signature(StormOptions).parameters if name not in common)
    _refuse(options, known, f"{spec.scheme} files")
    return read_storm(spec.scheme, _existing(spec), StormOptions(**common, **options))


def _load_gym(spec: Spec, common: dict[str, Any], options: dict[str, Any]) -> Any:
    from tailwise.models import Discretized, GymnasiumSimulator
    from tailwise.models.gymnasium_table import make_environment

    levels = options.pop("levels", None)
    horizon, discount, start = common["horizon"], common["discount"] or 1.0, common["start"]
    env = make_environment(spec.target, **options)
    try:
        if getattr(env.unwrapped, "P", None) is not None and levels is None:
            if isinstance(start, str):
                start = integer(value_of(start), "start", low=0, hint=f"gym:{spec.target} numbers its states")
            return TabularMDP.from_gymnasium(env, horizon=horizon, discount=discount, start=start)
    finally:
        env.close()
    if start is not None:
        raise OptionError(f"gym:{spec.target} starts where its reset() puts it; start= is for tables")
    actions = None if levels is None else Discretized(levels=levels)
    return GymnasiumSimulator(spec.target, horizon=horizon, discount=discount, actions=actions, **options)


def _load_rddl(spec: Spec, common: dict[str, Any], options: dict[str, Any]) -> Any:
    from tailwise.formats.rddl_actions import ActionLimits
    from tailwise.formats.rddl_load import load_rddl

    _refuse(options, tuple(inspect.signature(ActionLimits).parameters), "rddl models")
    if common["start"] is not None:
        raise OptionError(f"rddl:{spec.target} starts in its instance's initial state; start= is for tables")
    return load_rddl(
        spec.target, horizon=common["horizon"], discount=common["discount"], limits=ActionLimits(**options)
    )


def _load_domain(spec: Spec, common: dict[str, Any], options: dict[str, Any]) -> Any:
    from tailwise import domains

    own = next((d.options for d in domains.list_domains() if d.name == spec.target), ())
    own_names = {option.partition("=")[0] for option in own}
    passed = {name: value for name, value in common.items() if value is not None and name in own_names}
    model = domains.make(spec.target, **options, **passed)
    rest = {name: None if name in passed else value for name, value in common.items()}
    return _with_common(model, rest)


def _with_common(model: Any, common: dict[str, Any]) -> Any:
    """Apply horizon, discount and start to a model that is already there."""
    changed = {name: value for name, value in common.items() if value is not None}
    if not changed:
        return model
    if isinstance(model, TabularMDP):
        mdp: TabularMDP = model.with_options(**changed)
        mdp.check().raise_for_errors()
        return mdp
    for name, value in changed.items():
        if name == "start" and isinstance(value, str):
            raise OptionError(f"{type(model).__name__} is a simulator: its states have no labels; start= is for tables")
        try:
            setattr(model, name, value)
        except (AttributeError, TypeError) as error:
            raise OptionError(f"{type(model).__name__} takes no other {name}: {error}") from None
    return model


def _existing(spec: Spec) -> Path:
    path = Path(spec.target)
    try:
        if not path.exists():
            raise FormatError(f"{path}: there is no such file")
        if not path.is_file():
            raise FormatError(f"{path}: it is a folder or a device; expected a file")
        with path.open("rb"):
            return path
    except OSError as error:
        shown = spec.target if len(spec.target) < 200 else spec.target[:200] + "..."
        raise FormatError(f"{shown}: it cannot be read: {error.strerror}") from None


def _refuse(options: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    unknown = sorted(set(options) - set(known))
    if unknown:
        has = ", ".join(("horizon", "discount", "start", *known))
        raise OptionError(f"unknown option {unknown[0]!r}; {what} take {has}")


_LOADERS: dict[str, Callable[..., Any]] = {
    "csv": _load_csv,
    "arrow": _load_arrow,
    "npz": _load_npz,
    "prism": _load_storm,
    "jani": _load_storm,
    "drn": _load_storm,
    "tra": _load_storm,
    "gym": _load_gym,
    "rddl": _load_rddl,
    "domain": _load_domain,
}
