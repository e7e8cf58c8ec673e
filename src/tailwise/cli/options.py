"""Arguments and options, one set for all commands: what a model, an objective, a limit or an output is said with.

A command names the sets that it takes; each is a dataclass (:func:`tailwise.cli.app.command`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from tailwise._progress import activity
from tailwise._results import set_printoptions
from tailwise._validate import integer, real, thread_count
from tailwise.errors import OptionError

if TYPE_CHECKING:
    from tailwise.models import Simulator, TabularMDP
    from tailwise.report import Document
    from tailwise.risk.objectives import Objective


def whole(text: str) -> int:
    """Read a whole number, written as people write large ones: 20000, 20_000, 2e4."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value.is_integer():
        raise ValueError(f"{text!r} is not a whole number, such as 20000 or 2e4")
    return int(value)


count = functools.partial(typer.Option, parser=whole, metavar="NUMBER")  # an option of a whole number

Number = TypeVar("Number", int, float)


def numbers(text: str, option: str, expected: str, read: Callable[[str], Number]) -> list[Number]:
    """Return the numbers of an option that takes several with commas."""
    try:
        return [read(part) for part in text.split(",")]
    except (ValueError, OverflowError):
        raise OptionError(f"{option} must be {expected}, not {text!r}") from None


NO_HORIZON = "none"


def steps_or_none(text: str) -> int | str:
    """Read a number of decisions, or "none": no horizon."""
    return NO_HORIZON if text.strip().lower() == NO_HORIZON else whole(text)


Steps: TypeAlias = Annotated[int | None, typer.Option("--horizon", help="Number of decisions, if not the model's own.")]
Horizon: TypeAlias = Annotated[
    Any,
    typer.Option(
        parser=steps_or_none, metavar="INTEGER", help="Number of decisions, if not the model's own; none: no horizon."
    ),
]
Discount: TypeAlias = Annotated[float | None, typer.Option(help="Discount factor, if not the model's own.")]
Log: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--log", help="MODEL is a log of decisions, whatever it looks like; --episodes without a number says the same."
    ),
]
State: TypeAlias = Annotated[
    str | None,
    typer.Option("--state", "-s", help="Begin in this state (an index or id as the file counts, or a label)."),
]
Step: TypeAlias = Annotated[int, typer.Option(help="Decide at this step h; the risk level is beta * discount^h.")]
Seed: TypeAlias = Annotated[
    int | None, typer.Option(min=0, help="Seed of all randomness; the same seed repeats a run.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Report: TypeAlias = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Also write a report: one HTML page that works offline.")
]
Iterations: TypeAlias = Annotated[int | None, count("--iterations", "-n", help="Iterations of each decision, as 1e6.")]
Beta: TypeAlias = Annotated[
    float, typer.Option("--beta", "-b", help="Risk level per unit of cost: > 0 averse, 0 the mean, < 0 seeking.")
]
Seconds: TypeAlias = Annotated[float | None, typer.Option("--seconds", "-t", help="Time for each decision.")]
Episodes: TypeAlias = Annotated[int, count("--episodes", "-e", help="Episodes to play.")]
Threads: TypeAlias = Annotated[int, typer.Option(help="Threads; they do not change the result.")]
Bonus: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Constant of the exploration bonus of a tree search, in the unit of the costs; the planner's own if not "
        "given."
    ),
]
MaxMemory: TypeAlias = Annotated[
    int | None, count(metavar="BYTES", help="Bytes that a search may take, as 2e9; it ends there, and answers.")
]
Planner: TypeAlias = Annotated[
    str,
    typer.Option(
        "--planner", "-p",
        help="auto (by model and objective), a name that 'tailwise planners' lists, or package.module:Class.",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Model:
    """Which model, and what is to be another than in its file."""

    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A domain (see 'tailwise domains'), gym:ID, a model file, or a log to learn from."
        ),
    ]
    log: Log = False
    horizon: Horizon = None
    discount: Discount = None

    def __post_init__(self) -> None:
        from tailwise.formats.loading import require_source

        require_source(self.model, self._kind)

    @property
    def _kind(self) -> str | None:
        return "log" if self.log else None

    def load(self, *, start: str | None = None) -> TabularMDP | Simulator:
        """Read it."""
        from tailwise.formats import load
        from tailwise.models.contract import OWN, check_discount, check_horizon

        if isinstance(self.horizon, int):
            check_horizon(self.horizon)
        if self.discount:  # 0 has a meaning of its own
            check_discount(self.discount)
        with activity(f"reading {self.model}"):
            steps = OWN if self.horizon is None else None if self.horizon == NO_HORIZON else self.horizon
            return load(self.model, horizon=steps, discount=self.discount, start=start, kind=self._kind)


