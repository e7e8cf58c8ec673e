"""The sailing problem.

Source: Vanderbei, "Optimal sailing strategies" (1996), the stochastic shortest path on which Kocsis and Szepesvari,
"Bandit based Monte-Carlo planning" (ECML 2006), tried UCT: a boat on a square lake, legs in eight directions whose time
depends on the angle to the wind, a delay for changing tack, a wind that turns at random.
"""

from __future__ import annotations

import numpy as np

from tailwise._validate import integer
from tailwise.domains import register
from tailwise.domains.noise import from_noise
from tailwise.models import CompiledSimulator

# Directions 0..7, as the wind blows and as the boat sails.
_NAMES = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
_DX = np.array([0, 1, 1, 1, 0, -1, -1, -1])
_DY = np.array([1, 1, 0, -1, -1, -1, 0, 1])
_LEG = np.array([1.0, 2.0, 3.0, 4.0])  # time by angle to the wind: away, down, cross, up; into it is impossible
_NO_TACK, _LEFT, _RIGHT = 0, 1, 2


@register("sailing", "simulator")
def sailing(
    horizon: int = 40, discount: float = 1.0, size: int = 6, turn: float = 0.3, delay: float = 3.0
) -> CompiledSimulator:
    """Sail across a lake as fast as you can while the wind turns at random.

    State (x, y, wind, tack): the cell, the direction in which the wind blows, and the side on which the sail hangs
    (0 none, 1 left, 2 right). The boat starts in one corner of ``size`` by ``size`` cells, and the episode ends in
    the other. An action is the k-th of the eight directions that neither leave the lake nor head into the
    wind. A leg takes 1, 2, 3 or 4 by its angle to the wind (0, 45, 90, 135 degrees), and ``delay`` more
    where it changes the tack. Then the wind turns left or right with probability ``turn`` each.
    """
    integer(size, "size", low=2, hint="the boat needs water to sail on")

    def allowed(state: tuple[int, int, int, int], way: int) -> bool:
        x, y = state[0] + _DX[way], state[1] + _DY[way]
        return abs(way - state[2]) != 4 and 0 <= x < size and 0 <= y < size

    def actions(state: tuple[int, int, int, int]) -> int:
        count = 0
        for way in range(8):
            if allowed(state, way):
                count += 1
        return count

    def labels(state: tuple[int, int, int, int]) -> list[str]:
        return [name for way, name in enumerate(_NAMES) if allowed(state, way)]

    def direction(state: tuple[int, int, int, int], action: int) -> int:
        way = -1
        for _ in range(action + 1):
            way += 1
            while way < 7 and not allowed(state, way):
                way += 1
        return way

    def row_of(state: tuple[int, int, int, int]) -> int:
        return 0

    def move(
        state: tuple[int, int, int, int], action: int, noise: int
    ) -> tuple[tuple[int, int, int, int], float, bool]:
        x, y, wind, tack = state
        way = direction(state, action)
        angle = (way - wind) % 8
        side = _NO_TACK if angle in (0, 4) else (_RIGHT if angle < 4 else _LEFT)
        cost = _LEG[min(angle, 8 - angle)]
        if tack not in (side, _NO_TACK) and side != _NO_TACK:
            cost += delay
        x, y = x + _DX[way], y + _DY[way]
        following = (x, y, (wind + noise - 1) % 8, side)
        return following, cost, x == size - 1 and y == size - 1

    step, outcomes = from_noise([[turn, 1 - 2 * turn, turn]], row_of, move)
    return CompiledSimulator(
        step, start=(0, 0, 0, _NO_TACK), horizon=horizon, discount=discount, actions=actions, outcomes=outcomes,
        action_labels=labels, name="sailing",
    )  # fmt: skip
