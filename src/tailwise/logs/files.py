"""Logs as models, and learned tables as files.

Every door that takes a model takes a log: ``history.csv`` is read as one where its columns say so (states, actions and
costs, but no probabilities), and ``log:history.csv?episode=unit&state=wear,age`` wherever told. A table that
:func:`learn_model` made is saved as ``.npz`` with its counts, its prior and the log's steps, and comes back as it was.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tailwise.errors import FormatError, OptionError, UnknownNameError
from tailwise.formats.kinds.arrays import read_members, read_npz
from tailwise.formats.options import CommonOptions, names
from tailwise.formats.registry import is_file, register_format
from tailwise.logs.episodes import Episodes
from tailwise.logs.priors import Prior
from tailwise.logs.table import ARRAYS, LEARNED, STEPS

if TYPE_CHECKING:
    from tailwise.logs.table import LearnedTable

_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".arrow")


@dataclass(frozen=True, kw_only=True)
class LogOptions(CommonOptions):
    """How to read a log and learn from it: columns (several with commas), as for :func:`load_episodes`, and a prior."""

    episode: str | None = None
    step: str | None = None
    state: str | None = None
    action: str | None = None
    next_state: str | None = None
    cost: str | None = None
    reward: str | None = None
    done: str | None = None
    levels: Any = None
    gaps: str = "error"
    ends: str = "unknown"
    prior: str = "auto"


def read_log(target: str, **options: Any) -> LearnedTable:
    """History of decisions, one row a step or an episode, to learn a model from."""
    from tailwise.formats.loading import load
    from tailwise.logs.learning import learn_model
    from tailwise.logs.reading import load_episodes

    asked = vars(LogOptions(**options))
    columns = {key: asked[key] for key in ("episode", "step", "cost", "reward", "done", "gaps", "ends")}
    for key in ("state", "action", "next_state"):
        columns[key] = None if asked[key] is None else names(asked[key], key)
    log = load_episodes(target, **columns, discretize=_bins(asked["levels"]))
    prior: Any = asked["prior"]
    if prior not in (named := ("auto", "pooled", "worst", "seen")):
        try:
            prior = load(prior)
        except UnknownNameError as error:
            raise UnknownNameError(f"prior {prior!r} is none of {', '.join(named)}, and no model: {error}") from None
    return learn_model(
        log, prior=prior, horizon=asked["horizon"],
        discount=asked["discount"] or 1.0, start=asked["start"], name=Path(target).name.partition(".")[0],
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
    from tailwise.formats.csv_rows import numbered_rows
    from tailwise.logs.reading import columns_meant

    name = path.name.lower()
    if not name.endswith(_TABLES) or not is_file(str(path)):
        return False
    try:
        if name.endswith(".parquet"):
            found = import_module("pyarrow.parquet").read_schema(path).names
        elif name.endswith(".arrow"):
            with path.open("rb") as source:
                found = import_module("pyarrow.ipc").open_file(source).schema.names
        else:
            found = next(numbered_rows(path), (1, []))[1]
    except Exception:  # whoever reads it says what is wrong
        return False
    return columns_meant(found)


def is_learned(path: Path) -> bool:
    """Whether a file holds a learned table."""
    if path.suffix.lower() != ".npz":
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{LEARNED}words.npy" in archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):  # whoever reads it says what is wrong
        return False


def read_learned(target: str) -> LearnedTable:
    """Table that was learned from a log, with its counts."""
    from tailwise.logs.learning import learned_again

    path = Path(target)
    table = read_npz(path)
    members = {name.removeprefix(LEARNED): array for name, array in read_members(path, LEARNED).items()}
    try:
        words = json.loads(members["words"].tobytes())
        said = {k: tuple(v) if isinstance(v, list) else v for k, v in words["log"].items()}
        parts: dict[str, Any] = {name: members[name] for name in STEPS} | said
        log = Episodes(**parts)
        kind: Any = {one.__name__: one for one in Prior.__subclasses__()}[words["prior"].pop("kind")]
        if "prior" in members:
            with TemporaryDirectory(prefix="tailwise-") as folder:
                (Path(folder) / "prior.npz").write_bytes(members["prior"].tobytes())
                words["prior"]["table"] = read_npz(Path(folder) / "prior.npz")
        return learned_again(table, log, kind(**words["prior"]), {name: members[name] for name in ARRAYS})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"{path}: what it keeps of its log is of another version: {error!r}; learn it again"
        ) from None


register_format("log", read_log, options=LogOptions, is_file=False, claims=is_log)
register_format("learned", read_learned, is_file=False, claims=is_learned)
