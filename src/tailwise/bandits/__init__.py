"""Risk-aware bandits: the paper's section 3, its baselines, and a compiled loop to run them."""

from tailwise.bandits.algorithms import (
    ALGORITHMS,
    BanditAlgorithm,
    EntropicThompson,
    ErmUcb,
    LipschitzUcb,
    Ucb1,
    make_algorithm,
)
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

__all__ = [
    "ALGORITHMS",
    "BANDITS",
    "Arm",
    "Bandit",
    "BanditAlgorithm",
    "BanditRun",
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
    "discrete",
    "from_quantile",
    "make_algorithm",
    "make_bandit",
    "simulate",
    "truncated_normal",
    "uniform",
]
