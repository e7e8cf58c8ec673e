"""``load_episodes``: from the logs that people have to :class:`Episodes`.

A log is a table with one row a step, in one file or frame, or one file an episode; a table with one row an episode
(``state_0, action_0, cost_0, state_1, ...``); or the arrays that learning libraries keep (D4RL and d3rlpy:
``observations, actions, rewards, terminals``; Minari and others: episodes with one observation more than actions).
All of them become the same columns, and are laid out and checked by :mod:`tailwise.logs.layout`.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailwise._validate import choice, listing
from tailwise.errors import FormatError, OptionError
from tailwise.formats.csv_rows import delimiter, line_finder, numbered_rows
from tailwise.formats.kinds.columns import arrow_table, column_names
from tailwise.formats.list_columns import as_array
from tailwise.logs.columns import Columns, Place, joined
from tailwise.logs.episodes import Episodes
from tailwise.logs.layout import laid_out
from tailwise.models.gymnasium.actions import Discretized

_GUESSES = {
    "episode": "episode episodeid episodes idepisode ep trajectory trajectoryid traj patient patientid subject "
    "subjectid customer customerid user userid id case caseid machine machineid unit unitid run session sessionid "
    "icustayid",
    "step": "step steps t time timestep stage period visit week day month date datetime timestamp index",
    "state": "state states s observation observations obs currentstate fromstate statefrom idstatefrom",
    "action": "action actions a act decision treatment idaction actionid",
    "next_state": "nextstate nextstates snext s2 sp sprime nextobservation nextobservations nextobs tostate stateto "
    "idstateto newstate",
    "cost": "cost costs c loss",
    "reward": "reward rewards r payoff gain",
    "done": "done dones terminal terminals terminated terminations isterminal end final finished",
    "cut": "timeout timeouts truncated truncations truncation",
}
_CHANCES = ("probability", "prob", "transitionprobability", "chance")
_ARE_TRANSITIONS = frozenset((*_CHANCES, "p", "pr", "idstatefrom", "idstateto", "idoutcome"))
_WIDE = re.compile(r"(state|s|observation|obs|action|a|cost|c|reward|r|done)[ _.\-]?([0-9]{1,6})")
_WIDE_MEANING = {"s": "state", "observation": "state", "obs": "state", "a": "action", "c": "cost", "r": "reward"}
_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".ipc")


def load_episodes(
    source: Any,
    *,
    episode: str | None = None,
    step: str | None = None,
    state: str | Sequence[str] | None = None,
    action: str | Sequence[str] | None = None,
    next_state: str | Sequence[str] | None = None,
    cost: str | None = None,
    reward: str | None = None,
    done: str | None = None,
    discretize: Discretized | Mapping[str, Discretized] | None = None,
    gaps: str = "error",
    ends: str = "unknown",
) -> Episodes:
    """Read a log of decisions: visits, weeks, trades.

    Parameters
    ----------
    source : path, sequence of paths, frame, mapping of arrays, or episodes
        A ``.csv``, ``.tsv`` (compressed or not), ``.parquet`` or ``.arrow`` file; a folder or pattern (``runs/*.csv``)
        of files with one episode each; a pandas, polars or pyarrow table; a mapping of columns; arrays as D4RL, d3rlpy
        and Gymnasium users keep them (``observations, actions, rewards, terminals, timeouts``); a Minari dataset, or a
        sequence of episodes: mappings or objects with such arrays, or lists of ``(state, action, reward)`` or
        ``(state, action, reward, next_state, done)``.
    episode, step, state, action, next_state, cost, reward, done : str, optional
        Columns; usual names are guessed, with a note. ``state``, ``next_state`` and ``action`` may be several columns.
        ``step`` orders the rows of an episode (numbers, dates or times); without one, rows count in their order.
    discretize : Discretized or mapping of column to Discretized, optional
        How to bin columns of the state that are continuous: an even grid of ``levels`` over what occurs, or
        ``choices``; a value counts as the nearest.
    gaps : "error", "split" or "ignore", default "error"
        Where step numbers are missing, or a next state is not the state of the next row: refuse, leave out the
        step that leads across, or take the next row as what followed.
    ends : "unknown" or "done", default "unknown"
        Where neither a next state nor ``done`` is logged: whether an episode's last step is cut off, or ends it.

    Returns
    -------
    Episodes
        ``notes`` says what was assumed.

    Raises
    ------
    FormatError
        Naming the row that is wrong, and the way out.
    OptionError
        If a column is not there, or an option is wrong.

    Examples
    --------
    >>> import tailwise
    >>> log = tailwise.load_episodes({"patient": ["a", "a", "b"], "visit": [1, 2, 1], "state": ["ill", "ill", "ill"],
    ...     "action": ["wait", "treat", "treat"], "next_state": ["ill", "well", "well"], "cost": [1, 5, 5]})
    >>> log.num_episodes, log.num_steps, log.state_labels
    (2, 3, ('ill', 'well'))
    """
    given = {
        "episode": episode, "step": step, "state": state, "action": action, "next_state": next_state, "cost": cost,
        "reward": reward, "done": done,
    }  # fmt: skip
    choice(gaps, "gaps", ("error", "split", "ignore"))
    choice(ends, "ends", ("unknown", "done"))
    if isinstance(source, Episodes):
        return source
    if hasattr(source, "iterate_episodes"):  # Minari
        source = list(source.iterate_episodes())
    notes: list[str] = []
    columns = _columns(*_opened(source, given), given, notes)
    return laid_out(columns, discretize, gaps, ends, notes)


def _opened(source: Any, given: dict[str, Any]) -> tuple[Any, str, Place]:
    """Return a table with named columns, what it is called, and what names the place of a row."""
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        path = Path(text).expanduser()
        if path.is_dir():
            return _together([p for p in path.iterdir() if p.name.lower().endswith(_TABLES)], given, text)
        if not path.exists() and glob.has_magic(text):
            return _together(list(path.parent.glob(path.name)), given, text)
        return _read(path)
    if column_names(source) is not None:
        return source, f"the {type(source).__name__}", _row_of(f"the {type(source).__name__}")
    if not isinstance(source, Iterable):
        kind = type(source).__name__
        raise OptionError(f"a log is a path, a table with named columns, arrays or a sequence of episodes, not {kind}")
    parts = list(source)
    if parts and all(isinstance(part, (str, os.PathLike)) for part in parts):
        return _together([Path(part) for part in parts], given)
    return joined(parts), "the episodes", _row_of("the episodes")


def _row_of(source: str) -> Place:
    return lambda row: f"{source}, row {row + 1}"


def _together(paths: list[Path], given: dict[str, Any], text: str = "") -> tuple[Any, str, Place]:
    """One file an episode, unless the files have a column that tells episodes apart."""
    if not paths:
        raise FormatError(f"{text or 'the sequence of files'}: no log there; expected {', '.join(_TABLES)}")
    paths = sorted(paths) if text else paths
    tables, _, places = zip(*map(_read, paths), strict=True)
    names = [[str(name) for name in column_names(table) or ()] for table in tables]
    for path, found in zip(paths, names, strict=True):
        if set(found) != set(names[0]):
            raise FormatError(f"{path}: its columns are not those of {paths[0]}: {', '.join(found)}")
    sizes = [len(as_array(table[column[0]])) for table, column in zip(tables, names, strict=True)]
    together = {name: np.concatenate([as_array(table[name]) for table in tables]) for name in names[0]}
    first = np.append(0, np.cumsum(sizes))

    def place(row: int) -> str:
        file = int(np.searchsorted(first, row, side="right")) - 1
        return str(places[file](row - int(first[file])))

    if given["episode"] is None and "episode" not in _meanings(names[0], given)[0]:
        together["file"] = np.repeat(np.array([path.name for path in paths], dtype=object), sizes)
        given["episode"] = "file"
    return together, text or f"{len(paths)} files", place


def _read(path: Path) -> tuple[Any, str, Place]:
    name = path.name.lower()
    if not path.is_file():
        raise FormatError(f"{path}: there is no such file")
    if not name.endswith(_TABLES):
        raise FormatError(f"{path}: logs are read from {', '.join(_TABLES)}; others: load a frame and give that")
    if name.endswith((".parquet", ".pq", ".arrow", ".feather", ".ipc")):
        return arrow_table(path, is_parquet=name.endswith((".parquet", ".pq"))), f"{path}", _row_of(f"{path}")
    return _read_csv(path), f"{path}", line_finder(path)


def _read_csv(path: Path) -> Any:
    rows = numbered_rows(path)
    line, names = next(rows, (1, []))
    if not names or len(set(names)) != len(names):
        raise FormatError(f"{path}, line {line}: expected a line of column names, each once")
    try:
        import pyarrow as arrow
        from pyarrow import csv
    except ImportError:
        columns = list(zip(*(fields for _, fields in rows), strict=True))
        return dict(zip(names, map(list, columns), strict=True)) if columns else {name: [] for name in names}
    try:
        return csv.read_csv(
            path,
            read_options=csv.ReadOptions(skip_rows=line, column_names=[name.strip() for name in names]),
            parse_options=csv.ParseOptions(delimiter=delimiter(path)),
            convert_options=csv.ConvertOptions(strings_can_be_null=True, auto_dict_encode=False),
        )
    except arrow.ArrowException as error:
        for _ in rows:  # whoever counts lines says which one is wrong
            pass
        raise FormatError(f"{path}: not readable: {str(error)[:200]}") from None


def _columns(table: Any, source: str, place: Place, given: dict[str, Any], notes: list[str]) -> Columns:
    """Find out what the columns of a table mean."""
    table = table.collect() if hasattr(table, "collect_schema") and not hasattr(table, "height") else table
    named = {str(name): name for name in column_names(table) or ()}
    if all(value is None for value in given.values()):
        wide = [match for name in named if (match := _WIDE.fullmatch(name.strip().lower()))]
        initials = {match[1][0] for match in wide}
        if "a" in initials and initials & {"s", "o"}:
            table, rows = _long(table, named)
            named, inner = {name: name for name in table}, place
            place = lambda row: inner(int(rows[row]))  # noqa: E731
            notes.append("read as one row an episode")
    meanings, guessed = _meanings(list(named), given)
    if guessed:
        notes.append(f"columns are read by their names: {', '.join(guessed)}")
    found = {what: [(table[named[name]], name) for name in names] for what, names in meanings.items()}
    sizes = {name: len(column) for pairs in found.values() for column, name in pairs}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise FormatError(f"{source}: columns must be of one length: {shown}; episodes with one observation more than "
                          "actions are given as a sequence of episodes")  # fmt: skip
    return Columns(found, source, place)


def columns_meant(names: list[str]) -> bool:
    """Whether columns of such names are read as a log without being told what they are."""
    if _ARE_TRANSITIONS & set(map(_plain, names)):
        return False
    wide = {_WIDE_MEANING.get(m[1], m[1]) for name in names if (m := _WIDE.fullmatch(name.strip().lower()))}
    try:
        return {"state", "action"} <= wide or bool(_meanings(names, {}))
    except FormatError:
        return False


def _meanings(names: list[str], given: Mapping[str, Any]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the columns of each meaning, and what was guessed, in words."""
    found: dict[str, list[str]] = {}
    for what, value in given.items():
        if value is not None:
            found[what] = [value] if isinstance(value, str) else list(map(str, listing(value, what, "columns")))
            absent = [name for name in found[what] if name not in names]
            if absent or not found[what]:
                raise OptionError(
                    f"{what}: there is no column {', '.join(absent) or value!r}; there are {', '.join(names)}"
                )
    taken = {name for columns in found.values() for name in columns}
    guessed = []
    for what, words in _GUESSES.items():
        if what in found or (what in ("cost", "reward") and ("cost" in found or "reward" in found)):
            continue
        plain = {_plain(name): name for name in names if name not in taken}
        name = next((plain[word] for word in words.split() if word in plain), None)
        if name is not None:
            found[what] = [name]
            taken.add(name)
            if name != what:
                guessed.append(f"{name} as {what}")
    _refuse_transitions(names, found)
    for what in ("state", "action"):
        if what not in found:
            raise FormatError(
                f"the log has no column for the {what}; say {what}=COLUMN; it has {', '.join(names) or 'none'}"
            )
    if ("cost" in found) == ("reward" in found):
        both = "cost" in found
        raise FormatError(
            "the log has " + ("both costs and rewards; say cost=COLUMN or reward=COLUMN" if both else
            f"no column of costs or rewards; say cost=COLUMN or reward=COLUMN; it has {', '.join(names)}")
        )  # fmt: skip
    return found, guessed


def _plain(name: str) -> str:
    """Return a column's name as it is compared with those that are known."""
    return re.sub(r"[^a-z0-9]", "", name.lower().replace("'", "prime"))


def _refuse_transitions(names: list[str], found: Mapping[str, list[str]]) -> None:
    """Refuse a list of transitions, which says how probable each is and not in which episode it happened."""
    chance = next((name for name in names if _plain(name) in _CHANCES), None)
    if chance is not None and "next_state" in found and not {"episode", "step"} & set(found):
        raise FormatError(
            f"these are transitions and how probable each is (column {chance}), not a log of what happened: load them "
            "as a model, as 'tailwise plan FILE' does; if it is a log, say episode=COLUMN or step=COLUMN"
        )


def _long(table: Any, named: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Turn one row an episode into one row a step; also return the row that each came from."""
    parts: dict[tuple[str, int], Any] = {}
    for name, own in named.items():
        match = _WIDE.fullmatch(name.strip().lower())
        if match:
            parts[_WIDE_MEANING.get(match[1], match[1]), int(match[2])] = as_array(table[own]).astype(object)
    steps = sorted({k for _, k in parts})
    size = next(iter(parts.values())).size
    nothing = np.full(size, None, dtype=object)
    columns: dict[str, Any] = {
        what: np.stack([parts.get((what, k), nothing) for k in steps], axis=1).reshape(-1)
        for what in sorted({meaning for meaning, _ in parts})
    }
    rows = np.repeat(np.arange(size), len(steps))
    columns["episode"], columns["step"] = rows, np.tile(np.arange(len(steps)), size)
    kept = np.array([any(v is not None and v == v for v in pair) for pair in zip(columns["state"], columns["action"])])  # noqa: B905
    return {name: column[kept] for name, column in columns.items()}, rows[kept]
