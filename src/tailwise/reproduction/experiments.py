"""The experiments that make up the reproduction, and the numbers that it is held against.

One experiment is one algorithm in one variant on one problem at one risk level and one number of
iterations, run for some episodes. All experiments on one problem at one risk level share their random
numbers, so that they meet the same luck.

``TABLES`` are the entries of the paper's two tables, with their intervals as printed (low and high
are offsets). ``AUTHORS_CODE`` are results of the authors' public research code, run as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailwise import domains
from tailwise._results import Result
from tailwise._validate import choice, integer
from tailwise.errors import OptionError, UnknownNameError
from tailwise.models import TabularMDP, tabulate
from tailwise.reproduction.variants import (
    ACC,
    AUTHORS,
    DEFAULT_VARIANTS,
    DISTRIBUTIONAL,
    ERM,
    ORACLE,
    REPAIRED,
    VARIANTS,
)

PROBLEMS = ("mdp-4", "grid-mdp")
BETAS = {"mdp-4": (0.1, 0.5, 1.0), "grid-mdp": (0.01, 0.1)}
TABLE_ITERATIONS = {"mdp-4": 1000, "grid-mdp": 10_000}
CURVES = {
    ("mdp-4", 1.0): (100, 200, 500, 1000),
    ("grid-mdp", 0.01): (100, 200, 500, 1000, 2000, 3500, 5000, 10_000),
    ("grid-mdp", 0.1): (100, 200, 500, 1000, 10_000),
}
MORE_EPISODES = 5  # of an mdp-4 table entry, in multiples of the seeds


@dataclass(frozen=True)
class Settings(Result):
    """What is run.

    Attributes
    ----------
    problems : tuple of str
        Of ``PROBLEMS``.
    seeds : int
        Episodes per entry; the paper has 100.
    seed : int
        Root of all randomness.
    variants : tuple of str
        Names of variants (see :mod:`tailwise.reproduction.variants`).
    most_iterations : int
        Larger numbers of iterations are cut down to this; for tests and trials. 10,000 is the paper's.
    """

    problems: tuple[str, ...] = PROBLEMS
    seeds: int = 100
    seed: int = 0
    variants: tuple[str, ...] = DEFAULT_VARIANTS
    most_iterations: int = 10_000

    def __post_init__(self) -> None:
        for problem in self.problems:
            choice(problem, "problem", PROBLEMS)
        integer(self.seeds, "seeds", low=2, hint="an interval needs at least two episodes")
        integer(self.seed, "seed", low=0)
        integer(self.most_iterations, "most_iterations", low=1)
        if not self.problems or not self.variants:
            raise OptionError("at least one problem and one variant are needed")
        for variant in self.variants:
            if variant not in VARIANTS:
                raise UnknownNameError(f"no variant is called {variant!r}; there are {', '.join(VARIANTS)}")


@dataclass(frozen=True)
class Experiment(Result):
    """One run.

    Attributes
    ----------
    problem, algorithm, variant : str
        What is run; the oracle's variant is "exact".
    beta : float
        Risk level.
    iterations : int
        Search iterations of each decision; 0 for the oracle.
    episodes : int
        Number of episodes.
    """

    problem: str
    algorithm: str
    variant: str
    beta: float
    iterations: int
    episodes: int

    def table(self) -> TabularMDP:
        """Return its problem."""
        return tabulate(domains.make(self.problem))

    @property
    def name(self) -> str:
        """Its name, and that of its files."""
        parts = (self.problem, self.algorithm.lower(), self.variant, f"beta-{self.beta:g}")
        return "_".join(parts) + (f"_n-{self.iterations}" if self.iterations else "")

    @property
    def is_conditional(self) -> bool:
        """Whether it is run by conditional Monte Carlo (where the problem has a certain rest)."""
        return self.problem == "grid-mdp" and self.algorithm != ORACLE

    @property
    def work(self) -> int:
        """Iterations in all, for progress and the order of magnitude of the time."""
        return self.episodes * (self.iterations * (20 if self.problem == "mdp-4" else 9) + 1)

    def seed_sequence(self, seed: int) -> np.random.SeedSequence:
        """Return the randomness that all experiments on this problem at this risk level share."""
        key = (PROBLEMS.index(self.problem), BETAS[self.problem].index(self.beta))
        return np.random.SeedSequence(seed, spawn_key=key)


def list_experiments(settings: Settings) -> tuple[Experiment, ...]:
    """Return all experiments of a reproduction, in the order in which they run."""
    found: dict[Experiment, None] = {}
    for problem in settings.problems:
        table = min(TABLE_ITERATIONS[problem], settings.most_iterations)
        many = settings.seeds * (MORE_EPISODES if problem == "mdp-4" else 1)
        for beta in BETAS[problem]:
            found[Experiment(problem, ORACLE, "exact", beta, 0, settings.seeds)] = None
            for variant in settings.variants:
                curve = CURVES.get((problem, beta), ()) if variant in (AUTHORS.name, REPAIRED.name) else ()
                for algorithm in (ERM, ACC, DISTRIBUTIONAL):
                    applies = VARIANTS[variant]
                    if algorithm not in applies.algorithms or problem not in applies.problems:
                        continue
                    found[Experiment(problem, algorithm, variant, beta, table, many)] = None
                    for iterations in curve:
                        if iterations < table:
                            found[Experiment(problem, algorithm, variant, beta, iterations, settings.seeds)] = None
    return tuple(found)


@dataclass(frozen=True)
class Entry(Result):
    """One entry of a table: an empirical entropic risk with its 90 % bootstrap interval, as printed."""

    problem: str
    algorithm: str
    beta: float
    value: float
    low: float
    high: float


def _entry(problem: str, algorithm: str, beta: float, value: float, below: float, above: float) -> Entry:
    return Entry(problem, algorithm, beta, value, value - below, value + above)


TABLES = (
    _entry("mdp-4", ORACLE, 0.1, 1.61, 0.37, 0.38),
    _entry("mdp-4", ACC, 0.1, 1.43, 0.31, 0.33),
    _entry("mdp-4", ERM, 0.1, 1.43, 0.25, 0.28),
    _entry("mdp-4", ORACLE, 0.5, 1.85, 0.08, 0.08),
    _entry("mdp-4", ACC, 0.5, 1.84, 0.08, 0.09),
    _entry("mdp-4", ERM, 0.5, 1.77, 0.06, 0.06),
    _entry("mdp-4", ORACLE, 1.0, 1.79, 0.03, 0.03),
    _entry("mdp-4", ACC, 1.0, 1.77, 0.02, 0.02),
    _entry("mdp-4", ERM, 1.0, 1.83, 0.04, 0.04),
    _entry("grid-mdp", ORACLE, 0.01, 5.37, 1.43, 1.67),
    _entry("grid-mdp", ACC, 0.01, 8.21, 0.40, 0.72),
    _entry("grid-mdp", ERM, 0.01, 6.59, 1.00, 1.24),
    _entry("grid-mdp", ORACLE, 0.1, 9.71, 1.99, 3.08),
    _entry("grid-mdp", ACC, 0.1, 10.09, 1.32, 2.09),
    _entry("grid-mdp", ERM, 0.1, 9.15, 0.11, 0.11),
)


@dataclass(frozen=True)
class CodeRun(Result):
    """The authors' code: an empirical risk ("plain", 90 % interval) or by conditional Monte Carlo (95 %)."""

    problem: str
    algorithm: str
    beta: float
    iterations: int
    episodes: int
    kind: str
    value: float
    low: float | None = None
    high: float | None = None


