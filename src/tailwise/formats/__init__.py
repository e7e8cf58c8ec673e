"""Models from and to files, and from the objects of other libraries."""

from tailwise.formats.discrete_dp import from_discrete_dp
from tailwise.formats.loading import load
from tailwise.formats.mdptoolbox import from_mdptoolbox
from tailwise.formats.saving import save

__all__ = ["from_discrete_dp", "from_mdptoolbox", "load", "save"]
