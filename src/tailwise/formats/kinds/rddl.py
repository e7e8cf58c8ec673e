"""RDDL instances, through pyRDDLGym."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailwise._validate import choice
from tailwise.errors import OptionError
from tailwise.formats.registry import register_format

if TYPE_CHECKING:
    from tailwise.formats.rddl_simulator import RddlSimulator


def read_rddl(
    target: str,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
    observe: str | None = None,
    max_actions: int = 1000,
    max_concurrent: int | None = None,
    integer_bound: int | None = None,
    levels: int | None = None,
) -> RddlSimulator:
    """RDDL instance of rddlrepository, or two files (extra ``rddl``).

    The options are those of :func:`load_rddl` and :class:`ActionLimits`.

    Returns
    -------
    RddlSimulator
    """
    from tailwise.formats.rddl_actions import ActionLimits
    from tailwise.formats.rddl_load import load_rddl

    limits = ActionLimits(
        max_actions=max_actions, max_concurrent=max_concurrent, integer_bound=integer_bound, levels=levels
    )
    if observe is not None:
        choice(observe, "observe", ("state",))
    if start is not None:
        raise OptionError(f"rddl:{target} starts in its instance's initial state; start= is for tables")
    return load_rddl(target, horizon=horizon, discount=discount, observe=observe, limits=limits)


register_format("rddl", read_rddl, extensions=(".rddl",), is_file=False)
