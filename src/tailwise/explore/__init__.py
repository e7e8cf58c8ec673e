"""The explorer: a local page where beta, budget and state are moved, and an episode is played step by step.

It needs the extra ``explore`` (Dash); :class:`Session`, what the page shows, is plain Python.
"""

from tailwise.explore.server import explore
from tailwise.explore.session import Moment, Session, Settings, View

__all__ = ["Moment", "Session", "Settings", "View", "explore"]
