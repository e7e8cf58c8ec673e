"""Risk-aware bandits: the paper's section 3, its baselines, and a compiled loop to run them."""

from tailwise.bandits.algorithms import (
    ALGORITHMS,
    BanditAlgorithm,
    BonusUcb,
    EntropicThompson,
    ErmUcb,
    LipschitzUcb,
    Ucb1,
    bandit_constants,
    make_algorithm,
)
from tailwise.bandits.arms import BANDITS, Arm, Bandit, Drift, Outcome, make_bandit
from tailwise.bandits.distributions import (
    BoundedDistribution,
    bernoulli,
    beta_distribution,
    discrete,
    from_quantile,
    truncated_normal,
    uniform,
)
from tailwise.bandits.simulate import BanditRun, simulate

__all__ = [
    "ALGORITHMS",
    "BANDITS",
    "Arm",
    "Bandit",
    "BanditAlgorithm",
    "BanditRun",
    "BonusUcb",
    "BoundedDistribution",
    "Drift",
    "EntropicThompson",
    "ErmUcb",
    "LipschitzUcb",
    "Outcome",
    "Ucb1",
    "bandit_constants",
    "bernoulli",
    "beta_distribution",
    "discrete",
    "from_quantile",
    "make_algorithm",
    "make_bandit",
    "simulate",
    "truncated_normal",
    "uniform",
]
