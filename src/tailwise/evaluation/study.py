"""Studies: models times planners times objectives times seeds, kept in a folder, and gone on with after a kill.

Each run is a file of its own (``runs/*.tailwise``), named after all that it depends on; what is there already is not
done again. Planners of one model and objective meet the same luck seed by seed, so that they are compared in pairs.
"""

from __future__ import annotations

import ast
import concurrent.futures
import functools
import hashlib
import json
import multiprocessing
import sys
import sysconfig
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tailwise import __version__
from tailwise._files import Record, read_record, write_record
from tailwise._lazy import own_module
from tailwise._progress import Progress, followed
from tailwise._results import Columns, Tabled
from tailwise._validate import file_path, integer, real
from tailwise.errors import OptionError, TailwiseError
from tailwise.evaluation.comparison import Comparison, compare
from tailwise.evaluation.episodes import evaluate
from tailwise.evaluation.returns import Returns, episode_columns
from tailwise.formats import load
from tailwise.formats.registry import is_file, parse_spec
from tailwise.models import Simulator, TabularMDP
from tailwise.planners import Planner, find_planner, make_planner
from tailwise.risk.criteria import objective_of
from tailwise.risk.objectives import Objective

_KIND = "study-run"


class Run(NamedTuple):
    """One cell of a study: all that its episodes depend on."""

    model: str
    digest: str  # of the content of the model's file, and of modules of one's own
    model_options: tuple[tuple[str, Any], ...]
    planner: str  # its label
    kind: str
    planner_options: tuple[tuple[str, Any], ...]
    objective: tuple[tuple[str, float], ...]
    seed: int
    episodes: int
    iterations: int | None
    seconds: float | None

    @property
    def key(self) -> str:
        """Name of its file: a checksum of all but the label."""
        said = json.dumps([__version__, *self._replace(planner=self.kind)], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:20]

    def player(self) -> tuple[TabularMDP | Simulator, object]:
        """Return the model, and the planner or the policy that it knows at once."""
        model = load(self.model, **dict(self.model_options))
        objective = objective_of(**dict(self.objective))
        planner: Any = make_planner(model, objective, kind=self.kind, **dict(self.planner_options))
        return model, getattr(planner, "fixed_policy", planner)

    def play(self, path: Path) -> None:
        """Play the episodes and write the file."""
        begun = time.perf_counter()
        model, player = self.player()
        work: dict[str, Any] = {}
        if isinstance(player, Planner):
            work = {"iterations": self.iterations, "seconds": self.seconds}
        found = evaluate(model, player, episodes=self.episodes, seed=self.seed, label=self.planner, **work)
        content: dict[str, Any] = {"sense": found.sense, "streams": list(found.streams), "notes": list(found.notes)}
        content |= {"seconds": time.perf_counter() - begun, "run": list(self)}
        write_record(path, _KIND, 1, Record(content, [found.costs]))


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is to be played.

    Attributes
    ----------
    models : sequence of str or dict
        Domains, files or ``gym:ID``, as :func:`tailwise.load` takes them; with options as a dict that has "model".
    planners : sequence of str or dict
        Kinds of :func:`tailwise.make_planner`; with options as a dict that has "kind", and perhaps a "label". The rest
        is compared with the first.
    objectives : sequence of dict
        Each as on the command line: ``{"beta": 0.1}``, ``{"cvar": 0.95}``, ``{"cvar": 0.95, "within": 40}``.
    seeds : int or sequence of int, default 1
        Seeds, or how many, from 0 on.
    episodes : int, default 100
        Episodes of each run.
    iterations, seconds : optional
        Work of each decision, as in :func:`tailwise.evaluate`.

    Raises
    ------
    OptionError
        If anything cannot be, before anything is played.

    Examples
    --------
    >>> import tempfile
    >>> from tailwise.evaluation import Study
    >>> study = Study(models="mdp-4", planners=["exact", "uct"], objectives={"beta": 1.0}, iterations=50, episodes=20)
    >>> results = study.run(tempfile.mkdtemp())
    >>> [row["planner"] for row in results.rows]
    ['exact', 'uct']
    """

    models: Any
    planners: Any
    objectives: Any
    seeds: Any = 1
    episodes: int = 100
    iterations: int | None = None
    seconds: float | None = None
    runs: tuple[Run, ...] = field(init=False)

    def __post_init__(self) -> None:
        integer(self.episodes, "episodes", low=1)
        if self.iterations is not None:
            integer(self.iterations, "iterations", low=1)
        if self.seconds is not None:
            real(self.seconds, "seconds", low=0.0, ends="(]")
        given = self.seeds
        seeds = list(given) if isinstance(given, (list, tuple, range)) else range(integer(given, "seeds", low=1))
        models = [_named(item, "model", "models") for item in _several(self.models, "models")]
        planners = [_named(item, "kind", "planners") for item in _several(self.planners, "planners")]
        labelled = [(str(options.pop("label", kind)), kind, options) for kind, options in planners]
        if len({label for label, _, _ in labelled}) < len(labelled):
            raise OptionError("planners: two have one name; give each a label")
        for _, kind, _ in labelled:
            if kind != "auto":
                find_planner(kind)
        objectives = _several(self.objectives, "objectives")
        for item in objectives:
            if not isinstance(item, Mapping):
                raise OptionError(f"objectives: {item!r} is no table such as {{beta = 0.1}} or {{cvar = 0.95}}")
            objective_of(**item)
        found = [
            Run(
                model, _digest(model, kind), _pairs(model_options), label, kind, _pairs(options), _pairs(objective),
                integer(seed, "seeds", low=0), self.episodes, self.iterations, self.seconds,
            )
            for model, model_options in models
            for objective in objectives
            for label, kind, options in labelled
            for seed in seeds
        ]  # fmt: skip
        seen: set[str] = set()
        for run in found:
            if run.key in seen:
                raise OptionError(
                    f"a study plays everything once: {run.planner} on {run.model} with seed {run.seed} is named twice"
                )
            seen.add(run.key)
        object.__setattr__(self, "runs", tuple(found))

    def run(self, out: str | Path, *, processes: int = 1, progress: Progress = None) -> StudyResults:
        """Play what is missing in a folder, and return all of it.

        Parameters
        ----------
        out : str or Path
            Folder; what an earlier call finished there is kept.
        processes : int, default 1
            Runs at the same time, each in a process of its own, at most 61. They do not change the results.
        progress : bool or callable, optional
            True shows a bar; a function is called with (runs done, of how many).
        """
        integer(processes, "processes", low=1, high=61)  # more a pool does not take on Windows
        folder = file_path(out) / "runs"
        paths = {run: folder / f"{run.key}.tailwise" for run in self.runs}
        missing = [run for run, path in paths.items() if not path.exists()]
        for run in {run._replace(seed=0): run for run in missing}.values():
            run.player()  # what cannot be is said before anything is played
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"{out} is no folder that can be written to: {error.strerror}") from None
        done = len(paths) - len(missing)
        with followed(progress, "playing", len(paths)) as tick:
            for count, _ in enumerate(_played(missing, paths, processes), done + 1):
                tick(count)
        return StudyResults(self, Path(out), {run: read_record(path, _KIND, 1) for run, path in paths.items()})


class StudyResults(Tabled):
    """What a study found: a table with a row for each model, objective and planner, all seeds together.

    Its columns are model, objective, planner, episodes, value (of the objective), low, high (90 % interval), mean, std,
    worst, seconds and, against the first planner on the same luck, difference, difference_low, difference_high.

    Attributes
    ----------
    study : Study
        What was played.
    folder : Path
        Where it is kept.
    rows : list of dict
        The table.
    """

    def __init__(self, study: Study, folder: Path, records: Mapping[Run, Any]) -> None:
        self.study, self.folder, self._records = study, folder, records
        groups: dict[tuple[Any, ...], dict[str, list[Run]]] = {}
        for run in study.runs:
            groups.setdefault((run.model, run.model_options, run.objective), {}).setdefault(run.planner, []).append(run)
        self._groups = groups
        self.rows = [row for group in self.groups for row in self._rows(*group)]

    def returns(self, runs: list[Run]) -> Returns:
        """Return the totals of some runs of one planner as one sample."""
        records = [self._records[run] for run in runs]
        notes = tuple(dict.fromkeys(note for record in records for note in record.content["notes"]))
        streams = tuple(int(part) for record in records for part in record.content["streams"])
        totals = np.concatenate([record.arrays[0] for record in records])
        return Returns(totals, records[0].content["sense"], runs[0].planner, streams, notes=notes)

    @cached_property
    def groups(self) -> list[tuple[Run, Objective, list[tuple[Returns, Comparison]]]]:
        """Of each model and objective, a run, the objective, and totals and comparisons of all planners."""
        found = []
        for group in self._groups.values():
            (run, *_), *_ = group.values()
            objective, parts = objective_of(**dict(run.objective)), [self.returns(runs) for runs in group.values()]
            found.append((run, objective, [(part, compare(part, parts[0], objective)) for part in parts]))
        return found

    def _rows(
        self, run: Run, objective: Objective, parts: list[tuple[Returns, Comparison]]
    ) -> Iterator[dict[str, Any]]:
        for found, versus in parts:
            summary = found.summary(objective)
            runs = self._groups[run.model, run.model_options, run.objective][found.label]
            yield {
                "model": run.model, "objective": objective.words, "planner": found.label, "episodes": found.episodes,
                "value": summary.value, "low": summary.estimates[0].low, "high": summary.estimates[0].high,
                "mean": found.mean, "std": found.std,
                "worst": found.maximum if found.sense == "cost" else found.minimum,
                "seconds": sum(self._records[one].content["seconds"] for one in runs),
                "difference": versus.difference, "difference_low": versus.interval.low,
                "difference_high": versus.interval.high,
            }  # fmt: skip

    def to_columns(self) -> Columns:
        """Return the table column by column, by name."""
        return {name: [row[name] for row in self.rows] for name in self.rows[0]}

    def episode_columns(self) -> Columns:
        """Return every episode's total: model, objective, planner, seed, episode, total and the settings of its run."""
        return episode_columns((_settings(run), record.arrays[0]) for run, record in self._records.items())


