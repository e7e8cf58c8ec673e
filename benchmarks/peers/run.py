"""Measure tailwise beside its peers and write docs/peers.md: ``make peers``.

Every measurement is a process of its own with a time limit, and its result a file in .cache/peers; a second call
measures only what is missing. What fails, or does not come to an end, is written down with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
DOMAINS = ("inventory", "machine-maintenance", "battery", "american-put", "sailing")
HORIZONS = {"inventory": 20, "machine-maintenance": 24, "battery": 24, "american-put": 50, "sailing": 40}
GRID, TILES = "gym:ClassicGridworld-v1", "gym:gymnasium_2048/TwentyFortyEight-v0"
NAVIGATION, SYSADMIN = "rddl:Navigation_MDP_ippc2011/1", "rddl:SysAdmin_MDP_ippc2011/1"
OURS = ("tailwise, auto", "tailwise, paper's rule", "tailwise, UCT")
HIDDEN = ("tailwise", "tailwise, histories", "POMDPPlanners, POMCP", "POMDPPlanners, iterated CVaR")
SIMULATIONS = {"tiger": 100, "hidden-wear": 300}  # of a decision, beside a player whose model is drawn in Python
FEWEST = 40  # episodes: with fewer, an interval says nothing


@dataclass(frozen=True)
class Job:
    """One measurement."""

    section: str
    module: str
    options: dict[str, Any]
    round: int = 0
    limit: float = 120.0

    @property
    def name(self) -> str:
        """Name of its file."""
        words = "_".join(str(value) for value in self.options.values() if not isinstance(value, list))
        return re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.section}_{words}_{self.round}")


def exact_jobs(quick: bool) -> Iterator[Job]:
    for states in (1000, 10_000) if quick else (1000, 10_000, 100_000, 1_000_000):
        for turn in range(2 if quick else 3):
            for solver in ("tailwise", "QuantEcon", "pymdptoolbox", "Storm", "tailwise, beta 0.5"):
                yield Job("exact", "exact", {"solver": solver, "states": states}, turn, 90.0)


def endless_jobs(quick: bool) -> Iterator[Job]:
    for states in (10_000,) if quick else (10_000, 100_000):
        for turn in range(2 if quick else 3):
            for solver in ("tailwise", "QuantEcon", "tailwise, beta 0.01"):
                yield Job("endless", "endless", {"solver": solver, "states": states}, turn, 90.0)


def hidden_jobs(quick: bool) -> Iterator[Job]:
    for problem, averse in (("tiger", 0.05), ("hidden-wear", 0.1), ("rock-sample", 0.05)):
        for beta in (0.0, averse):
            for player in HIDDEN if beta == 0.0 else HIDDEN[:2]:  # beta is nothing to the others
                yield Job("hidden", "hidden", {
                    "problem": problem, "name": player, "beta": beta, "milliseconds": 10.0,
                    "episodes": 4 if quick else FEWEST,
                }, limit=120.0)  # fmt: skip
    for problem, simulations in SIMULATIONS.items():
        for player in ("tailwise, histories", "pomdp_py, POMCP"):
            yield Job("simulations", "hidden", {
                "problem": problem, "name": player, "beta": 0.0, "simulations": simulations,
                "episodes": 4 if quick else FEWEST,
            }, limit=600.0)  # fmt: skip


def search_jobs(quick: bool) -> Iterator[Job]:
    most = {
        "tailwise, paper's rule": 6, "tailwise, learned model": 6, "plain Python": 4, "gymcts": 4, "mctx": 4,
        "mctx, batch 64": 3,
    }  # fmt: skip
    for problem in ("mdp-4",) if quick else ("mdp-4", "grid-mdp"):
        for power in (3, 4) if quick else (3, 4, 5, 6):
            for planner, last in most.items():
                if power <= last:
                    yield Job("speed", "search", {
                        "what": "speed", "planner": planner, "problem": problem, "iterations": 10**power,
                        "repeats": 3 if quick else 5,
                    })  # fmt: skip
    yield Job("speed", "search", {
        "what": "speed", "planner": "mctx, no rollout", "problem": "mdp-4", "iterations": 1000, "repeats": 3,
    })  # fmt: skip


def first_jobs(quick: bool, cold: bool) -> Iterator[Job]:
    ours = ("tailwise, paper's rule", "tailwise, learned model")
    for planner in ours if cold else (*ours, "plain Python", "gymcts", "mctx"):
        for turn in range(1 if cold or quick else 3):
            options = {"what": "first_decision", "planner": planner, "problem": "mdp-4", "iterations": 1000}
            yield Job("cold" if cold else "first", "search", options, turn, 300.0)


def quality_jobs(quick: bool) -> Iterator[Job]:
    groups = (
        ["tailwise, learned model", "tailwise, tree, preset auto", "tailwise, paper's rule",
         "paper's rule, constant 10", "tailwise, UCT"],
        ["plain Python"], ["gymcts"], ["mctx"], ["mctx, gumbel"],
    )  # fmt: skip
    for problem in ("mdp-4", "grid-mdp") if quick else ("mdp-4", "grid-mdp", "inventory", "sailing"):
        for iterations in (100,) if quick else (100, 1000):
            for group in groups:
                yield Job("quality", "search", {
                    "what": "quality", "problem": problem, "iterations": iterations, "seeds": 10 if quick else 40,
                    "planners": group, "group": group[0],
                })  # fmt: skip
    defaults = {"what": "domain_defaults", "seeds": 3 if quick else 20, "iterations": 2000 if quick else 20_000}
    yield Job("defaults", "search", defaults, limit=240.0)


def closed_jobs(quick: bool) -> Iterator[Job]:
    plans: list[tuple[str, int, float, tuple[str, ...]]] = []  # problem, horizon, ms, players
    for ms in (1.0, 10.0):
        for domain in DOMAINS:
            players = ("optimal policy", *OURS, "tailwise, learned model", *(("mctx",) if ms == 10.0 else ()))
            plans.append((domain, HORIZONS[domain], ms, players))
        if ms == 10.0:
            plans += [(NAVIGATION, 15, ms, OURS), (SYSADMIN, 15, ms, OURS), (GRID, 20, ms, OURS)]
    plans += [(TILES, 15, 100.0, OURS), (NAVIGATION, 15, 100.0, OURS)]
    plans += [("inventory", 20, 100.0, ("optimal policy", *OURS, "tailwise, learned model"))]
    if quick:
        plans = [row for row in plans if row[0] in ("inventory", GRID, NAVIGATION) and row[2] <= 10.0]
    for problem, horizon, ms, players in plans:
        episodes = max(FEWEST, min(100 if ms < 10 else 80, int(16e3 / (horizon * ms))))
        for player in players:
            yield Job("closed", "closed_loop", {
                "problem": problem, "name": player, "milliseconds": ms, "episodes": 10 if quick else episodes,
            }, limit=240.0)  # fmt: skip
    yield Job("learner", "closed_loop", {
        "what": "learner", "steps": 5000 if quick else 50_000, "episodes": 20 if quick else 60,
    }, limit=240.0)  # fmt: skip


def growth_jobs(quick: bool) -> Iterator[Job]:
    axes = {
        "states": (10**3, 10**4, 10**5, 10**6, 10**7), "actions": (2, 20, 200, 2000, 20_000),
        "outcomes": (1, 10, 100, 1000, 10_000), "horizon": (10, 100, 1000, 10**4, 10**6),
        "iterations": (10**3, 10**4, 10**5, 10**6, 10**7),
    }  # fmt: skip
    for axis, values in axes.items():
        planners = (
            ("paper's rule", "learned model") if axis == "iterations" else ("exact", "paper's rule", "learned model")
        )
        for planner in planners:
            for value in values[:2] if quick else values if planner == planners[0] else values[:4]:
                yield Job("growth", "growth", {"axis": axis, "value": value, "planner": planner}, limit=60.0)


def groups(quick: bool) -> list[tuple[int, list[Job]]]:
    """All measurements in order, with how many run at a time."""
    return [
        (1, list(first_jobs(quick, cold=True))),
        (1, list(exact_jobs(quick))),
        (1, list(endless_jobs(quick))),
        (1, list(hidden_jobs(quick))),
        (1, list(first_jobs(quick, cold=False))),
        (1, list(search_jobs(quick))),
        (2, list(quality_jobs(quick))),
        (2, list(growth_jobs(quick))),
        (2, list(closed_jobs(quick))),
    ]


@dataclass
class Runner:
    """Runs jobs until the time is up, and keeps what they find."""

    out: Path
    until: float
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, job: Job) -> None:
        """Run one, unless its result is there."""
        file = self.out / f"{job.name}.json"
        if file.exists():
            return
        if time.monotonic() > self.until:
            return
        options = {key: value for key, value in job.options.items() if key != "group"}
        command = [sys.executable, str(FOLDER / f"{job.module}.py"), json.dumps(options)]
        begun = time.perf_counter()
        found: dict[str, Any] = {}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=job.limit, env=self.environment, check=False
            )
            if done.returncode == 0:
                found = {"result": json.loads(done.stdout.strip().splitlines()[-1])}
            else:
                words = [line for line in done.stderr.strip().splitlines() if line.strip()] or ["no word"]
                killed = f"killed by signal {-done.returncode}" if done.returncode < 0 else words[-1][:200]
                found = {"failed": killed}
        except subprocess.TimeoutExpired:
            found = {"failed": f"not done within {job.limit:g} s"}
        except (ValueError, IndexError, OSError) as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:200]}
        used = time.perf_counter() - begun
        entry = {"section": job.section, "options": job.options, "round": job.round, "wall": used, **found}
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps(entry) + "\n", encoding="utf-8")
        unfinished.replace(file)
        print(f"{job.name}: {used:.1f} s {found.get('failed', '')}", flush=True)


def environment(out: Path) -> dict[str, str]:
    """One thread for every library; compiled kernels beside the results."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS")}
    return {
        **kept,
        **threads,
        "NUMBA_CACHE_DIR": str(out / "numba"),
        "JAX_PLATFORMS": "cpu",
        "PYTHONWARNINGS": "ignore",
    }


