"""The logarithmic bonus in units of twice the standard deviation of all Q values in the tree.

A rule to compare with, from Schmoecker et al., 2025 (arXiv 2510.21275): the constant of the logarithmic bonus is set
anew as the tree grows. Here that happens each time the iterations have grown by a tenth.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tailwise import Bonus, ErmMcts
from tailwise._jit import kernel
from tailwise.bonuses import register_bonus
from tailwise.search import arena


@dataclass(frozen=True, kw_only=True)
class SpreadBonus(Bonus):
    """``scale[0] sqrt(ln N(s) / N(s, a))`` with a scale that the search changes."""

    def compiled(self, horizon: int, discount: float, slots: Any) -> SpreadRule:
        """Return a scale of its own, 1 at first."""
        return SpreadRule(np.ones(1))


class SpreadRule(NamedTuple):
    """The bonus as the kernel reads it."""

    scale: np.ndarray


def _growth(rule, h, visits, statistics, node):  # type: ignore[no-untyped-def]
    return rule.scale[0] * math.sqrt(math.log(float(visits)))


def _bonus(rule, growth, h, count, statistics, action):  # type: ignore[no-untyped-def]
    return growth / math.sqrt(float(count))


register_bonus(SpreadRule, _growth, _bonus)


@kernel
def spread_of_q(floats, ints, root, nodes):  # type: ignore[no-untyped-def]
    """Standard deviation of the values of all actions taken in the tree below ``root``, of at most so many nodes."""
    seen, mean, squares = 0, 0.0, 0.0
    waiting = np.empty(nodes + 1, np.int64)
    waiting[0], left = root, 1
    while left > 0:
        left -= 1
        unit = waiting[left]
        for action in range(unit + 1, unit + 1 + ints[4 * unit + arena.NUM_ACTIONS]):
            if ints[4 * action + arena.COUNT] > 0:
                seen += 1
                gap = floats[2 * action] - mean
                mean += gap / seen
                squares += gap * (floats[2 * action] - mean)
            if ints[4 * action + arena.CHILD] != 0:
                waiting[left] = ints[4 * action + arena.CHILD]
                left += 1
        for side in (arena.LEFT, arena.RIGHT):
            if unit != root and ints[4 * unit + side] != 0:
                waiting[left] = ints[4 * unit + side]
                left += 1
    return math.sqrt(squares / seen) if seen > 1 else 1.0


class SpreadSearch(ErmMcts):
    """The paper's tree with that bonus, and the action of least value recommended."""

    def __init__(self, model: Any, beta: float, *, seed: Any = None) -> None:
        super().__init__(model, beta, seed=seed, bonus=SpreadBonus(), recommend="value")
        self._done = 0

    def plan(self, iterations: int | None = None, seconds: float = math.inf, **rest: Any) -> Any:  # type: ignore[override]
        """Search in pieces, with the scale set anew between them."""
        wanted, ends = self._done + (iterations or 2**62), time.perf_counter() + seconds
        plan, steps = None, 0
        while self._done < wanted and (plan is None or time.perf_counter() < ends):
            piece = min(max(10, self._done // 10), wanted - self._done)
            plan = super().plan(iterations=piece)
            self._done, steps = self._done + piece, steps + plan.simulator_steps
            tree = self._tree.arena
            spread = spread_of_q(tree.floats, tree.ints, *map(int, tree.counters[[arena.ROOT, arena.NODES]]))
            self._rules.bonus.scale[0] = 2.0 * max(float(spread), 1e-12)
        return _Totals(plan, steps)


class _Totals:
    """A plan with the steps of all its pieces."""

    def __init__(self, plan: Any, steps: int) -> None:
        self._plan, self.simulator_steps = plan, steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)