def _settings(run: Run) -> dict[str, Any]:
    """Return all that the episodes of a run depend on, by name."""
    return {
        "model": run.model, "objective": objective_of(**dict(run.objective)).words, "planner": run.planner,
        "kind": run.kind, "seed": run.seed, "iterations": run.iterations, "seconds": run.seconds,
        "model_options": _text(run.model_options), "planner_options": _text(run.planner_options),
    }  # fmt: skip


def load_study(path: str | Path) -> tuple[Study, Path]:
    """Read a study from a TOML file with the arguments of :class:`Study`; return it and its folder.

    The folder is the file's ``out``, beside the file, or else the file's name without its ending.

    Raises
    ------
    OptionError
        If the file is no TOML, or names what a study does not have.
    """
    file = file_path(path)
    if not file.is_file():
        raise OptionError(f"there is no file {file}")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{file} is no TOML: {error}") from None
    out = file.parent / str(content.pop("out", file.stem))
    known = {"models", "planners", "objectives", "seeds", "episodes", "iterations", "seconds"}
    if unknown := sorted(set(content) - known):
        raise OptionError(f"{file}: {unknown[0]!r} is none of {', '.join(sorted(known | {'out'}))}")
    if lacking := sorted({"models", "planners", "objectives"} - set(content)):
        raise OptionError(f"{file}: {lacking[0]} is missing")
    try:
        content["models"] = [_beside(item, file.parent) for item in _several(content["models"], "models")]
        return Study(**content), out
    except TailwiseError as error:
        error.args = (f"{file}: {error}",)
        raise


