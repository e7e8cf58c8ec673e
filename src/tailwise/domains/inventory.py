"""Inventory with rare supply disruptions.

Source: a periodic-review inventory whose supplier alternates between up and down as a Markov chain (Parlar and Berkin,
"Future supply uncertainty in EOQ models", 1991; Tomlin, "On the value of mitigation and contingency
strategies", Management Science 52(5), 2006), with lost sales. The numbers are our own.
"""

from __future__ import annotations

import numpy as np

from tailwise.domains.noise import from_noise, poisson_law
from tailwise.domains.registry import register
from tailwise.models import CompiledSimulator

_DEMANDS = 9  # demand is 0..8


@register("inventory", "simulator")
def inventory(
    horizon: int = 20,
    discount: float = 0.98,
    capacity: int = 12,
    demand: float = 2.5,
    disruption: float = 0.03,
    recovery: float = 0.25,
    unit_cost: float = 1.0,
    holding: float = 0.2,
    shortage: float = 8.0,
) -> CompiledSimulator:
    """Order stock from a supplier that rarely fails, and then stays down for weeks.

    State (stock, down): 0 to ``capacity`` units, and whether the supplier is down. Action k orders k units (at most
    what fits); they arrive at once, at ``unit_cost`` each, unless the supplier is down: then nothing
    arrives and nothing is paid. Then the Poisson demand (mean ``demand``, cut at 8) takes its units; each unit
    kept costs ``holding``, each unit of demand unmet ``shortage``. An up supplier goes down with probability
    ``disruption`` a step, a down one recovers with probability ``recovery``. Mean-optimal policies hold
    little; the fear of a long disruption is what makes stock worth its cost.
    """
    chances = np.array(poisson_law(demand, _DEMANDS - 1))
    up_row = np.concatenate([(1 - disruption) * chances, disruption * chances])  # noise: next regime, demand
    down_row = np.concatenate([recovery * chances, (1 - recovery) * chances])

    def row_of(state: tuple[int, int]) -> int:
        return state[1]

    def move(state: tuple[int, int], action: int, noise: int) -> tuple[tuple[int, int], float, bool]:
        stock, down = state
        arrived = action * (1 - down)
        wanted = noise % _DEMANDS
        left = stock + arrived - wanted
        unmet = max(-left, 0)
        left = max(left, 0)
        return (left, noise // _DEMANDS), unit_cost * arrived + holding * left + shortage * unmet, False

    def actions(state: tuple[int, int]) -> int:
        return capacity - state[0] + 1

    step, outcomes = from_noise([up_row, down_row], row_of, move)
    return CompiledSimulator(
        step, start=(min(4, capacity), 0), horizon=horizon, discount=discount, actions=actions, outcomes=outcomes,
        action_labels=tuple(f"order {k}" for k in range(capacity + 1)), name="inventory",
    )  # fmt: skip
