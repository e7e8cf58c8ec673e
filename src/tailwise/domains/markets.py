"""Markets: an option to exercise, an asset to trade.

Optimal stopping: when to exercise an American put.

Source: the lattice of Cox, Ross and Rubinstein, "Option pricing: a simplified approach", Journal of Financial
Economics 7 (1979). The default contract (asset 36, strike 40, rate 6 %, volatility 20 %, one year) is one
of Longstaff and Schwartz, "Valuing American options by simulation", Review of Financial Studies 14 (2001),
table 1, where finite differences give the price 4.478; 50 exercise dates. At beta = 0 the optimal value of
this problem is the option's price under the risk-neutral measure.

Stock trading with a rare crash.

Source: in the spirit of the trading task of Shen, Tobia, Sommer and Obermayer, "Risk-sensitive reinforcement learning",
Neural Computation 26(7), 2014, and Shen, Huang, Yan and Obermayer, "Risk-averse reinforcement learning for
algorithmic trading", 2014: buy and sell one asset, where the drift invites and the tail hurts. The price
process and all numbers are our own.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise.domains import register
from tailwise.domains.noise import from_noise
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


SELL, BUY = 0, 2  # 1: neither


@register("stock-trading", "simulator")
def stock_trading(
    horizon: int = 20,
    discount: float = 1.0,
    most: int = 4,
    ticks: int = 20,
    drift: float = 0.1,
    reversion: float = 0.02,
    crash: float = 0.01,
    crash_ticks: int = 6,
    fee: float = 0.2,
) -> CompiledSimulator:
    """Buy, hold or sell shares that drift upwards and rarely crash.

    State (shares, tick): 0 to ``most`` shares held, and the price tick, -``ticks`` to ``ticks``, around its long-run
    level. An action changes the holding by one share, for a ``fee``; then the price moves by one tick up
    or down, or falls by ``crash_ticks`` with probability ``crash``. The reward is what the holding gains, less
    the fee. Up is likelier by ``drift``, less ``reversion`` per tick above the long-run level.
    """
    laws = []
    for tick in range(-ticks, ticks + 1):  # noise: 0 down, 1 up, 2 crash
        up = min(max(0.5 * (1 + drift - reversion * tick), 0.0), 1.0)
        laws.append([(1 - crash) * (1 - up), (1 - crash) * up, crash])

    def row_of(state: tuple[int, int]) -> int:
        return state[1] + ticks

    def move(state: tuple[int, int], action: int, noise: int) -> tuple[tuple[int, int], float, bool]:
        shares, tick = state
        held = min(max(shares + action - 1, 0), most)
        jump = -crash_ticks if noise == 2 else 2 * noise - 1
        following = min(max(tick + jump, -ticks), ticks)
        return (held, following), held * (following - tick) - fee * abs(held - shares), False

    step, outcomes = from_noise(laws, row_of, move)
    return CompiledSimulator(
        step, start=(0, 0), horizon=horizon, discount=discount, sense="reward", actions=3, outcomes=outcomes,
        action_labels=("sell", "hold", "buy"), name="stock-trading",
    )  # fmt: skip
