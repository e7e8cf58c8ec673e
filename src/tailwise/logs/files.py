"""Logs as models, and learned tables as files.

Every door that takes a model takes a log: ``history.csv`` is read as one where its columns say so (states, actions and
costs, but no probabilities), and ``log:history.csv?episode=unit&state=wear,age`` wherever told. A table that
:func:`learn_model` made is saved as ``.npz`` with its counts, its prior and the log's steps, and comes back as it was.
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from tailwise.errors import FormatError, OptionError, TailwiseError
from tailwise.formats.list_options import names
from tailwise.formats.registry import register_format

if TYPE_CHECKING:
    from tailwise.logs.table import LearnedTable

_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".arrow")
_IS_A_LIST = frozenset(("probability", "prob", "p", "pr", "chance", "transitionprobability"))
_ARRAYS = ("counts", "pseudo", "tried", "pool", "pool_counts", "pool_states", "within", "guessed", "weights")
_STEPS = ("first", "states", "actions", "next_states", "losses", "done")
_WORDS = ("sense", "num_states", "num_actions", "state_labels", "action_labels", "source", "notes")
LEARNED = "learned_"


def read_log(
    target: str,
    *,
    episode: str | None = None,
    step: str | None = None,
    state: str | None = None,
    action: str | None = None,
    next_state: str | None = None,
    cost: str | None = None,
    reward: str | None = None,
    done: str | None = None,
    levels: Any = None,
    gaps: str = "error",
    ends: str = "unknown",
    prior: str = "auto",
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
) -> LearnedTable:
    """History of decisions, one row a step (or one file, or row, an episode), to learn a model from."""
    from tailwise.formats.loading import load
    from tailwise.logs.learning import learn_model
    from tailwise.logs.reading import load_episodes

    several = {"state": state, "action": action, "next_state": next_state}
    given: dict[str, Any] = {key: None if value is None else names(value, key) for key, value in several.items()}
    log = load_episodes(
        target, **given, episode=episode, step=step, cost=cost, reward=reward, done=done, gaps=gaps, ends=ends,
        discretize=_bins(levels),
    )  # fmt: skip
    believed: Any = prior if prior in ("auto", "pooled", "worst", "seen") else load(prior)
    factor = 1.0 if discount is None else discount
    return learn_model(
        log, prior=believed, horizon=horizon, discount=factor, start=start, name=Path(target).name.partition(".")[0]
    )  # fmt: skip


def _bins(levels: Any) -> Any:
    """Return how to bin: ``5`` for all columns of the state, or ``wear:5,load:3``."""
    from tailwise.models import Discretized

    if levels is None or isinstance(levels, int):
        return None if levels is None else Discretized(levels=levels)
    try:
        pairs = [part.rpartition(":") for part in names(levels, "levels")]
        return {name: Discretized(levels=int(count)) for name, _, count in pairs if name or int("")}
    except ValueError:
        raise OptionError(f"levels must be a number of bins, or NAME:NUMBER with commas, not {levels!r}") from None


def is_log(path: Path) -> bool:
    """Whether the columns of a file are those of a log, and of no transition list."""
    from tailwise.formats.kinds.frames import column_names
    from tailwise.logs.reading import columns_meant

    name = path.name.lower()
    if not name.endswith(_TABLES) or not path.is_file():
        return False
    try:
        if name.endswith((".parquet", ".arrow")):
            found = column_names(_schema(path)) or []
        else:
            from tailwise.formats.csv_rows import numbered_rows

            found = next(numbered_rows(path), (1, []))[1]
    except (TailwiseError, OSError, ValueError, ImportError):
        return False  # whoever reads it says what is wrong
    plain = {re.sub(r"[^a-z0-9]", "", str(one).lower()) for one in found}
    return not plain & _IS_A_LIST and columns_meant([str(one) for one in found])


def _schema(path: Path) -> Any:
    """Return an empty table with the columns of a Parquet or Arrow file."""
    import pyarrow as arrow
    from pyarrow import ipc, parquet

    if path.name.lower().endswith(".parquet"):
        return parquet.read_schema(path).empty_table()
    with arrow.memory_map(str(path)) as source:
        return ipc.open_file(source).schema.empty_table()


def learned_members(table: LearnedTable) -> dict[str, Any]:
    """Return what a file keeps of a learned table beside the table."""
    from tailwise.formats.kinds.npz import write_npz
    from tailwise.logs.priors import TablePrior

    found, log = table.evidence, table.evidence.episodes
    prior: Any = table.evidence.prior
    members = {name: getattr(found, name) for name in _ARRAYS} | {name: getattr(log, name) for name in _STEPS}
    said = {part.name: getattr(prior, part.name) for part in fields(prior) if part.name != "table"}
    words = {"prior": {"kind": type(prior).__name__, **said}, "log": {name: getattr(log, name) for name in _WORDS}}
    members["words"] = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)
    if isinstance(prior, TablePrior):
        with TemporaryDirectory(prefix="tailwise-") as folder:
            write_npz(prior.table, Path(folder) / "prior.npz")
            members["prior"] = np.frombuffer((Path(folder) / "prior.npz").read_bytes(), dtype=np.uint8)
    return {LEARNED + name: np.ascontiguousarray(array) for name, array in members.items()}


def is_learned(path: Path) -> bool:
    """Whether a file holds a learned table."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{LEARNED}words.npy" in archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return False


def read_learned(target: str) -> LearnedTable:
    """Table that was learned from a log, with its counts."""
    from tailwise.formats.kinds.npz import read_members, read_npz
    from tailwise.logs.episodes import Episodes
    from tailwise.logs.learning import learned_again
    from tailwise.logs.priors import Prior

    path = Path(target)
    table = read_npz(path)
    members = {name.removeprefix(LEARNED): array for name, array in read_members(path, LEARNED).items()}
    try:
        words = json.loads(members["words"].tobytes())
        said = {k: tuple(v) if isinstance(v, list) else v for k, v in words["log"].items()}
        parts: dict[str, Any] = {name: members[name] for name in _STEPS} | said
        log = Episodes(**parts)
        kind: Any = {one.__name__: one for one in Prior.__subclasses__()}[words["prior"].pop("kind")]
        if "prior" in members:
            with TemporaryDirectory(prefix="tailwise-") as folder:
                (Path(folder) / "prior.npz").write_bytes(members["prior"].tobytes())
                words["prior"]["table"] = read_npz(Path(folder) / "prior.npz")
        return learned_again(table, log, kind(**words["prior"]), {name: members[name] for name in _ARRAYS})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"{path}: what it keeps of its log is of another version: {error!r}; learn it again"
        ) from None


register_format("log", read_log, is_file=False, claims=is_log)
register_format("learned", read_learned, is_file=False, claims=is_learned)
