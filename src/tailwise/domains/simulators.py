"""Problems as simulators, driven by finite noise: storage, stock, machines, an option, an asset, a boat.

Battery storage against price spikes.

Source: the energy-storage problem of Powell and Meisel, "Tutorial on stochastic optimization in energy,
part II: an energy storage illustration", IEEE Transactions on Power Systems 31(2), 2016: a
battery between a grid with mean-reverting prices that jump and a load that must be served. The numbers are our own.

Inventory with rare supply disruptions.

Source: a periodic-review inventory whose supplier alternates between up and down as a Markov chain (Parlar and Berkin,
"Future supply uncertainty in EOQ models", 1991; Tomlin, "On the value of mitigation and contingency
strategies", Management Science 52(5), 2006), with lost sales. The numbers are our own.

Machine maintenance.

Source: the replacement problem of a deteriorating machine (Derman, "On optimal replacement rules when changes of
state are Markovian", 1963; Howard, "Dynamic Programming and Markov Processes", 1960), with a repair
between doing nothing and replacing. The numbers are our own.

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

Sailing.

Source: Vanderbei, "Optimal sailing strategies" (1996), the stochastic shortest path on which Kocsis and Szepesvari,
"Bandit based Monte-Carlo planning" (ECML 2006), tried UCT: a boat on a square lake, legs in eight directions whose time
depends on the angle to the wind, a delay for changing tack, a wind that turns at random.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise._validate import integer
from tailwise.domains import register
from tailwise.domains.noise import from_noise, poisson_law
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