AUTHORS_CODE = (
    CodeRun("mdp-4", ERM, 0.1, 1000, 100, "plain", 1.433),
    CodeRun("mdp-4", ERM, 0.5, 1000, 100, "plain", 1.769),
    CodeRun("mdp-4", ERM, 1.0, 1000, 100, "plain", 1.830),
    CodeRun("mdp-4", ACC, 0.1, 1000, 100, "plain", 1.428),
    CodeRun("mdp-4", ACC, 0.5, 1000, 100, "plain", 1.841),
    CodeRun("mdp-4", ACC, 1.0, 1000, 100, "plain", 1.764),
    CodeRun("grid-mdp", ERM, 0.01, 100, 100, "plain", 6.89),
    CodeRun("grid-mdp", ERM, 0.01, 500, 100, "plain", 7.19),
    CodeRun("grid-mdp", ERM, 0.01, 1000, 100, "plain", 6.18, 5.54, 7.17),
    CodeRun("grid-mdp", ERM, 0.01, 2000, 100, "plain", 6.21),
    CodeRun("grid-mdp", ERM, 0.01, 10_000, 40, "plain", 6.99, 5.35, 9.74),
    CodeRun("grid-mdp", ERM, 0.1, 1000, 100, "plain", 9.70, 9.07, 10.72),
    CodeRun("grid-mdp", ERM, 0.1, 10_000, 40, "plain", 9.06, 8.88, 9.22),
    CodeRun("grid-mdp", ACC, 0.01, 100, 100, "plain", 8.5),
    CodeRun("grid-mdp", ACC, 0.01, 500, 100, "plain", 7.5),
    CodeRun("grid-mdp", ACC, 0.01, 1000, 100, "plain", 10.1),
    CodeRun("grid-mdp", ACC, 0.01, 2000, 100, "plain", 8.3),
    CodeRun("grid-mdp", ACC, 0.01, 5000, 100, "plain", 7.9),
    CodeRun("grid-mdp", ACC, 0.1, 1000, 100, "plain", 10.35, 9.03, 12.37),
    CodeRun("grid-mdp", ERM, 0.01, 100, 100, "conditional", 7.85),
    CodeRun("grid-mdp", ERM, 0.01, 200, 100, "conditional", 7.65),
    CodeRun("grid-mdp", ERM, 0.01, 500, 100, "conditional", 7.45),
    CodeRun("grid-mdp", ERM, 0.01, 1000, 100, "conditional", 7.45, 7.26, 7.64),
    CodeRun("grid-mdp", ERM, 0.01, 2000, 100, "conditional", 7.43),
    CodeRun("grid-mdp", ERM, 0.01, 10_000, 40, "conditional", 7.41, 7.12, 7.70),
    CodeRun("grid-mdp", ACC, 0.01, 1000, 100, "conditional", 9.41, 8.94, 9.89),
    CodeRun("grid-mdp", ACC, 0.01, 2000, 100, "conditional", 8.86),
    CodeRun("grid-mdp", ACC, 0.01, 5000, 100, "conditional", 8.25),
    CodeRun("grid-mdp", ACC, 0.01, 10_000, 40, "conditional", 8.14, 8.09, 8.20),
    CodeRun("grid-mdp", ERM, 0.1, 1000, 100, "conditional", 10.19, 10.11, 10.26),
    CodeRun("grid-mdp", ERM, 0.1, 10_000, 40, "conditional", 10.21, 10.06, 10.40),
    CodeRun("grid-mdp", ACC, 0.1, 1000, 100, "conditional", 10.24, 10.12, 10.38),
    CodeRun("grid-mdp", ACC, 0.1, 10_000, 40, "conditional", 10.06, 9.97, 10.15),
)