def main() -> None:
    """Measure what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out; into .cache/peers-quick")
    parser.add_argument("--minutes", type=float, default=24.0, help="start nothing after so many minutes")
    parser.add_argument("--page-only", action="store_true", help="write the page from what was measured")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "peers.md")
    parser.add_argument("--retry", action="store_true", help="measure again what failed")
    options = parser.parse_args()
    out = ROOT / ".cache" / ("peers-quick" if options.quick else "peers")
    out.mkdir(parents=True, exist_ok=True)
    if options.retry:
        for file in out.glob("*.json"):
            if "failed" in json.loads(file.read_text(encoding="utf-8")):
                file.unlink()
    begun = time.monotonic()
    runner = Runner(out, begun + 60.0 * options.minutes, environment(out))
    plan = groups(options.quick)
    if not options.page_only:
        if not any((out / f"{job.name}.json").exists() for job in plan[0][1]):
            shutil.rmtree(out / "numba", ignore_errors=True)  # the first decision compiles
        for lanes, jobs in plan:
            with ThreadPoolExecutor(lanes) as pool:
                list(pool.map(runner.run, jobs))
    missing = [job.name for _, jobs in plan for job in jobs if not (out / f"{job.name}.json").exists()]
    from page import write

    write(out, options.page, quick=options.quick, missing=missing)
    print(
        f"{options.page}: written after {(time.monotonic() - begun) / 60:.1f} minutes; {len(missing)} not measured yet"
    )


if __name__ == "__main__":
    main()
