"""Problems whose state is not seen: tables, and a continuous place that is seen well only where there is light.

Sources: the tiger (Kaelbling, Littman & Cassandra, "Planning and acting in partially observable stochastic domains",
1998); RockSample (Smith & Simmons, "Heuristic search value iteration for POMDPs", 2004); the wearing machine after
Smallwood & Sondik, "The optimal control of partially observable Markov processes over a finite horizon", 1973; light
and dark (Platt, Tedrake, Kaelbling & Lozano-Perez, "Belief space planning assuming maximum likelihood observations",
2010), on a line, with the actions of Sunberg & Kochenderfer, "Online algorithms for POMDPs with continuous state,
action, and observation spaces", 2018. The numbers of the machine, and of test-and-treat, are our own.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from tailwise.domains import register
from tailwise.errors import OptionError
from tailwise.models import PartlyObserved, PomdpTable


@register("tiger", "hidden states")
def tiger(
    horizon: int = 20,
    discount: float = 0.95,
    accuracy: float = 0.85,
    listen: float = 1.0,
    wrong: float = 100.0,
    right: float = -10.0,
    cost_seen: bool = False,
) -> PomdpTable:
    """Listen where the tiger is, or open a door: behind one there is a prize, behind the other the tiger.

    State: the tiger's door. ``listen`` costs its price and is right with probability ``accuracy``; opening a door costs
    ``wrong`` or ``right`` (a prize is negative), and puts the tiger anew.
    """
    stay, anew = np.eye(2), np.full((2, 2), 0.5)
    hears = np.array([[accuracy, 1.0 - accuracy], [1.0 - accuracy, accuracy]])
    return PomdpTable.from_arrays(
        [stay, anew, anew], [hears, anew, anew], [[listen, wrong, right], [listen, right, wrong]], order="ASS",
        horizon=horizon, discount=discount, cost_seen=cost_seen, state_labels=("tiger-left", "tiger-right"),
        action_labels=("listen", "open-left", "open-right"), observation_labels=("hear-left", "hear-right"),
        name="tiger",
    )  # fmt: skip


@register("hidden-wear", "hidden states")
def hidden_wear(
    horizon: int = 12,
    discount: float = 0.95,
    wear: float = 0.3,
    inspect: float = 0.5,
    replace: float = 5.0,
    cost_seen: bool = False,
) -> PomdpTable:
    """Run a machine whose wear is not seen, inspect it, or replace it.

    State: wear 0 to 3. ``run`` costs 0, 0.5, 2 or 8 by the wear, which nobody sees unless ``cost_seen``; the machine
    then wears by one level with probability ``wear``, and its product is good with probability 0.95, 0.8, 0.5 or 0.2.
    ``inspect`` costs its price and tells the level with probability 0.9, else one beside it. ``replace`` costs its
    price.
    """
    size = 4
    worn = np.zeros((size, size))
    for level in range(size):
        worn[level, min(level + 1, size - 1)] += wear
        worn[level, level] += 1.0 - wear
    new = np.zeros((size, size))
    new[:, 0] = 1.0
    looks = np.zeros((size, 2 + size))
    for level in range(size):
        beside = [near for near in (level - 1, level + 1) if 0 <= near < size]
        looks[level, 2 + level] = 0.9
        looks[level, [2 + near for near in beside]] = 0.1 / len(beside)
    good = np.array([0.95, 0.8, 0.5, 0.2])
    product = np.column_stack([good, 1.0 - good, np.zeros((size, size))])
    nothing = np.zeros((size, 2 + size))
    nothing[:, 2] = 1.0
    costs = np.column_stack([[0.0, 0.5, 2.0, 8.0], np.full(size, inspect), np.full(size, replace)])
    return PomdpTable.from_arrays(
        [worn, np.eye(size), new], [product, looks, nothing], costs, order="ASS", horizon=horizon, discount=discount,
        start=[1.0, 0.0, 0.0, 0.0], cost_seen=cost_seen, state_labels=("new", "used", "worn", "worn-out"),
        action_labels=("run", "inspect", "replace"),
        observation_labels=("good", "bad", "looks-new", "looks-used", "looks-worn", "looks-worn-out"),
        name="hidden-wear",
    )  # fmt: skip


@register("test-and-treat", "hidden states")
def treatment_of_a_patient(
    horizon: int = 6,
    discount: float = 1.0,
    prevalence: float = 0.2,
    test: float = 1.0,
    biopsy: float = 4.0,
    treatment: float = 12.0,
) -> PomdpTable:
    """Test a patient, treat, or wait: the illness is not seen, and grows worse untreated.

    State: healthy, ill or gravely ill. ``wait`` costs 0, 2 or 20, ``test`` and ``biopsy`` their price beside, and are
    right with probability 0.8 and 0.97; ``treat`` costs ``treatment`` and 0, 2 or 20, and heals with probability 0.9
    (of the gravely ill 0.5). An untreated illness turns grave with probability 0.25. Who is gravely ill at the end
    costs 60, who is ill 20.
    """
    suffers = np.array([0.0, 2.0, 20.0])
    goes_on = np.array([[1.0, 0.0, 0.0], [0.0, 0.75, 0.25], [0.0, 0.0, 1.0]])
    healed = np.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.5, 0.0, 0.5]])
    shows = [np.array([[a, 1.0 - a], [1.0 - a, a], [1.0 - a, a]]) for a in (0.5, 0.8, 0.97, 0.5)]
    costs = np.column_stack([suffers, suffers + test, suffers + biopsy, suffers + treatment])
    return PomdpTable.from_arrays(
        [goes_on, goes_on, goes_on, healed], shows, costs, order="ASS", horizon=horizon, discount=discount,
        start=[1.0 - prevalence, 0.9 * prevalence, 0.1 * prevalence], terminal_costs=[0.0, 20.0, 60.0],
        state_labels=("healthy", "ill", "gravely-ill"), action_labels=("wait", "test", "biopsy", "treat"),
        observation_labels=("negative", "positive"), name="test-and-treat",
    )  # fmt: skip


@register("rock-sample", "hidden states")
def rock_sample(size: int = 4, rocks: int = 4, horizon: int = 20, discount: float = 0.95) -> PomdpTable:
    """Drive a rover over a grid to rocks that are good or bad, which a sensor tells the better the nearer it is.

    State: place and the rocks' kinds; the start is the west side, each rock good with probability 1/2. Rewards: 10 for
    sampling a good rock (which is then bad), -10 for a bad one, 10 for leaving to the east, which ends the episode.
    Checking a rock at distance d is right with probability (1 + 2**(-d / 20)) / 2.
    """
    if not 2 <= size <= 8 or not 1 <= rocks <= 6:
        raise OptionError("rock-sample takes size 2 to 8 and rocks 1 to 6")
    rng = np.random.Generator(np.random.SFC64(4))
    cells = rng.permutation(size * size)[:rocks]
    where = [(int(cell) % size, int(cell) // size) for cell in cells]
    kinds = list(itertools.product((0, 1), repeat=rocks))
    index = {(x, y, kind): k for k, (x, y, kind) in enumerate(itertools.product(range(size), range(size), kinds))}
    moves = ((0, 1), (1, 0), (0, -1), (-1, 0))
    none, good, bad = 0, 1, 2
    rows: list[tuple[int, int, int, int, float, float, bool]] = []
    for (x, y, kind), here in index.items():
        for a, (dx, dy) in enumerate(moves):
            if x + dx >= size:
                rows.append((here, a, here, none, 1.0, 10.0, True))
                continue
            to = min(max(x + dx, 0), size - 1), min(max(y + dy, 0), size - 1)
            rows.append((here, a, index[(*to, kind)], none, 1.0, 0.0, False))
        after, reward = kind, 0.0
        if (x, y) in where:
            k = where.index((x, y))
            after, reward = (*kind[:k], 0, *kind[k + 1 :]), 10.0 if kind[k] else -10.0
        rows.append((here, 4, index[x, y, after], none, 1.0, reward, False))
        for k, (rx, ry) in enumerate(where):
            right = 0.5 + 0.5 * 2.0 ** (-math.hypot(x - rx, y - ry) / 20.0)
            rows.append((here, 5 + k, here, good if kind[k] else bad, right, 0.0, False))
            rows.append((here, 5 + k, here, bad if kind[k] else good, 1.0 - right, 0.0, False))
    columns = list(zip(*rows, strict=True))
    belief = np.zeros(len(index))
    belief[[index[0, size // 2, kind] for kind in kinds]] = 1.0 / len(kinds)
    return PomdpTable.from_outcomes(
        columns[0], columns[1], columns[2], columns[3], columns[4], rewards=columns[5], done=columns[6],
        num_states=len(index), num_observations=3, horizon=horizon, discount=discount, start=belief,
        state_labels=[f"({x}, {y}) {''.join('gb'[1 - one] for one in kind)}" for x, y, kind in index],
        action_labels=("north", "east", "south", "west", "sample", *(f"check-{k + 1}" for k in range(rocks))),
        observation_labels=("none", "good", "bad"), name="rock-sample",
    )  # fmt: skip


class LightDark(PartlyObserved):
    """A place on a line, the light at 5; see :func:`light_dark`."""

    name = "light-dark"

    def __init__(self, horizon: int, discount: float, light: float) -> None:
        self.horizon, self.discount, self._light = horizon, discount, light

    def sample_start(self, rng: np.random.Generator) -> float:
        """Draw a place about 2."""
        return 2.0 + 2.0 * float(rng.standard_normal())

    def actions(self) -> tuple[int, ...]:
        """Return the steps that can be taken; 0 is to stop."""
        return (-5, -1, 0, 1, 5)

    def step(self, state: float, action: int, rng: np.random.Generator) -> tuple[float, float, bool]:
        """Move, or stop: -10 within 1 of the origin, 10 elsewhere."""
        if action == 0:
            return state, -10.0 if abs(state) < 1.0 else 10.0, True
        return state + action, 1.0, False

    def observe(self, state: float, action: int, next_state: float, rng: np.random.Generator) -> float:
        """See the place, the worse the farther from the light."""
        return next_state + self._blur(next_state) * float(rng.standard_normal())

    def likelihood(self, state: float, action: int, next_state: float, observation: float) -> float:
        """Return the density of an observation."""
        blur = self._blur(next_state)
        return math.exp(-0.5 * ((observation - next_state) / blur) ** 2) / blur

    def action_name(self, action: int) -> str:
        """Return the step as text."""
        return "stop" if action == 0 else f"{action:+d}"

    def _blur(self, place: float) -> float:
        return 0.1 + abs(place - self._light) / math.sqrt(2.0)


@register("light-dark", "hidden states")
def light_dark(horizon: int = 10, discount: float = 0.95, light: float = 5.0) -> LightDark:
    """Stop at the origin of a line on which one sees where one is only near the light.

    State: a place, not seen, that begins at 2 with a deviation of 2. Each step costs 1 and shows the place with a
    deviation that grows with the distance from ``light``; stopping pays 10 within 1 of the origin and costs 10
    elsewhere.
    """
    return LightDark(horizon, discount, light)
