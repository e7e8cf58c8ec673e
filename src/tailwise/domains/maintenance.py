"""Machine maintenance.

Source: the replacement problem of a deteriorating machine (Derman, "On optimal replacement rules when changes of
state are Markovian", 1963; Howard, "Dynamic Programming and Markov Processes", 1960), with a repair
between doing nothing and replacing. The numbers are our own.
"""

from __future__ import annotations

from tailwise.domains.noise import from_noise
from tailwise.domains.registry import register
from tailwise.models import CompiledSimulator

RUN, REPAIR, REPLACE = 0, 1, 2


@register("machine-maintenance", "simulator")
def machine_maintenance(
    horizon: int = 24,
    discount: float = 0.99,
    levels: int = 10,
    wear: float = 0.5,
    failure: float = 0.02,
    breakdown: float = 40.0,
    repair: float = 4.0,
    replace: float = 10.0,
) -> CompiledSimulator:
    """Run a wearing machine, repair it, or replace it before it breaks down.

    State: wear 0 (new) to ``levels`` (worn out), or ``levels`` + 1 (broken). ``run`` costs 0.3 per level of wear; the
    machine then wears by one level with probability ``wear`` or breaks with probability ``failure`` times the
    wear. ``repair`` costs its price and takes three levels off; ``replace`` costs its price
    and gives a new machine. A broken machine must be replaced, at ``breakdown`` and ``replace``.
    """
    broken = levels + 1
    laws = []
    for level in range(levels + 2):
        fails = min(1.0, failure * min(level, levels))
        wears = (1.0 - fails) * wear
        laws.append([1.0 - fails - wears, wears, fails])

    def row_of(state: int) -> int:
        return state

    def move(state: int, action: int, noise: int) -> tuple[int, float, bool]:
        if state == broken:
            return 0, breakdown + replace, False
        if action == REPLACE:
            return 0, replace, False
        if action == REPAIR:
            return max(state - 3, 0), repair, False
        if noise == 2:
            return broken, 0.3 * state, False
        return min(state + noise, levels), 0.3 * state, False

    def actions(state: int) -> int:
        return 1 if state == broken else 3

    step, outcomes = from_noise(laws, row_of, move)
    return CompiledSimulator(
        step, start=0, horizon=horizon, discount=discount, actions=actions, outcomes=outcomes,
        action_labels=("run", "repair", "replace"), name="machine-maintenance",
    )  # fmt: skip
