"""From a history of decisions to a model that knows what it does not know."""

from typing import TYPE_CHECKING

from tailwise._lazy import lazy

if TYPE_CHECKING:
    from tailwise.logs.columns import BinLoss
    from tailwise.logs.counts import Coverage, PairCount
    from tailwise.logs.episodes import Episodes
    from tailwise.logs.learning import learn_model
    from tailwise.logs.off_policy import OffPolicy, off_policy
    from tailwise.logs.priors import PooledPrior, Prior, SeenPrior, TablePrior, WorstCasePrior
    from tailwise.logs.promises import Logged, Promise, promise
    from tailwise.logs.reading import load_episodes
    from tailwise.logs.table import Evidence, LearnedTable

__all__ = [
    "BinLoss",
    "Coverage",
    "Episodes",
    "Evidence",
    "LearnedTable",
    "Logged",
    "OffPolicy",
    "PairCount",
    "PooledPrior",
    "Prior",
    "Promise",
    "SeenPrior",
    "TablePrior",
    "WorstCasePrior",
    "learn_model",
    "load_episodes",
    "off_policy",
    "promise",
]

__getattr__ = lazy(__name__)
