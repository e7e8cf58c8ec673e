"""The paper's backup: the ERM of the costs-to-go that were sampled (eq. ``mcts_state_node_erm_estimator``).

``x_h = c_h + discount x_{h+1}`` enters the running ERM of each action on the path at ``beta_h``. It is what
:func:`tailwise.risk.accumulator.push_value` does at each step, in three passes, so that the exponentials and logarithms
of eight steps are taken at once (:mod:`tailwise.search.log_mean`); hence the cut-offs of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tailwise.bonuses import Slots
from tailwise.risk.accumulator import merge_values
from tailwise.search.arena import COUNT
from tailwise.search.log_mean import LANES, log_means
from tailwise.search.rules.backup import Backup, register_backup

_TINY, _LOWEST, _HIGHEST = 1e-9, -700.0, 30.0  # of beta times gap: series below, log domain above


@dataclass(frozen=True, kw_only=True)
class SampledBackup(Backup):
    """Running ERM of the sampled costs-to-go, whatever actions were taken further down (the paper's)."""

    is_sampled: ClassVar[bool] = True

    def compiled(self, slots: Slots) -> SampledRule:
        """Return the kernel's form; it holds nothing."""
        return SampledRule(True)


class SampledRule(NamedTuple):
    """The backup as the kernel reads it."""

    is_sampled: bool


def sampled_backup(rule, arena, settings, trace, depth, length, tail):  # type: ignore[no-untyped-def]
    """Push the costs-to-go along the path; return the root's."""
    cost_to_go = tail
    for k in range(length - 1, -1, -1):
        cost_to_go = trace.path_costs[k] + settings.discount * cost_to_go
        unit = trace.path_units[k]
        count = arena.ints[4 * unit + COUNT] + 1
        arena.ints[4 * unit + COUNT] = count
        if count == 1:
            arena.floats[2 * unit] = cost_to_go
        trace.costs_to_go[k] = cost_to_go
        gap = cost_to_go - arena.floats[2 * unit]
        trace.scaled[k] = max(settings.betas[depth + k] * gap, _LOWEST)
        trace.shares[k] = 1.0 / count
    for k in range(0, length, LANES):
        log_means(trace.scaled, trace.shares, trace.logs, k)
    for k in range(length):
        unit = trace.path_units[k]
        scaled = trace.scaled[k]
        if abs(scaled) < _TINY:
            share, gap = trace.shares[k], trace.costs_to_go[k] - arena.floats[2 * unit]
            arena.floats[2 * unit] += share * gap * (1.0 + 0.5 * (1.0 - share) * scaled)
        elif scaled > _HIGHEST:
            value, cost, beta = arena.floats[2 * unit], trace.costs_to_go[k], settings.betas[depth + k]
            arena.floats[2 * unit] = merge_values(value, cost, trace.shares[k], beta)
        else:
            arena.floats[2 * unit] += trace.logs[k] / settings.betas[depth + k]
    return cost_to_go


register_backup(SampledRule, sampled_backup)
