"""Learned-model search: outcome counts shared by all steps, and entropic Bellman backups through them."""

from tailwise.search.learned.driver import LearnedSearch
from tailwise.search.learned.table import LearnedPolicy, LearnedTable
from tailwise.search.options import LearnedKeywords, LearnedOptions

__all__ = ["LearnedKeywords", "LearnedOptions", "LearnedPolicy", "LearnedSearch", "LearnedTable"]