@dataclass(frozen=True)
class Aim:
    """What is wanted of the total: one objective, and perhaps a budget."""

    beta: Annotated[
        float | None,
        typer.Option(
            "--beta", "-b", help="ERM at this risk level per unit of cost: > 0 averse, 0 the mean, < 0 seeking."
        ),
    ] = None
    evar: Annotated[float | None, typer.Option(metavar="LEVEL", help="EVaR of the total: 0.95 for the worst 5 %.")] = (
        None
    )
    cvar: Annotated[float | None, typer.Option(metavar="LEVEL", help="CVaR of the total, at this level.")] = None
    nested_cvar: Annotated[float | None, typer.Option(metavar="LEVEL", help="CVaR of CVaR at every step.")] = None
    robust_kl: Annotated[
        float | None, typer.Option(metavar="RADIUS", help="Mean in the worst model within a KL ball around each row.")
    ] = None
    robust_l1: Annotated[
        float | None, typer.Option(metavar="RADIUS", help="The same with L1 balls: half the radius may move.")
    ] = None
    exceed: Annotated[
        float | None,
        typer.Option(metavar="TOTAL", help="Probability that the total exceeds this (of rewards: falls short of it)."),
    ] = None
    within: Annotated[
        float | None,
        typer.Option(metavar="BOUND", help="The mean, such that --beta's ERM or --cvar's CVaR is within this budget."),
    ] = None

    def objective(self) -> Objective:
        """Return it, or raise the error of none or two."""
        from tailwise.risk.criteria import objective_of

        try:
            return objective_of(**vars(self))
        except OptionError as error:
            wrong = ("level", "radius", "threshold", "bound")
            given = [name for name, value in vars(self).items() if value is not None and name != "beta"]
            name, rest = str(error).split(" ", 1)
            if name not in wrong:
                raise
            option = "within" if name == "bound" else next(one for one in given if one != "within")
            raise OptionError(f"--{option.replace('_', '-')} {rest}") from None


Unit: TypeAlias = Annotated[str, typer.Option(help="What costs or rewards are counted in, as EUR: only words change.")]
StepName: TypeAlias = Annotated[str, typer.Option(help="What a step is, as week: only words change.")]


@dataclass(frozen=True)
class Output:
    """Where what was found goes, beside the screen."""

    report: Report = None
    json: Json = False
    unit: Unit = ""
    step_name: StepName = "step"

    def check(self) -> None:
        """Raise, before the work, what would keep a report from being written after it; set the words."""
        from tailwise.cli.output import check_report

        set_printoptions(unit=self.unit, step_name=self.step_name)
        check_report(self.report)

    def save(self, kind: str, *found: Any, **told: Any) -> None:
        """Write the report that ``tailwise.report.{kind}_report`` makes of something, where one is wanted."""
        self.save_document(
            lambda: getattr(importlib.import_module("tailwise.report"), f"{kind}_report")(*found, **told)
        )

    def save_document(self, document: Callable[[], Document]) -> None:
        """Write a report, which may take a while, where one is wanted."""
        if self.report is None:
            return
        with activity("writing the report"):
            made = document()
        made.save(self.report)
        print(f"report: {self.report}", file=sys.stderr)  # where it disturbs no program