def _beside(item: Any, folder: Path) -> Any:
    """Return a model whose file stands beside the study's with that path."""
    if isinstance(item, Mapping):
        return {**item, "model": _beside(item.get("model"), folder)}
    return str(folder / item) if isinstance(item, str) and (folder / item.partition("?")[0]).is_file() else item


def _played(missing: list[Run], paths: Mapping[Run, Path], processes: int) -> Iterator[None]:
    """Play runs, and yield after each."""
    if processes == 1 or len(missing) < 2:
        for run in missing:
            run.play(paths[run])
            yield
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy threads that kernels started
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context) as pool:
        jobs = [pool.submit(run.play, paths[run]) for run in missing]
        try:
            for job in concurrent.futures.as_completed(jobs):
                job.result()
                yield
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _several(given: Any, name: str) -> list[Any]:
    found = [given] if isinstance(given, (str, Mapping)) else given
    if not isinstance(found, (list, tuple)):
        raise OptionError(f"{name} must be a list of names or tables, not {given!r}")
    if not found:
        raise OptionError(f"{name} is empty")
    return list(found)


def _named(item: Any, key: str, where: str) -> tuple[str, dict[str, Any]]:
    """Return a name and its options."""
    options = {key: item} if isinstance(item, str) else dict(item) if isinstance(item, Mapping) else {}
    name = options.pop(key, None)
    if not isinstance(name, str):
        raise OptionError(f"{where}: {item!r} is no name, and no table with {key} = a name")
    return name, options


