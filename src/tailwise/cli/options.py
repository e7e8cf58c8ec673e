"""Arguments and options that several commands share."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer


def check_workers(ray: str | None, workers: int | None) -> None:
    """Raise if workers are given without a cluster."""
    from tailwise.errors import OptionError

    if ray is None and workers is not None:
        raise OptionError("--workers are those of a cluster: give --ray, as --ray local; for threads: --threads")


def ray_speaks_aside() -> Any:
    """Return a context in which what Ray prints of lost workers goes to standard error: standard output is ours."""
    return contextlib.redirect_stdout(sys.stderr)


@contextlib.contextmanager
def cluster(ray: str | None, workers: int | None) -> Iterator[None]:
    """Stay connected to a cluster, if there is one, for several calls of :mod:`tailwise.scale`."""
    if ray is None:
        yield
        return
    from tailwise.scale.cluster import connected

    with ray_speaks_aside(), connected(ray, workers):
        yield


def whole(text: str) -> int:
    """Read a whole number, written as people write large ones: 20000, 20_000, 2e4."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
    if not value.is_integer():
        raise ValueError(f"{text!r} is not a whole number")
    return int(value)


Model: TypeAlias = Annotated[
    str, typer.Argument(metavar="MODEL", help="A domain (see 'tailwise domains'), gym:ID, or a model file.")
]
Beta: TypeAlias = Annotated[
    float,
    typer.Option("--beta", "-b", help="Risk level per unit of cost: > 0 averse, 0 the mean, < 0 seeking."),
]
BetaOrLevel: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--beta",
        "-b",
        help="Risk level per unit of cost: > 0 averse, 0 the mean, < 0 seeking. Not needed with --level.",
    ),
]
Horizon: TypeAlias = Annotated[int | None, typer.Option(help="Number of decisions, if not the model's own.")]
Discount: TypeAlias = Annotated[float | None, typer.Option(help="Discount factor, if not the model's own.")]
State: TypeAlias = Annotated[
    str | None,
    typer.Option("--state", "-s", help="Decide in this state (index or label) instead of the start."),
]
Seed: TypeAlias = Annotated[int | None, typer.Option(help="Seed of all randomness; the same seed repeats a run.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Iterations: TypeAlias = Annotated[
    int | None,
    typer.Option("--iterations", "-n", parser=whole, metavar="NUMBER", help="Iterations of each decision, as 1e6."),
]
Seconds: TypeAlias = Annotated[float | None, typer.Option("--seconds", "-t", help="Time for each decision.")]
Episodes: TypeAlias = Annotated[
    int, typer.Option("--episodes", "-e", parser=whole, metavar="NUMBER", help="Episodes to play.")
]
Threads: TypeAlias = Annotated[int, typer.Option(help="Threads; they do not change the result.")]
Bonus: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--bonus", "--exploration",
        help="Constant of the exploration bonus of a tree search, in the unit of the costs; the planner's own if not "
        "given.",
    ),
]  # fmt: skip
Planner: TypeAlias = Annotated[
    str,
    typer.Option(
        "--planner", "-p",
        help="auto (by what the model offers), exact, bounded, learned, tree, erm-mcts, acc-mcts, acc-mcts-raw, uct, "
        "uct-polynomial, cvar-mcts, distributional, exact-neutral, or package.module:Class.",
    ),
]  # fmt: skip
Report: TypeAlias = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Also write a report: one HTML page that works offline."),
]
Level: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Least CVaR of the total at this level, 0.95 for the worst 5 %: by cvar-mcts, or distributional if named."
    ),
]
Confidence: TypeAlias = Annotated[float, typer.Option(help="Nominal coverage of the intervals.")]
Resamples: TypeAlias = Annotated[int, typer.Option(help="Bootstrap resamples.")]
Ray: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on a Ray cluster: local (this machine), auto (one that runs here), host:6379 or ray://host:10001.",
    ),
]
Workers: TypeAlias = Annotated[
    int | None, typer.Option(help="Workers on the cluster, one CPU each; as many as it has CPUs if not given.")
]
