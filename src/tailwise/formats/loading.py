"""``load`` and ``save``: the one way in for files, environments, data frames and names, and the one out for tables."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tailwise._files import put_in_place
from tailwise._validate import file_path
from tailwise.errors import FormatError, OptionError, TailwiseError, UnknownNameError
from tailwise.formats.options import CommonOptions, ListOptions
from tailwise.formats.registry import COMMON, Format, find_format, format_of_file, is_file, list_formats, parse_spec
from tailwise.models import PartlyObserved, PomdpTable, Simulator, TabularMDP
from tailwise.models.contract import OWN, Own
from tailwise.models.simulator import lists_outcomes, model_name
from tailwise.models.tabular import require_table

_log = logging.getLogger(__name__)


def load(
    source: Any,
    *,
    horizon: int | Own | None = OWN,
    discount: float | None = None,
    start: int | str | None = None,
    kind: str | None = None,
    **options: Any,
) -> TabularMDP | Simulator:
    """Load a model from a file, an environment, a data frame, or by name.

    =============================  ======================================================================
    what                           options beside horizon, discount and start
    =============================  ======================================================================
    ``x.csv``, ``x.csv.gz``,       base, action_base (0 or 1), ids ("names"), outcomes ("uniform" or an id),
    ``x.parquet``, ``x.arrow``,    tolerance, columns, ignore_columns, metadata ("keep" or "ignore")
    ``x.xlsx``, ``x.json``,
    ``x.yaml``, ``x.toml``,
    ``x.txt``, data frames
    ``x.npz``, ``x.mat``           order ("SSA", "ASS" or "SAS"; of arrays P and R)
    ``x.MDP``, ``x.POMDP``         observe
    ``x.nm``, ``x.prism``,         constants, reward, sense, label_costs, step_cost, accumulate, until, goal,
    ``x.jani``, ``x.drn``          goal_cost, miss_cost, observe, max_states, progress
    ``x.tra``, ``x.umb``           the same, without constants; labels and rewards: files (names)
    ``gym:ID``                     levels (for continuous actions), those of the environment
    ``rddl:DOMAIN/INSTANCE``       observe, max_actions, max_concurrent, integer_bound
    name of a domain               those of the domain
    =============================  ======================================================================

    Options may also stand in the specification: ``"inventory.csv?base=1&horizon=50"``. Those given as
    arguments win. ``FORMAT:PATH`` (``prism:model.txt``) overrides the file's extension.

    Parameters
    ----------
    source : str, path, data frame, open file or TabularMDP
        What to load. Data frames (pandas, polars, pyarrow, NumPy records, mappings of columns) hold transition
        lists; ``P[s][a] = [(p, s', r, done)]`` is one as well. A table is returned with the other options applied.
    horizon : int or None, optional
        Number of decisions; None for no horizon (``horizon=none`` in a specification): ends are then where outcomes are
        ``done`` or states absorb at no cost. Where neither you nor the source says, it is 100 and a note says so.
    discount : float in (0, 1], optional
        Factor per step; the source's own if it has one, else 1.
    start : int or str, optional
        Initial state: an id as the source counts, or a label.
    kind : str, optional
        Name of the format, for open files without a name and files whose extension is another one.
    **options
        See the table above.

    Returns
    -------
    TabularMDP, simulator, PomdpTable where the state is not seen (``.pomdp`` files), or Alternatives (``idoutcome``)
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
    >>> columns = {"idstatefrom": ["a", "a", "b"], "idaction": ["go", "go", "rest"], "idstateto": ["a", "b", "b"],
    ...            "probability": [0.5, 0.5, 1.0], "cost": [3.0, 1.0, 0.0]}
    >>> tailwise.load(columns, horizon=5, start="b").state_labels
    ('a', 'b')
    """
    common: dict[str, Any] = {"horizon": None if horizon is OWN else horizon, "discount": discount, "start": start}
    is_endless = horizon is None
    named = None if kind is None else find_format(kind)
    if kind is not None and named is None:
        raise UnknownNameError(f"kind={kind!r}: there are {', '.join(item.name for item in list_formats())}")
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        spec = parse_spec(text if named is None else f"{named.name}:{text}")
        for name, value in spec.options:
            if name not in common:
                options.setdefault(name, value)
            elif (name, value) == ("horizon", "none"):
                is_endless |= horizon is OWN
            elif common[name] is None:
                common[name] = value
        found = find_format(spec.scheme)
        assert found is not None
        model = _read(found, spec.target, _given(common), options)
    elif isinstance(source, TabularMDP):
        _refuse(options, (), "a table")
        model = with_common(source, _given(common))
    elif hasattr(source, "read"):
        model = _read_stream(source, named, _given(common), options)
    else:
        model = _read_frame(source, _given(common), options)
    return without_horizon(model) if is_endless else model


def _read_frame(source: Any, common: dict[str, Any], options: dict[str, Any]) -> Any:
    from tailwise.formats.kinds.columns import read_frame
    from tailwise.formats.kinds.document import is_frame_or_nested, is_list, read_document

    if is_frame_or_nested(source):
        _refuse(options, tuple(ListOptions.__annotations__), "data frames")
        asked = ListOptions(**common, **options)
        return read_frame(source, asked) if is_list(source) else read_document(source, asked, "the table")
    raise OptionError(
        f"expected a path, a specification, a data frame, an open file or a TabularMDP, not {type(source).__name__}; "
        "arrays and objects of other libraries have functions of their own: tailwise.formats.from_mdptoolbox, "
        "from_discrete_dp, TabularMDP.from_arrays, TabularMDP.from_gymnasium, GymnasiumSimulator"
    )


def without_horizon(model: TabularMDP | Simulator | PomdpTable | PartlyObserved) -> TabularMDP | Simulator:
    """Return a model without a horizon: a table, or a simulator that lists its outcomes."""
    if isinstance(model, PomdpTable):
        raise OptionError(f"{model.name} has hidden states, which are solved up to a horizon: give one")
    if not lists_outcomes(model):
        raise OptionError(
            f"{model_name(model)} does not list its outcomes, so that it is sampled, up to a horizon: give one"
        )
    return model.with_options(horizon=None) if hasattr(model, "with_options") else with_common(model, {"horizon": None})


def with_common(
    model: TabularMDP | Simulator | PomdpTable | PartlyObserved, common: dict[str, Any]
) -> TabularMDP | Simulator:
    """Apply the horizon, discount and start that were given to a model that is already there."""
    if not common:
        return model  # type: ignore[return-value]  # whoever loads a file of hidden states knows
    if isinstance(model, TabularMDP):
        if "start" in common:  # a name before it is an index: 1 is the state "1" of a source that counts from 1
            common = common | {"start": model.find_state(str(common["start"]))}
        model = model.with_options(**common)
        model.require_sound(endless=True)
        return model
    if isinstance(model, PomdpTable):
        hidden: Any = model.with_options(**common)
        return hidden  # type: ignore[no-any-return]
    for name, value in common.items():
        if name == "start" and isinstance(value, str):
            raise OptionError(f"{type(model).__name__} is a simulator: its states have no labels; start= is for tables")
        try:
            setattr(model, name, value)
        except (AttributeError, TypeError) as error:
            raise OptionError(f"{type(model).__name__} takes no other {name}: {error}") from None
    return model  # type: ignore[return-value]  # as above


def _given(common: dict[str, Any]) -> dict[str, Any]:
    if isinstance(common["discount"], (int, float)) and common["discount"] == 0:  # only the first step counts
        common |= {"discount": 1.0, "horizon": 1}
    CommonOptions(**common)
    return {name: value for name, value in common.items() if value is not None}


def _read(found: Format, target: str, common: dict[str, Any], options: dict[str, Any]) -> TabularMDP | Simulator:
    passed, rest = dict(common), {}
    if found.options is not None:
        own = tuple(name for name in found.options if name not in COMMON)
        _refuse(options, own, f"{found.name} {'files' if found.is_file else 'models'}")
        rest = {name: passed.pop(name) for name in common if name not in found.options}
    begun = time.perf_counter()
    model = found.read(_existing(target) if found.is_file else target, **passed, **options)
    _log.info("read %s as %s in %.2f s", target, found.name, time.perf_counter() - begun)
    return with_common(model, rest)


def _read_stream(
    stream: Any, named: Format | None, common: dict[str, Any], options: dict[str, Any]
) -> TabularMDP | Simulator:
    """Read an open file: from its path if it has one, else from a copy."""
    name = getattr(stream, "name", None)
    name = name if isinstance(name, str) else ""
    found = named or (format_of_file(Path(name).name) if name else None)
    if found is None or not found.is_file:
        raise OptionError("an open file without a name that says its format: say which with kind='csv', for example")
    if is_file(name) and stream.tell() == 0:
        return _read(found, name, common, options)
    content = stream.read()
    with TemporaryDirectory(prefix="tailwise-") as folder:
        copy = Path(folder) / (Path(name).name or f"stream{found.extensions[0] if found.extensions else ''}")
        copy.write_bytes(content.encode() if isinstance(content, str) else bytes(content))
        try:
            return _read(found, str(copy), common, options)
        except TailwiseError as error:
            raise type(error)(str(error).replace(str(copy), copy.name)) from None


def require_source(text: str, kind: str | None = None) -> None:
    """Raise where a specification names a file that is not there, or no domain, before anything else is done."""
    spec = parse_spec(f"{kind}:{text}" if kind else text)
    found = find_format(spec.scheme)
    if found is not None and found.is_file:
        _existing(spec.target)
    elif spec.scheme == "domain":
        from tailwise.domains import require_domain

        require_domain(spec.target)


def _existing(target: str) -> Path:
    path = Path(target)
    try:
        if not path.exists():
            raise FormatError(f"{path}: there is no such file")
        if not path.is_file():
            raise FormatError(f"{path}: it is a folder or a device; expected a file")
        with path.open("rb"):
            return path
    except OSError as error:
        shown = target if len(target) < 200 else target[:200] + "..."
        raise FormatError(f"{shown}: it cannot be read: {error.strerror}") from None


def _refuse(options: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise OptionError(f"unknown option {unknown[0]!r}; {what} take {', '.join((*COMMON, *known))}")


def writer_of(target: Path) -> Callable[..., object]:
    """Return what writes tables to files of that extension, or raise ``UnknownNameError``."""
    found = format_of_file(target.name)
    if found is None or found.write is None:
        endings = ", ".join(ending for item in list_formats() if item.write for ending in item.extensions)
        raise UnknownNameError(
            f"{target}: tables are saved as .npz, .csv or .arrow, not {target.suffix!r}; all: {endings}"
        )
    return found.write


def save(model: TabularMDP, path: str | os.PathLike[str]) -> Path:
    """Save a table; :func:`load` gives an equal one back.

    Parameters
    ----------
    model : TabularMDP
        The table. Simulators have no finite description and cannot be saved.
    path : str or path
        Where to; the extension decides. ``.npz`` holds everything. ``.csv`` is the community's transition
        list, with what a list cannot say in ``NAME.csv.json`` beside it (``.csv.gz`` is the same, compressed);
        ``.arrow`` and ``.parquet`` are the same in one file (extra ``arrow``). Lists cannot hold costs that depend
        on the step.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    FormatError
        If the format cannot hold the table, or the file cannot be written.
    UnknownNameError
        If no format that is written has the extension.
    ModelError
        If ``model`` is no table.

    Examples
    --------
    >>> import tailwise, tempfile, pathlib
    >>> mdp = tailwise.load("mdp-4")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = tailwise.save(mdp, pathlib.Path(folder) / "mdp.csv")
    ...     tailwise.load(path).equals(mdp)
    True
    """
    target = file_path(path)
    require_table(model, "save", "only tables can be saved: tailwise convert makes them of what lists its outcomes")
    write = writer_of(target)
    try:
        with TemporaryDirectory(prefix=".tailwise-", dir=target.parent) as folder:  # whole files or none
            draft = Path(folder) / target.name
            try:
                write(model, draft)
            except FormatError as error:
                raise FormatError(str(error).replace(str(draft), str(target))) from None
            for part in sorted(Path(folder).iterdir(), key=lambda part: part.name == target.name):
                put_in_place(part, target.with_name(part.name))
    except OSError as error:
        raise FormatError(f"{target}: it cannot be written: {error.strerror}") from None
    return target
