"""What a backup is: how the costs of one iteration change the values of the actions on its path.

A backup of your own is one file: a frozen dataclass that derives from :class:`Backup`, the NamedTuple that its method
``compiled`` returns, one function over the path, and one call of :func:`register_backup`.

The function finds the path of ``length`` steps, from the root at step ``depth``, in ``trace``: for k = 0 .. length - 1
the decision node ``path_nodes[k]``, the action ``path_units[k]`` and the cost ``path_costs[k]``. ``path_nodes[length]``
is the new leaf, 0 where the episode ended. It counts the visit of each action (``arena.ints[4 * unit + COUNT]``),
updates its value (``arena.floats[2 * unit]``), leaves the cost-to-go of each step in ``trace.costs_to_go`` and returns
the discounted total of the path. What the leaf was valued at comes in as ``tail``.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import ChosenByKind, Kernel
from tailwise.bonuses import Slots


class Settings(NamedTuple):
    """What every rule may read; H is the horizon."""

    horizon: int
    discount: float
    betas: NDArray[np.float64]  # (H,) risk level of each step
    tries_at_random: bool  # the order of untried actions


class Backup:
    """Base class of backups; derive a frozen, keyword-only dataclass from it.

    Attributes
    ----------
    node_statistics, action_statistics : dict of str to float
        Names and first values of what the search keeps for the backup with each decision node, and with each action.
    is_sampled : bool
        Whether an action's value is the ERM of the totals sampled through it. Where not, the intervals of a plan reach
        from the one to the other.
    """

    node_statistics: ClassVar[dict[str, float]] = {}
    action_statistics: ClassVar[dict[str, float]] = {}
    is_sampled: ClassVar[bool] = False

    def compiled(self, slots: Slots) -> NamedTuple:
        """Return what the kernel reads: a NamedTuple whose class was given to :func:`register_backup`."""
        raise NotImplementedError(f"{type(self).__name__} does not say what the kernel reads: give it compiled()")


@ChosenByKind
def back_up(rule, arena, settings, trace, depth, length, tail):  # type: ignore[no-untyped-def]
    """Update the actions of a path; return the total cost from its root (see the module's docstring)."""
    raise NotImplementedError


def register_backup(kind: type, function: Kernel) -> None:
    """Make a backup known to the search.

    Parameters
    ----------
    kind : type
        The NamedTuple class that the backup's ``compiled`` returns.
    function : callable
        ``function(rule, arena, settings, trace, depth, length, tail) -> total cost``; see the module's docstring.
    """
    back_up.register(kind, function)
