"""Numbers that the reproduction is held against.

``TABLES`` are the entries of the paper's two tables, with their intervals as printed (low and high
are offsets). ``AUTHORS_CODE`` are results of the authors' public research code, run as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailwise._results import Result

ORACLE, ACC, ERM = "ERM-BI", "Acc-MCTS", "ERM-MCTS"
DISTRIBUTIONAL = "Distributional"  # no entry of the paper's tables


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
    """A result of the authors' code: an empirical risk ("plain"), or one by conditional Monte Carlo ("conditional").

    The interval, where one is known, is of 90 % if plain, and of 95 % if conditional.
    """

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
