"""Stock trading with a rare crash.

Source: in the spirit of the trading task of Shen, Tobia, Sommer and Obermayer, "Risk-sensitive reinforcement learning",
Neural Computation 26(7), 2014, and Shen, Huang, Yan and Obermayer, "Risk-averse reinforcement learning for
algorithmic trading", 2014: buy and sell one asset, where the drift invites and the tail hurts. The price
process and all numbers are our own.
"""

from __future__ import annotations

from tailwise.domains.noise import from_noise
from tailwise.domains.registry import register
from tailwise.models import CompiledSimulator

SELL, HOLD, BUY = 0, 1, 2


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
