"""Optimal stopping: when to exercise an American put.

Source: the lattice of Cox, Ross and Rubinstein, "Option pricing: a simplified approach", Journal of Financial
Economics 7 (1979). The default contract (asset 36, strike 40, rate 6 %, volatility 20 %, one year) is one
of Longstaff and Schwartz, "Valuing American options by simulation", Review of Financial Studies 14 (2001),
table 1, where finite differences give the price 4.478; 50 exercise dates. At beta = 0 the optimal value of
this problem is the option's price under the risk-neutral measure.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise.domains.noise import from_noise
from tailwise.domains.registry import register
from tailwise.models import CompiledSimulator

HOLD, EXERCISE = 0, 1


@register("american-put", "simulator")
def american_put(
    horizon: int = 50,
    asset: float = 36.0,
    strike: float = 40.0,
    rate: float = 0.06,
    volatility: float = 0.2,
    years: float = 1.0,
    lattice: bool = True,
) -> CompiledSimulator:
    """Hold or exercise an American put; the payoff is a reward, and waiting is a risk.

    ``hold`` earns nothing; ``exercise`` earns strike minus price (not below 0) and ends the episode; at the horizon
    the payoff is paid if it is positive. Rewards are discounted at the interest rate. On the ``lattice`` the
    state is the net number of up-moves, an int, and ``outcomes`` is known; without it the state is the price
    itself, a float with lognormal moves, which never comes twice: plan with ``widening=Widening()``.
    """
    period = years / horizon
    up = math.exp(volatility * math.sqrt(period))
    drift, spread = (rate - 0.5 * volatility**2) * period, volatility * math.sqrt(period)
    chance = (math.exp(rate * period) - 1 / up) / (up - 1 / up)

    def price_of(state: float) -> float:
        return float(asset * up**state) if lattice else state

    def payoff(state: float) -> float:
        return max(strike - price_of(state), 0.0)

    def row_of(state: int) -> int:
        return 0

    def move(state: int, action: int, noise: int) -> tuple[int, float, bool]:
        if action == EXERCISE:
            return state, payoff(state), True
        return state + 2 * noise - 1, 0.0, False

    def diffuse(state: float, action: int, rng: np.random.Generator) -> tuple[float, float, bool]:
        if action == EXERCISE:
            return state, payoff(state), True
        return state * math.exp(drift + spread * rng.normal()), 0.0, False

    step, outcomes = from_noise([[1 - chance, chance]], row_of, move)
    return CompiledSimulator(
        step if lattice else diffuse, start=0 if lattice else asset, horizon=horizon,
        discount=math.exp(-rate * period), sense="reward", actions=2, terminal_cost=payoff,
        outcomes=outcomes if lattice else None, action_labels=("hold", "exercise"), name="american-put",
    )  # fmt: skip
