"""The compiled tree search: the tree, its rules, the kernel, the anytime driver, and views for people."""

from typing import TYPE_CHECKING

from tailwise._lazy import lazy

if TYPE_CHECKING:
    from tailwise.search.action_rows import ActionRow
    from tailwise.search.anytime_search import AnytimeSearch
    from tailwise.search.backups import Backup, BellmanBackup, OffPolicyBackup, SampledBackup, register_backup
    from tailwise.search.driver import TreeSearch
    from tailwise.search.leaves import Leaf, Rollout, register_leaf
    from tailwise.search.loading import load_search
    from tailwise.search.options import (
        PRESETS,
        LeastValue,
        MostVisited,
        Recommendation,
        SearchKeywords,
        SearchOptions,
        options_of,
    )
    from tailwise.search.plan import Plan, StopReason, load_plan
    from tailwise.search.views import ActionView, NodeView

__all__ = [
    "PRESETS",
    "ActionRow",
    "ActionView",
    "AnytimeSearch",
    "Backup",
    "BellmanBackup",
    "Leaf",
    "LeastValue",
    "MostVisited",
    "NodeView",
    "OffPolicyBackup",
    "Plan",
    "Recommendation",
    "Rollout",
    "SampledBackup",
    "SearchKeywords",
    "SearchOptions",
    "StopReason",
    "TreeSearch",
    "load_plan",
    "load_search",
    "options_of",
    "register_backup",
    "register_leaf",
]

__getattr__ = lazy(__name__)
