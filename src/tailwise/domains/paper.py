"""The two problems of the paper's experiments: MDP-4 and Grid-MDP.

Source: paper, appendix "Environments". The constants that the text leaves out (cost scale, walls,
slippery cells) are those of the authors' experiments.
"""

from __future__ import annotations

import numpy as np

from tailwise.domains import register
from tailwise.models import TabularMDP


@register("mdp-4", "table")
def mdp_4(horizon: int = 20, discount: float = 0.9, epsilon: float = 0.15, reset: float = 0.1) -> TabularMDP:
    """Four states: a safe action of middling cost against a cheap one that rarely turns out dear.

    From s0, ``risky`` leads to s2 (cost 0.05 a step) or, with probability ``epsilon``, to s3 (cost 1
    a step); ``safe`` leads to s1 (cost 0.25 a step). Elsewhere the actions do the same: back
    to s0 with probability ``reset``, else stay. s0 costs nothing. (The costs are the paper's 5, 1
    and 20, divided by 20, as in its experiments.)
    """
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, 2], transitions[0, 0, 3] = 1 - epsilon, epsilon
    transitions[0, 1, 1] = 1.0
    for state in (1, 2, 3):
        transitions[state, :, 0] = reset
        transitions[state, :, state] = 1 - reset
    costs = np.repeat([[0.0], [0.25], [0.05], [1.0]], 2, axis=1)
    return TabularMDP.from_arrays(
        transitions, costs, order="SAS", horizon=horizon, discount=discount, state_labels=("s0", "s1", "s2", "s3"),
        action_labels=("risky", "safe"), name="mdp-4",
    )  # fmt: skip


ROWS, COLUMNS = 5, 3
_WALLS = {(1, 1), (2, 1), (3, 1)}
_SLIPPERY = {(1, 0), (2, 0), (3, 0), (0, 1)}
_TARGET = (0, 0)
_MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


@register("grid-mdp", "table")
def grid_mdp(horizon: int = 15, discount: float = 0.99, epsilon: float = 0.01) -> TabularMDP:
    """A 5 x 3 grid: a short way with three slippery cells against a detour with one.

    Start at row 4, column 0; the target is row 0, column 0. Walls stand at (1,1), (2,1), (3,1).
    In a slippery cell, (1,0), (2,0), (3,0) on the short way and (0,1) on the detour, every
    action falls into the pit with probability ``epsilon``. A step costs 1, in the pit 5 for ever,
    at the target 0 for ever.
    """
    cells = [(row, column) for row in range(ROWS) for column in range(COLUMNS)]
    pit = len(cells)
    transitions = np.zeros((pit + 1, len(_MOVES), pit + 1))
    costs = np.ones((pit + 1, len(_MOVES)))
    costs[pit], costs[cells.index(_TARGET)] = 5.0, 0.0
    transitions[pit, :, pit] = 1.0
    for index, cell in enumerate(cells):
        for action, move in enumerate(_MOVES.values()):
            goal = (cell[0] + move[0], cell[1] + move[1])
            if cell == _TARGET or goal not in cells or goal in _WALLS:
                goal = cell
            slip = epsilon if cell in _SLIPPERY else 0.0
            transitions[index, action, cells.index(goal)] += 1 - slip
            transitions[index, action, pit] += slip
    return TabularMDP.from_arrays(
        transitions, costs, order="SAS", horizon=horizon, discount=discount, start=cells.index((4, 0)),
        state_labels=[f"({row},{column})" for row, column in cells] + ["pit"], action_labels=tuple(_MOVES),
        name="grid-mdp",
    )  # fmt: skip
