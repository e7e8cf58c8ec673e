"""Models from and to files, and from the objects of other libraries."""

from tailwise.formats.discrete_dp import from_discrete_dp
from tailwise.formats.loading import load
from tailwise.formats.mdptoolbox import from_mdptoolbox
from tailwise.formats.saving import save
from tailwise.formats.summary import Summary, summarize

__all__ = ["Summary", "from_discrete_dp", "from_mdptoolbox", "load", "save", "summarize"]