def _pairs(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            raise OptionError(f"{name} = {value!r} is a table, and no number, text or list")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return tuple(sorted(plain.items()))


def _text(options: tuple[tuple[str, Any], ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options)


def _digest(model: str, kind: str) -> str:
    """Return checksums of what a run reads beside its settings, so that it is played anew when that was changed."""
    spec = parse_spec(model)
    own = [spec.target, kind] if spec.scheme in ("python", "gym") else [kind]
    files = [path for name in own if ":" in name for path in _sources(name.partition(":")[0])]
    files += [Path(name) for name in dict.fromkeys([spec.target, *spec.target.split(",")]) if is_file(name)]
    return " ".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)


_IMPORTED: dict[Path, bytes] = {}  # files of modules, as they were when they were first asked for


def _sources(module: str) -> list[Path]:
    """Return the file of a module of one's own, and those that it imports from beside it, unless one changed."""
    try:
        file = getattr(own_module(module), "__file__", None)
    except Exception as error:  # whatever importing another's code raises
        raise OptionError(f"{module!r} cannot be imported: {type(error).__name__}: {error}") from error
    if file is None:
        return []
    first = Path(file).resolve()
    depth = module.count(".") + (first.stem == "__init__")
    found, root = [first], first.parents[depth] if depth < len(first.parents) else first
    for path in found:  # which grows
        text = path.read_bytes()
        if (path == first or _is_loaded(path)) and _IMPORTED.setdefault(path, text) != text:
            raise OptionError(
                f"{path.name} has changed since it was imported: start Python anew, so that what it says is played"
            )
        if not _is_others(path):
            found += [one for one in _imports(text, path, root) if one not in found]
    return [first, *sorted(found[1:])]


def _is_others(file: Path) -> bool:
    """Return whether a module is installed, or of the library or of Python: what it imports is not followed."""
    homes = {Path(sysconfig.get_path("stdlib")).resolve(), Path(__file__).resolve().parents[1]}
    return not {"site-packages", "dist-packages"}.isdisjoint(file.parts) or not homes.isdisjoint(file.parents)


def _is_loaded(path: Path) -> bool:
    """Return whether Python has imported a file."""
    files = [str(getattr(one, "__file__", "")) for one in list(sys.modules.values())]
    return any(Path(file).resolve() == path for file in files if file.endswith(path.name))


@functools.lru_cache(maxsize=4096)
def _imports(text: bytes, path: Path, root: Path) -> tuple[Path, ...]:
    """Return the files under a folder that a module names in its imports, each once."""
    return tuple(dict.fromkeys(one for one in _named_in(text, path, root) if root in one.parents))


def _named_in(text: bytes, path: Path, root: Path) -> Iterator[Path]:
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):  # of a compiled module
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            places = [(root, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if node.level else root
            places = [(base, f"{node.module or ''}.{alias.name}".strip(".")) for alias in node.names]
        else:
            continue
        for base, name in places:
            for part in name.split("."):
                base /= part
                yield from (one for one in (base.with_suffix(".py"), base / "__init__.py") if one.is_file())