def _most_episodes() -> int:
    from tailwise.evaluation.episodes import MOST_EPISODES  # loaded by the commands that play alone

    return MOST_EPISODES


def check_work(
    planners: tuple[str, ...],
    threads: int | None = None,
    *,
    seconds: float | None = None,
    bonus: float | None = None,
    step: int = 0,
    objective: Objective | None = None,
    **counts: int | None,
) -> None:
    """Raise the error of a wrong option before a large model is loaded and played; ``counts`` are at least 1."""
    from tailwise.planners import find_planner
    from tailwise.planners.make import require_pursuit
    from tailwise.search.anytime import plan_limits

    for name, value in counts.items():
        if value is not None:
            integer(value, name, low=1, high=_most_episodes() if name == "episodes" else None)
    plan_limits(counts.get("iterations"), seconds, ends=True)
    integer(step, "step", low=0)
    if bonus is not None:
        real(bonus, "bonus", low=0.0)
    if threads is not None:
        thread_count(threads)
    for name in planners:
        if name != "auto":
            found = find_planner(name)
            if objective is not None:
                require_pursuit(found, objective)


def unused_limits(iterations: int | None, seconds: float | None) -> str:
    """Say what an exact answer has no use for; nothing where neither was given."""
    limits = {"--iterations": iterations, "--seconds": seconds}
    named = " or ".join(option for option, value in limits.items() if value is not None)
    return named and f"What is solved exactly has no use for {named}."


def check_memory(max_memory: int | None) -> None:
    """Raise where a search may take too little, which a model that is solved at once does not ask for."""
    if max_memory is not None:
        integer(max_memory, "--max-memory", low=4096)


Table = Annotated[
    Path | None,
    typer.Option(
        "--policy", metavar="PATH", help="Write what to do at each step in each state, as .csv, .xlsx or .parquet."
    ),
]
Episodic = Annotated[
    Path | None,
    typer.Option(
        "--returns", metavar="PATH", help="Write every episode's total, with its settings, as .csv, .xlsx or .parquet."
    ),
]


@dataclass(frozen=True)
class Judging:
    """How sure the numbers of a sample are to be."""

    confidence: Annotated[float, typer.Option(help="Nominal coverage of the intervals.")] = 0.9
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples.")] = 10_000

    def check(self) -> None:
        """Raise the error of a wrong value before a large model is loaded and played."""
        from tailwise.evaluation.intervals import MOST_RESAMPLES

        real(self.confidence, "confidence", low=0.0, high=1.0, ends="()")
        integer(self.resamples, "resamples", low=100, high=MOST_RESAMPLES)


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster to work on."""

    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Work on a Ray cluster: local (this machine), auto (one that runs here), host:6379 or "
            "ray://host:10001.",
        ),
    ] = None
    workers: Annotated[
        int | None, typer.Option(help="Workers on the cluster, one CPU each; as many as it has CPUs if not given.")
    ] = None

    def check(self) -> None:
        """Raise if workers are given without a cluster."""
        if self.ray is None and self.workers is not None:
            raise OptionError("--workers are those of a cluster: give --ray, as --ray local; for threads: --threads")

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Stay connected, if there is one, for several calls of :mod:`tailwise.scale`."""
        if self.ray is None:
            yield
            return
        from tailwise.scale.cluster import connected

        with contextlib.redirect_stdout(sys.stderr), connected(self.ray, self.workers):
            yield

    def run(self, work: str, *what: Any, **how: Any) -> Any:
        """Return what a function of :mod:`tailwise.scale` does there; what Ray prints of lost workers is no output."""
        from tailwise import scale

        with contextlib.redirect_stdout(sys.stderr):
            return getattr(scale, work)(*what, **how, address=self.ray, workers=self.workers)


def end(result: Any) -> None:
    """Leave with the code of an interruption, where what was found was cut short by Ctrl-C."""
    if getattr(result, "stopped", "") == "interrupted":
        raise typer.Exit(130)
