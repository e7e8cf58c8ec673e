"""Run what is missing of a reproduction; the folder of a run: a manifest, and one sealed file per sample.

A file is written beside its place and then moved, so that it is there as a whole or not at all,
whenever the run is killed. Its last line seals the rest with a checksum. Nothing in these files
depends on when or how fast they were written: a resumed run ends in the very bytes of one that was
never interrupted. Times go to ``timing.log``, which no one compares. The files call an experiment a cell and the
mixture of conditional Monte Carlo a law, as those of earlier versions do.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise import __version__
from tailwise._files import PART, write_whole
from tailwise._progress import Progress, followed
from tailwise._validate import thread_count, truth
from tailwise.errors import RunError
from tailwise.evaluation.episodes import Episodes
from tailwise.exact import action_frequencies, backward_induction, policy_risk
from tailwise.reproduction.conditional_returns import integrate_episodes
from tailwise.reproduction.experiments import Experiment, Settings, list_experiments
from tailwise.reproduction.variants import ORACLE, variant_planner


def reproduce(
    out: str | Path,
    settings: Settings | None = None,
    *,
    threads: int = 1,
    resume: bool = False,
    progress: Progress = None,
) -> RunFolder:
    """Run the paper's experiments and keep their samples.

    Parameters
    ----------
    out : str or Path
        Output folder; a new or empty one, or with ``resume`` that of the same run.
    settings : Settings, optional
        What to run; everything, as in the paper, if not given.
    threads : int, default 1
        Threads over the episodes of an experiment. They do not change the result.
    resume : bool, default False
        Go on with a run that was interrupted.
    progress : bool or callable, optional
        True shows a bar; a function is called with (iterations done, of how many).

    Returns
    -------
    RunFolder
        The folder, complete: see :func:`tailwise.reproduction.summarise`.

    Raises
    ------
    RunError
        If the folder holds something else, or a file in it is damaged.
    """
    workers = thread_count(threads)
    folder, missing = opened(out, settings, resume=resume)
    work = float(sum(experiment.work for experiment in list_experiments(folder.settings)))
    done = work - float(sum(experiment.work for experiment in missing))
    with followed(progress, "reproducing", work) as tick:
        for experiment in missing:
            tick(done)
            begun = time.perf_counter()
            keep(folder, experiment, [play(experiment, folder.settings.seed, range(experiment.episodes), workers)])
            with (folder.path / "timing.log").open("a") as log:
                log.write(f"{time.perf_counter() - begun:9.3f} s  {experiment.name}\n")
            done += experiment.work
        tick(done)
    return folder


def opened(out: str | Path, settings: Settings | None, *, resume: bool) -> tuple[RunFolder, list[Experiment]]:
    """Return the folder of a run, and the experiments that it lacks; or raise, before hours of work, what is wrong."""
    own = Settings() if settings is None else settings
    folder = RunFolder(Path(out), own, resume=truth(resume, "resume"))
    experiments = list_experiments(folder.settings)
    present = {experiment for experiment in experiments if folder.has(experiment)}
    for experiment in present:
        folder.load(experiment)
    return folder, [experiment for experiment in experiments if experiment not in present]


class Sample(NamedTuple):
    """What some episodes of an experiment gave."""

    totals: NDArray[np.float64]
    decisions: NDArray[np.int32] | None  # of plain episodes of a planner
    mixture: NDArray[np.float64] | None  # of conditional Monte Carlo: (episode, total, probability)


def play(experiment: Experiment, seed: int, episodes: range, threads: int = 1) -> Sample:
    """Play some episodes of an experiment, under the root seed of the whole run."""
    mdp, root = experiment.table(), experiment.seed_sequence(seed)
    if experiment.algorithm == ORACLE:
        policy = backward_induction(mdp, experiment.beta)
        return Sample(Episodes(mdp, policy, root).play(episodes)[0], None, None)
    planner = variant_planner(mdp, experiment.beta, experiment.algorithm, experiment.variant)
    if experiment.is_conditional:
        mixture, totals = integrate_episodes(mdp, planner, episodes, root, experiment.iterations, threads=threads)
        return Sample(totals, None, mixture)
    limits = (experiment.iterations, None)
    totals, decisions, _ = Episodes(mdp, planner, root, limits).play(episodes, threads=threads)
    return Sample(totals, decisions, None)


def keep(folder: RunFolder, experiment: Experiment, parts: Sequence[Sample]) -> None:
    """Write the samples of an experiment, all of whose episodes are in ``parts``, in order."""
    totals = np.concatenate([part.totals for part in parts])
    mixtures = [part.mixture for part in parts if part.mixture is not None]
    decisions = [part.decisions for part in parts if part.decisions is not None]
    facts: dict[str, float] = {}
    if decisions:
        mdp = experiment.table()
        shares = action_frequencies(mdp, np.concatenate(decisions))
        facts["frequency_risk"] = policy_risk(mdp, shares, experiment.beta)
    folder.save(experiment, totals, facts, np.concatenate(mixtures) if mixtures else None)


FORMAT = "tailwise reproduction 1"
_SEAL = "# sha256 "


class RunFolder:
    """The output folder of a reproduction.

    Parameters
    ----------
    path : Path
        The folder; made if it is not there.
    settings : Settings
        What is run.
    resume : bool
        Go on with what the folder holds of the very same run.

    Raises
    ------
    RunError
        If the folder holds another run or other files, or its manifest is damaged. Nothing is changed then.
    """

    def __init__(self, path: Path, settings: Settings, *, resume: bool) -> None:
        self.path = path
        self.settings = settings
        manifest = path / "manifest.json"
        wanted = self._manifest()
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; choose another folder")
        if manifest.exists():
            self._check_manifest(manifest, wanted, resume)
        elif path.exists() and any(item.suffix != PART for item in path.iterdir()):
            raise RunError(f"{path} is not empty and holds no run of tailwise; choose another folder")
        try:
            path.mkdir(parents=True, exist_ok=True)
            for half in (*path.glob(f".*{PART}"), *(path / "samples").glob(f".*{PART}")):
                half.unlink()  # a run was killed while it wrote this
            if not manifest.exists():
                write_whole(manifest, [(json.dumps(wanted, indent=2) + "\n").encode()])
            (path / "samples").mkdir(exist_ok=True)
            (path / "figures").mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror}; choose another folder") from None

    def _manifest(self) -> dict[str, Any]:
        import numba

        settings = self.settings
        name = settings.problems[0] if len(settings.problems) == 1 else "all"
        return {
            "format": FORMAT,
            "command": f"tailwise reproduce {name} --seeds {settings.seeds} --seed {settings.seed} "
            + " ".join(f"--variant {variant}" for variant in settings.variants)
            + ("" if settings.most_iterations == 10_000 else f" --most-iterations {settings.most_iterations}"),
            "settings": settings.to_dict(),
            "versions": {
                "tailwise": __version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "numba": numba.__version__,
                "machine": platform.machine(),
            },
            "random numbers": "SFC64; root SeedSequence(seed, spawn_key=(problem, risk level)); one stream per "
            "episode for the environment and one for the planner",
            "cells": [{"name": one.name, **one.to_dict()} for one in list_experiments(settings)],
        }

    def _check_manifest(self, manifest: Path, wanted: dict[str, Any], resume: bool) -> None:
        try:
            found = json.loads(manifest.read_text())
            if not isinstance(found, dict) or found.get("format") != FORMAT:
                raise ValueError("it is not a manifest of this version")
        except (ValueError, OSError) as error:
            raise RunError(
                f"{manifest} is damaged ({error}); the samples beside it are untouched. Restore it, or choose "
                "another folder"
            ) from None
        for part in ("settings", "versions", "cells"):
            if found.get(part) != wanted[part]:
                raise RunError(
                    f"{self.path} holds another run: {_difference(part, found.get(part), wanted[part])}; choose "
                    f"another folder, or go on with that run: {found.get('command')} --out {self.path} --resume"
                )
        if not resume:
            raise RunError(f"{self.path} holds this run already; --resume goes on with it, or choose another folder")

    def has(self, experiment: Experiment) -> bool:
        """Return whether the samples of an experiment are there."""
        return self._path(experiment).exists() and (
            not experiment.is_conditional or self._path(experiment, ".law").exists()
        )

    def save(
        self,
        experiment: Experiment,
        totals: NDArray[np.float64],
        facts: dict[str, float],
        mixture: NDArray[np.float64] | None,
    ) -> None:
        """Write the samples of an experiment; ``mixture`` has columns (episode, total, probability)."""
        head = "# " + json.dumps({"cell": experiment.to_dict(), "facts": facts})
        if mixture is not None:
            rows = [f"{int(episode)},{total!r},{chance!r}" for episode, total, chance in mixture.tolist()]
            self._seal(self._path(experiment, ".law"), [head, "episode,total,probability", *rows])
        rows = [f"{episode},{total!r}" for episode, total in enumerate(totals.tolist())]
        self._seal(self._path(experiment), [head, "episode,total", *rows])

    def load(self, experiment: Experiment) -> tuple[NDArray[np.float64], dict[str, float], NDArray[np.float64] | None]:
        """Read the samples of an experiment back.

        Returns
        -------
        totals : ndarray of float64, shape (episodes,)
            Total of each episode.
        facts : dict
            What else was found.
        mixture : ndarray of float64, shape (k, 3), or None
            Episode, total and probability given the episode; for conditional Monte Carlo.

        Raises
        ------
        RunError
            If a file is damaged or is another experiment's.
        """
        path = self._path(experiment)
        facts, totals = self._read(path, experiment, 2)
        mixture = self._read(self._path(experiment, ".law"), experiment, 3)[1] if experiment.is_conditional else None
        if totals.shape[0] != experiment.episodes:
            raise self._damaged(path, f"{totals.shape[0]} episodes instead of {experiment.episodes}")
        return totals[:, 1].copy(), facts, mixture

    def _path(self, experiment: Experiment, kind: str = "") -> Path:
        return self.path / "samples" / f"{experiment.name}{kind}.csv"

    def _seal(self, path: Path, lines: list[str]) -> None:
        body = ("\n".join(lines) + "\n").encode()
        write_whole(path, [body, f"{_SEAL}{hashlib.sha256(body).hexdigest()}\n".encode()])

    def _read(self, path: Path, experiment: Experiment, columns: int) -> tuple[dict[str, float], NDArray[np.float64]]:
        try:
            body, seal, digest = path.read_bytes().rpartition(_SEAL.encode())
            if not seal or hashlib.sha256(body).hexdigest().encode() != digest.strip():
                raise ValueError("its checksum is wrong")
            head, _, *lines = body.decode().splitlines()
            content = json.loads(head.removeprefix("# "))
            if content["cell"] != experiment.to_dict():
                raise ValueError("it holds another experiment")
            return content["facts"], np.loadtxt(lines, delimiter=",", ndmin=2).reshape(-1, columns)
        except (ValueError, KeyError, OSError) as error:
            raise self._damaged(path, str(error)) from None

    def _damaged(self, path: Path, reason: str) -> RunError:
        return RunError(
            f"{path} is damaged ({reason}). Nothing was changed: move that file away and run again with --resume, "
            "and it alone is computed anew"
        )


def _difference(part: str, found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key, value in wanted.items():
            if found.get(key) != value:
                return f"its {key} is {found.get(key)!r}, not {value!r}"
    return f"its {part} differ"
