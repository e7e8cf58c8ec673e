"""Battery storage against price spikes.

Source: the energy-storage problem of Powell and Meisel, "Tutorial on stochastic optimization in energy,
part II: an energy storage illustration", IEEE Transactions on Power Systems 31(2), 2016: a
battery between a grid with mean-reverting prices that jump and a load that must be served. The numbers are our own.
"""

from __future__ import annotations

from tailwise.domains.noise import from_noise
from tailwise.domains.registry import register
from tailwise.models import CompiledSimulator

LEVELS = 5  # ordinary price levels; level 5 is the spike
_STAY = 0.5


@register("battery", "simulator")
def battery(
    horizon: int = 24,
    discount: float = 1.0,
    capacity: int = 6,
    load: int = 1,
    spike: float = 0.02,
    spike_price: float = 30.0,
    calm: float = 0.4,
    loss: float = 0.1,
) -> CompiledSimulator:
    """Charge a battery while power is cheap, or keep it full against a rare price spike.

    State (charge, level): 0 to ``capacity`` units stored; price level 0 to 4 (1 to 5 a unit) or 5, the spike
    (``spike_price`` a unit). Each step ``load`` units must be served. ``discharge`` takes up to two units from the
    battery, for the load and for sale; ``idle`` buys the load; ``charge`` buys up to two units more, of
    which a fraction ``loss`` is paid for in vain. The cost is what is bought (negative: sold) at the price. Prices
    drift to the middle; a spike comes with probability ``spike`` and ends with probability ``calm``.
    """
    laws = []
    for level in range(LEVELS):  # noise: 0 down, 1 stay, 2 up, 3 spike
        up = (1 - _STAY) * (LEVELS - 1 - level) / (LEVELS - 1)
        down = (1 - _STAY) * level / (LEVELS - 1)
        laws.append([(1 - spike) * down, (1 - spike) * _STAY, (1 - spike) * up, spike])
    laws.append([calm, 1 - calm, 0.0, 0.0])  # in a spike: over, or not

    def row_of(state: tuple[int, int]) -> int:
        return state[1]

    def move(state: tuple[int, int], action: int, noise: int) -> tuple[tuple[int, int], float, bool]:
        charge, level = state
        price = spike_price if level == LEVELS else level + 1.0
        flow = min(2, capacity - charge) if action == 2 else (-min(2, charge) if action == 0 else 0)
        bought = load + flow + (loss * flow if flow > 0 else 0.0)
        if level == LEVELS:
            following = LEVELS // 2 if noise == 0 else LEVELS
        else:
            following = LEVELS if noise == 3 else level + noise - 1
        return (charge + flow, following), price * bought, False

    step, outcomes = from_noise(laws, row_of, move)
    return CompiledSimulator(
        step, start=(min(2, capacity), LEVELS // 2), horizon=horizon, discount=discount, actions=3,
        outcomes=outcomes, action_labels=("discharge", "idle", "charge"), name="battery",
    )  # fmt: skip
