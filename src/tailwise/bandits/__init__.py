"""Risk-aware bandits: the paper's section 3, its baselines, and a compiled loop to run them."""

from tailwise.bandits.algorithms import BanditAlgorithm, EntropicThompson, ErmUcb, LipschitzUcb, Ucb1
from tailwise.bandits.arms import Arm, Bandit, Drift, Outcome
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
    "bernoulli",
    "beta_law",
    "discrete",
    "from_quantile",
    "simulate",
    "truncated_normal",
    "uniform",
]
