"""Off-policy backup: what goes up from a node is the worth of its best action, not the cost of an experiment.

The paper's estimate of an action mixes the costs-to-go of all actions that were tried below it, the bad ones too, which
fades only as fast as exploration does. Here, where the action taken at a node is not its best one by now, the
cost-to-go is replaced by the best one's value on the way up (as Watkins' Q(lambda) cuts its traces). That is
consistent for the entropic risk, since ``ERM_{beta_h}(c + discount X)`` does not change when X is replaced, given the
next state, by its own ERM at ``beta_{h+1} = discount beta_h`` (the tower property).

The least of many estimates is too low, the more so the fewer samples they have: that of actions taken once each is the
luckiest sample. It would make states that come back, where estimates are many, look better than those that do not. So
only actions that were taken ``least_visits`` times count as a node's best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tailwise._validate import integer
from tailwise.bonuses import Slots
from tailwise.risk.accumulator import push_value
from tailwise.search.arena import COUNT, least_value
from tailwise.search.rules.backup import Backup, register_backup


@dataclass(frozen=True, kw_only=True)
class OffPolicyBackup(Backup):
    """Running ERM of costs-to-go, cut at every action that is not its node's best.

    Parameters
    ----------
    least_visits : int, default 2
        How often an action must have been taken, at least, to be a node's best. More suits problems whose states hardly
        come back, as continuous ones.

    Examples
    --------
    >>> from tailwise import ErmMcts, OffPolicyBackup, RangeBonus, domains
    >>> search = ErmMcts(domains.make("mdp-4"), beta=0.5, backup=OffPolicyBackup(), bonus=RangeBonus(), seed=0)
    >>> search.plan(iterations=500).label
    'safe'
    """

    least_visits: int = 2

    def __post_init__(self) -> None:
        integer(self.least_visits, "least_visits", low=1)

    def compiled(self, slots: Slots) -> OffPolicyRule:
        """Return the kernel's form."""
        return OffPolicyRule(int(self.least_visits))


class OffPolicyRule(NamedTuple):
    """The backup as the kernel reads it."""

    least_visits: int


def off_policy_backup(rule, arena, settings, trace, depth, length, tail):  # type: ignore[no-untyped-def]
    """Push the costs-to-go along the path, each cut to the best value below; return the sampled total."""
    cost_to_go, total = tail, tail
    for k in range(length - 1, -1, -1):
        cost_to_go = trace.path_costs[k] + settings.discount * cost_to_go
        total = trace.path_costs[k] + settings.discount * total
        trace.costs_to_go[k] = cost_to_go
        unit = trace.path_units[k]
        count = arena.ints[4 * unit + COUNT] + 1
        arena.ints[4 * unit + COUNT] = count
        value = push_value(arena.floats[2 * unit], count, cost_to_go, settings.betas[depth + k])
        arena.floats[2 * unit] = value
        least = least_value(arena, trace.path_nodes[k], rule.least_visits)
        if least < value:
            cost_to_go = least
    return total


register_backup(OffPolicyRule, off_policy_backup)
