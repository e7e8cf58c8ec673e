"""The rules of a search, one file each: how it backs up, values leaves and recommends.

The fourth kind, the exploration bonus, is shared with the bandits: :mod:`tailwise.bonuses`.
"""

from tailwise.search.rules.backup import Backup, Settings, register_backup
from tailwise.search.rules.bellman import BellmanBackup
from tailwise.search.rules.leaf import Leaf, Rollout, register_leaf
from tailwise.search.rules.off_policy import OffPolicyBackup
from tailwise.search.rules.recommendation import LeastValue, MostVisited, Recommendation
from tailwise.search.rules.sampled import SampledBackup

__all__ = [
    "Backup",
    "BellmanBackup",
    "Leaf",
    "LeastValue",
    "MostVisited",
    "OffPolicyBackup",
    "Recommendation",
    "Rollout",
    "SampledBackup",
    "Settings",
    "register_backup",
    "register_leaf",
]
