"""The compiled tree search: the tree, its rules, the kernel, the anytime driver, and views for people."""

from tailwise.search.action_rows import ActionRow
from tailwise.search.driver import TreeSearch
from tailwise.search.options import PRESETS, SearchKeywords, SearchOptions, options_of
from tailwise.search.plan import Plan, StopReason, load_plan
from tailwise.search.rooted import RootedSearch
from tailwise.search.rules import (
    Backup,
    BellmanBackup,
    Leaf,
    LeastValue,
    MostVisited,
    OffPolicyBackup,
    Recommendation,
    Rollout,
    SampledBackup,
    register_backup,
    register_leaf,
)
from tailwise.search.saved import load_search
from tailwise.search.views import ActionView, NodeView

__all__ = [
    "PRESETS",
    "ActionRow",
    "ActionView",
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
    "RootedSearch",
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
