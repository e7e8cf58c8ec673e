"""The experiments that make up the reproduction.

One experiment is one algorithm in one variant on one problem at one risk level and one number of
iterations, run for some episodes. All experiments on one problem at one risk level share their random
numbers, so that they meet the same luck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailwise import domains
from tailwise._results import Result
from tailwise._validate import choice, integer
from tailwise.errors import OptionError, UnknownNameError
from tailwise.models import TabularMDP, tabulate
from tailwise.reproduction.published import ACC, DISTRIBUTIONAL, ERM, ORACLE
from tailwise.reproduction.variants import AUTHORS, DEFAULT_VARIANTS, REPAIRED, VARIANTS

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
