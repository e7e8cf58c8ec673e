"""Risk-aware bandits: the paper's section 3, its baselines, and a compiled loop to run them."""

from tailwise.bandits.algorithms import BanditAlgorithm, EntropicThompson, ErmUcb, LipschitzUcb, Ucb1
from tailwise.bandits.arms import Arm, Bandit, Drift, Outcome
from tailwise.bandits.catalog import BANDITS, make_bandit
from tailwise.bandits.guarantees import bandit_constants
from tailwise.bandits.laws import (
    CostLaw,
    bernoulli,
    beta_law,
    discrete,
    from_quantile,
    truncated_normal,
    uniform,
)
from tailwise.bandits.simulate import BanditRun, simulate
from tailwise.bandits.studies import (
    ALGORITHMS,
    ConvergenceRow,
    convergence_rows,
    convergence_study,
    make_algorithm,
    runs_over_beta,
    transient,
)

__all__ = [
    "ALGORITHMS",
    "BANDITS",
    "Arm",
    "Bandit",
    "BanditAlgorithm",
    "BanditRun",
    "ConvergenceRow",
    "CostLaw",
    "Drift",
    "EntropicThompson",
    "ErmUcb",
    "LipschitzUcb",
    "Outcome",
    "Ucb1",
    "bandit_constants",
    "bernoulli",
    "beta_law",
    "convergence_rows",
    "convergence_study",
    "discrete",
    "from_quantile",
    "make_algorithm",
    "make_bandit",
    "runs_over_beta",
    "simulate",
    "transient",
    "truncated_normal",
    "uniform",
]
