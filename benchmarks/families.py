"""Problems for the study of searches, drawn anew from families: each draw has its own numbers, sizes and aversion.

A family is a function of a random generator. It returns a simulator that lists its outcomes, so that every draw has an
exact answer; a search sees a black box. Rules may be chosen on the families of :data:`CHOOSING`; :data:`REPORTING` is
for reporting alone, and nothing may be chosen on it. Families whose names end in ``*`` have states that do not come
back: continuous prices and carried totals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailwise import Simulator, TabularMDP, backward_induction
from tailwise.errors import ModelError
from tailwise.models import tabulate

Outcomes = list[tuple[float, Any, float, bool]]


class Listed(Simulator):
    """A simulator made of two functions: ``actions(state)`` and ``outcomes(state, action)``."""

    def __init__(
        self,
        start: Any,
        horizon: int,
        actions: Callable[[Any], int],
        outcomes: Callable[[Any, int], Outcomes],
        *,
        discount: float = 1.0,
        terminal: Callable[[Any], float] | None = None,
    ) -> None:
        self.start, self.horizon, self.discount, self.sense = start, horizon, discount, "cost"
        self._actions, self._outcomes, self._terminal = actions, outcomes, terminal

    def actions(self, state: Any) -> int:
        return self._actions(state)

    def outcomes(self, state: Any, action: int) -> Outcomes:
        return self._outcomes(state, action)

    def step(self, state: Any, action: int, rng: Any) -> tuple[Any, float, bool]:
        listed, drawn = self._outcomes(state, action), rng.random()
        for chance, target, cost, done in listed:
            drawn -= chance
            if drawn < 0.0:
                return target, cost, done
        return listed[-1][1:]

    def terminal_cost(self, state: Any) -> float:
        return 0.0 if self._terminal is None else self._terminal(state)


def size(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw a size, small ones as often as large ones of the same ratio."""
    return int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))


def merged(outcomes: Outcomes) -> Outcomes:
    """Add up the chances of equal outcomes."""
    chances: dict[Any, float] = {}
    for chance, *rest in outcomes:
        if chance > 0.0:
            chances[tuple(rest)] = chances.get(tuple(rest), 0.0) + chance
    total = math.fsum(chances.values())
    return [(chance / total, *rest) for rest, chance in chances.items()]


def poisson(mean: float, most: int) -> list[float]:
    """Chances of 0 ... most, the rest at most."""
    chances = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(most)]
    return [*chances, max(0.0, 1.0 - sum(chances))]


def binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(n + 1)]


# ------------------------------------------------------------------ recurring


def queue(rng: np.random.Generator) -> Simulator:
    """Open counters for a queue with bursts."""
    room, counters = size(rng, 8, 120), int(rng.integers(3, 6))
    calm, burst = rng.uniform(0.5, 1.5), rng.uniform(2.0, 4.0)
    enter, leave = rng.uniform(0.05, 0.2), rng.uniform(0.2, 0.5)
    wage, hold, lost = rng.uniform(0.5, 2.0), rng.uniform(0.1, 0.5), rng.uniform(3.0, 10.0)
    arrivals = [poisson(calm, 6), poisson(burst, 8)]

    def outcomes(state: Any, action: int) -> Outcomes:
        length, busy = state
        found = []
        for came, p in enumerate(arrivals[busy]):
            left = max(0, length - 2 * action) + came
            cost = wage * action + hold * length + lost * max(0, left - room)
            for bursting in (0, 1):
                turn = (leave if busy else enter) if bursting != busy else 1.0 - (leave if busy else enter)
                found.append((p * turn, (min(left, room), bursting), cost, False))
        return merged(found)

    return Listed((int(rng.integers(0, 5)), 0), int(rng.integers(8, 25)), lambda s: counters, outcomes, discount=0.98)


def lead_times(rng: np.random.Generator) -> Simulator:
    """Order stock that arrives two steps later."""
    room, lot = size(rng, 6, 30), size(rng, 3, 8)
    demand = poisson(rng.uniform(0.8, 2.0), 5)
    price, fee, hold, short = rng.uniform(0.5, 1.5), rng.uniform(0, 2), rng.uniform(0.05, 0.4), rng.uniform(4.0, 12.0)

    def outcomes(state: Any, action: int) -> Outcomes:
        stock, coming = state
        paid = price * action + fee * (action > 0) + hold * stock
        found = []
        for asked, p in enumerate(demand):
            left = stock + coming - asked
            found.append((p, (min(room, max(0, left)), action), paid + short * max(0, -left), False))
        return merged(found)

    return Listed((int(rng.integers(0, room)), 0), int(rng.integers(8, 20)), lambda s: lot, outcomes, discount=0.97)


def replacement(rng: np.random.Generator) -> Simulator:
    """Keep, repair or replace a machine that wears out."""
    ages = size(rng, 8, 200)
    wear, run, fix, new = rng.uniform(0.3, 0.8), rng.uniform(0.1, 0.5), rng.uniform(1.5, 4.0), rng.uniform(5.0, 15.0)
    rare, ruin = rng.uniform(0.002, 0.02), rng.uniform(20.0, 80.0)

    def outcomes(age: Any, action: int) -> Outcomes:
        if action == 2:
            return [(1.0, 0, new, False)]
        kept = age // 2 if action == 1 else age
        paid = run * kept + (fix if action == 1 else 0.0)
        fails = min(0.9, rare * (1 + kept))
        return merged(
            [
                (fails, 0, paid + new + ruin, False),
                ((1 - fails) * wear, min(ages - 1, kept + 1), paid, False),
                ((1 - fails) * (1 - wear), kept, paid, False),
            ]
        )

    return Listed(int(rng.integers(1, ages)), int(rng.integers(10, 40)), lambda s: 3, outcomes, discount=0.98)


def stopping(rng: np.random.Generator) -> Simulator:
    """Sell now or wait, while an offer wanders and interest is paid."""
    offers, drift, rent = size(rng, 15, 150), rng.uniform(-0.1, 0.1), rng.uniform(0.05, 0.6)
    jump, fall = rng.uniform(0.01, 0.06), int(rng.integers(4, 10))

    def outcomes(offer: Any, action: int) -> Outcomes:
        if action == 0:
            return [(1.0, offer, float(offers - offer), True)]
        up, top = 0.45 + drift, offers - 1
        return merged(
            [
                ((1 - jump) * up, min(top, offer + 1), rent, False),
                ((1 - jump) * (0.9 - up), max(0, offer - 1), rent, False),
                ((1 - jump) * 0.1, offer, rent, False),
                (jump, max(0, offer - fall), rent, False),
            ]
        )

    terminal = lambda offer: float(offers - offer)  # noqa: E731
    return Listed(offers // 2, int(rng.integers(10, 40)), lambda s: 2, outcomes, terminal=terminal)


def windy_route(rng: np.random.Generator) -> Simulator:
    """Walk over a grid with wind towards a cliff."""
    width, height = size(rng, 5, 30), size(rng, 3, 15)
    gust, fall, step = rng.uniform(0.02, 0.25), rng.uniform(15.0, 80.0), rng.uniform(0.5, 1.5)

    def outcomes(state: Any, action: int) -> Outcomes:
        x, y = state
        found = []
        for dy, p in ((0, 1.0 - gust), (-1, gust)):
            dx, up = ((1, 0), (-1, 0), (0, 1), (0, -1))[action]
            nx, ny = min(width - 1, max(0, x + dx)), min(height - 1, y + up + dy)
            if nx == width - 1 and ny <= 0:
                found.append((p, (nx, 0), step, True))
            elif ny <= 0 and nx > 0:
                found.append((p, (0, 0), step + fall, False))
            else:
                found.append((p, (nx, max(0, ny)), step, False))
        return merged(found)

    return Listed((0, 0), width + height + int(rng.integers(4, 15)), lambda s: 4, outcomes)


def pricing(rng: np.random.Generator) -> Simulator:
    """Set prices of seats before a departure."""
    seats, prices = size(rng, 6, 100), size(rng, 4, 50)
    levels = np.linspace(1.0, rng.uniform(3.0, 6.0), prices)
    keen = rng.uniform(0.6, 0.95)
    slope = rng.uniform(0.2, 0.6)

    def outcomes(left: Any, action: int) -> Outcomes:
        sold = min(left, 1) * keen * math.exp(-slope * (levels[action] - 1.0))
        two = 0.2 * sold if left > 1 else 0.0
        return merged(
            [
                (two, left - 2, -2 * float(levels[action]), False),
                (sold - two, left - 1, -float(levels[action]), False),
                (1.0 - sold, left, 0.0, False),
            ]
        )

    return Listed(seats, size(rng, 10, 100), lambda s: prices, outcomes)


def random_table(rng: np.random.Generator) -> Simulator:
    """Random outcomes, with rare disasters behind cheap actions."""
    states, actions = size(rng, 25, 3000), size(rng, 2, 30)
    rows: dict[tuple[int, int], Outcomes] = {}
    for state, action in itertools.product(range(states), range(actions)):
        targets = rng.choice(states, size=3, replace=False)
        chances, costs = rng.dirichlet(np.ones(3)), rng.uniform(0.0, 2.0, size=3)
        found = [(float(p), int(t), float(c), False) for p, t, c in zip(chances, targets, costs, strict=True)]
        if rng.random() < 0.4:
            rare = float(rng.uniform(0.003, 0.03))
            found = [((1 - rare) * p, t, 0.5 * c, False) for p, t, c, _ in found]
            found.append((rare, int(rng.integers(states)), float(rng.uniform(8.0, 30.0)), False))
        rows[state, action] = merged(found)
    horizon = int(rng.integers(5, 20))
    return Listed(0, horizon, lambda s: actions, lambda s, a: rows[s, a], discount=0.95)


def corrosion(rng: np.random.Generator) -> Simulator:
    """Choose the pressure of a pipe that corrodes and may burst, or reline it."""
    grades, pressures = size(rng, 6, 60), size(rng, 3, 9)
    rare, burst = rng.uniform(1e-4, 5e-3), rng.uniform(15.0, 80.0)
    gain, reline, eats = rng.uniform(0.3, 1.0), rng.uniform(3.0, 10.0), rng.uniform(0.1, 0.5)

    def outcomes(grade: Any, action: int) -> Outcomes:
        if action == pressures:
            return [(1.0, grade // 3, reline, False)]
        bursts = min(0.5, rare * (1 + action) * (1 + grade))
        worn = min(1.0, eats * (0.5 + action / pressures))
        return merged(
            [
                (bursts, 0, burst + reline, False),
                ((1 - bursts) * worn, min(grades - 1, grade + 1), -gain * action, False),
                ((1 - bursts) * (1 - worn), grade, -gain * action, False),
            ]
        )

    return Listed(grades // 4, int(rng.integers(8, 50)), lambda s: pressures + 1, outcomes, discount=0.98)


def investing(rng: np.random.Generator) -> Simulator:
    """Invest a part of one's wealth, which is worth less the more there is of it."""
    rungs, parts = size(rng, 20, 150), size(rng, 3, 8)
    chances, drift = rng.dirichlet(np.ones(3) * 4), rng.integers(0, 2)
    need = rng.uniform(0.3, 1.0)

    def outcomes(rung: Any, action: int) -> Outcomes:
        found = []
        for move, p in zip((-1, 0, 1), chances, strict=True):
            new = rung + move * action + int(drift * (action > 0) * (move > 0))
            found.append((float(p), min(rungs - 1, max(0, new)), 0.0, False))
        return merged(found)

    terminal = lambda rung: need * (rungs - 1 - rung) ** 1.3 / rungs**0.3  # noqa: E731
    return Listed(rungs // 2, int(rng.integers(6, 30)), lambda s: parts, outcomes, terminal=terminal)


def crews(rng: np.random.Generator) -> Simulator:
    """Put crews of different sizes on work that is due at the end, with rework now and then."""
    work, sizes = size(rng, 6, 80), int(rng.integers(3, 6))
    wage, late, rework = rng.uniform(0.2, 1.5), rng.uniform(2.0, 10.0), rng.uniform(0.01, 0.1)
    pace = rng.uniform(0.3, 0.8)

    def outcomes(state: Any, action: int) -> Outcomes:
        left, tired = state
        paid, found = wage * action**1.2, []
        for done, p in enumerate(binomial(action, pace * (0.6 if tired else 1.0))):
            new = max(0, left - done)
            found.append(((1 - rework) * p, (new, int(action >= 3)), paid, new == 0))
            found.append((rework * p, (min(work, new + 3), int(action >= 3)), paid, False))
        return merged(found)

    terminal = lambda state: late * state[0] ** 1.2 / 2.0  # noqa: E731
    return Listed(
        (work, 0), max(5, int(work / pace * rng.uniform(0.3, 0.9))), lambda s: sizes, outcomes, terminal=terminal
    )


def reservoir(rng: np.random.Generator) -> Simulator:
    """Release water against droughts and floods."""
    room, releases = size(rng, 10, 200), size(rng, 3, 12)
    wet, need = rng.uniform(1.0, 3.0), int(rng.integers(1, 4))
    inflow = poisson(wet, 8)
    dry, flood, gain = rng.uniform(1.0, 4.0), rng.uniform(3.0, 12.0), rng.uniform(0.1, 0.6)

    def outcomes(level: Any, action: int) -> Outcomes:
        out = min(level, action)
        found = []
        for came, p in enumerate(inflow):
            new = level - out + came
            cost = dry * max(0, need - out) + flood * max(0, new - room) - gain * out
            found.append((p, min(room, new), cost, False))
        return merged(found)

    return Listed(room // 2, size(rng, 12, 100), lambda s: releases, outcomes, discount=0.98)


def tunnel(rng: np.random.Generator) -> Simulator:
    """Dig a tunnel from both ends; it must be through by a day that was promised."""
    length, paces = size(rng, 6, 40), 3
    calm, gain = rng.uniform(0.25, 0.5), rng.uniform(0.1, 0.25)
    wage, late, fixed = rng.uniform(0.4, 1.2), rng.uniform(1.0, 5.0), rng.uniform(0.1, 0.5)
    cave = rng.uniform(0.0, 0.06)

    def outcomes(state: Any, action: int) -> Outcomes:
        west, east = state
        speeds = divmod(action, paces)
        p, q = (calm + gain * speed for speed in speeds)
        paid, found = fixed + wage * sum(speeds), []
        for one, two in itertools.product((0, 1), (0, 1)):
            chance = (p if one else 1 - p) * (q if two else 1 - q)
            new = (min(length, west + one), min(length, east + two))
            if sum(new) >= length:
                found.append((chance, (length, 0), paid, True))
            else:
                found.append(((1 - cave) * chance, new, paid, False))
                found.append((cave * chance, (max(0, new[0] - 3), new[1]), paid + 1.0, False))
        return merged(found)

    terminal = lambda state: late * max(0, length - sum(state))  # noqa: E731
    days = max(5, int(length / (2 * calm + gain) * rng.uniform(0.7, 1.1)))
    return Listed((0, 0), days, lambda s: paces**2, outcomes, terminal=terminal)


def poker(rng: np.random.Generator) -> Simulator:
    """Choose how many chips to put in before the last round; the more are left, the less one is worth."""
    most, bets = size(rng, 20, 150), int(rng.integers(3, 7))
    win, double, bend = rng.uniform(0.42, 0.5), rng.uniform(0.0, 0.12), rng.uniform(0.7, 1.4)

    def outcomes(chips: Any, action: int) -> Outcomes:
        bet = min(action * 2, chips)
        up, twice = min(most, chips + bet), min(most, chips + 2 * bet)
        return merged([(win, up, 0.0, False), (double, twice, 0.0, False), (1 - win - double, chips - bet, 0.0, False)])

    terminal = lambda chips: 10.0 * (1.0 - (chips / most) ** bend)  # noqa: E731
    return Listed(most // 2, int(rng.integers(5, 25)), lambda s: bets, outcomes, terminal=terminal)


def service(rng: np.random.Generator) -> Simulator:
    """Send technicians to jobs of two kinds, at some pace, while new ones come in."""
    room, rates = size(rng, 5, 20), 3
    come, slow, step = rng.uniform(0.2, 0.6, 2), rng.uniform(0.2, 0.4), rng.uniform(0.15, 0.3)
    pay, wait = rng.uniform(0.3, 1.0), rng.uniform(0.1, 0.6, 2)

    def outcomes(state: Any, action: int) -> Outcomes:
        done = slow + step * max(0, action if action < rates else 0), slow + step * max(0, action - rates + 1)
        found = []
        for a, b, x, y in itertools.product((0, 1), repeat=4):
            chance = (come[0] if a else 1 - come[0]) * (come[1] if b else 1 - come[1])
            chance *= (done[0] if x else 1 - done[0]) * (done[1] if y else 1 - done[1])
            new = tuple(
                min(room, max(0, left - gone) + new) for left, gone, new in zip(state, (x, y), (a, b), strict=True)
            )
            found.append((chance, new, pay * (action % rates) + float(wait @ np.array(state)), False))
        return merged(found)

    terminal = lambda state: 2.0 * sum(state)  # noqa: E731
    return Listed(
        (room // 2, room // 3), int(rng.integers(8, 30)), lambda s: 2 * rates - 1, outcomes, terminal=terminal
    )


def epidemic(rng: np.random.Generator) -> Simulator:
    """Close down, restrict or leave open while infections spread."""
    people = size(rng, 12, 80)
    spread = rng.uniform(1.2, 2.5)
    closures = (0.0, 0.35, 0.7)
    price, sick = (0.0, rng.uniform(0.5, 2.0), rng.uniform(2.0, 5.0)), rng.uniform(0.1, 0.5)
    crowded, beds = rng.uniform(2.0, 6.0), int(rng.integers(3, 8))

    def outcomes(ill: Any, action: int) -> Outcomes:
        chance = 1.0 - math.exp(-spread * (1.0 - closures[action]) * ill / people)
        cost = price[action] + sick * ill + crowded * max(0, ill - beds)
        return merged([(p, new, cost, False) for new, p in enumerate(binomial(people - ill, chance)) if p > 1e-9])

    return Listed(int(rng.integers(1, 4)), int(rng.integers(8, 20)), lambda s: 3, outcomes, discount=0.99)


def knapsack(rng: np.random.Generator) -> Simulator:
    """Pack things of uncertain weight, and lose all of it where they break through."""
    items, room = size(rng, 6, 25), size(rng, 10, 60)
    worth = rng.uniform(1.0, 5.0, items)
    heavy, light = rng.integers(3, 8, items), rng.integers(1, 4, items)
    chance, lost = rng.uniform(0.05, 0.5, items), rng.uniform(5.0, 15.0)

    def outcomes(state: Any, action: int) -> Outcomes:
        left, item = state
        if action == 1:
            return [(1.0, (left, item + 1), 0.0, item + 1 == items)]
        found = []
        for weight, p in ((heavy[item], chance[item]), (light[item], 1.0 - chance[item])):
            new = left - int(weight)
            if new < 0:
                found.append((float(p), (0, item + 1), lost, True))
            else:
                found.append((float(p), (new, item + 1), -float(worth[item]), item + 1 == items))
        return merged(found)

    return Listed((room, 0), items, lambda s: 2, outcomes)


def project(rng: np.random.Generator) -> Simulator:
    """Speed up the tasks of a project, two chains that must both be ready by a deadline."""
    tasks = size(rng, 4, 20)
    slow, fast = rng.uniform(0.3, 0.6), rng.uniform(0.7, 0.95)
    price, late, daily = rng.uniform(0.5, 1.5), rng.uniform(8.0, 25.0), rng.uniform(0.2, 0.6)

    def outcomes(state: Any, action: int) -> Outcomes:
        first, second = state
        p, q = (fast if action & 1 else slow), (fast if action & 2 else slow)
        paid = daily + price * ((action & 1) * (first < tasks) + (action >> 1) * (second < tasks))
        found = []
        for one, two in itertools.product((0, 1), (0, 1)):
            new = (min(tasks, first + one), min(tasks, second + two))
            found.append(((p if one else 1 - p) * (q if two else 1 - q), new, paid, new == (tasks, tasks)))
        return merged(found)

    terminal = lambda state: late * (2 * tasks - sum(state)) / tasks + late * 0.3  # noqa: E731
    return Listed((0, 0), int(tasks * rng.uniform(1.2, 2.0)), lambda s: 4, outcomes, terminal=terminal)


def gambling(rng: np.random.Generator) -> Simulator:
    """Stake some of one's money, timidly or boldly."""
    most = size(rng, 15, 200)
    win = rng.uniform(0.4, 0.58)
    stakes = (0, 1, 2, 4, 8)

    def outcomes(money: Any, action: int) -> Outcomes:
        stake = min(stakes[action], money, most - money)
        return merged([(win, money + stake, 0.0, False), (1.0 - win, money - stake, 0.0, False)])

    terminal = lambda money: float(most - money) / 4.0  # noqa: E731
    return Listed(most // 3, int(rng.integers(6, 25)), lambda s: 5, outcomes, terminal=terminal)


def beds(rng: np.random.Generator) -> Simulator:
    """Admit, defer or transfer patients to a ward."""
    room = size(rng, 8, 30)
    emergencies = poisson(rng.uniform(0.5, 1.5), 5)
    leave = rng.uniform(0.15, 0.35)
    waiting, refused, transfer = rng.uniform(0.5, 1.5), rng.uniform(8.0, 30.0), rng.uniform(2.0, 5.0)

    def outcomes(full: Any, action: int) -> Outcomes:
        admitted, moved = (action % 4), (1 if action >= 4 and full > 0 else 0)
        cost = waiting * (3 - admitted) + transfer * (action >= 4)
        found = []
        for gone, p in enumerate(binomial(full - moved, leave)):
            for came, q in enumerate(emergencies):
                new = full - moved - gone + admitted + came
                found.append((p * q, min(room, new), cost + refused * max(0, new - room), False))
        return merged(found)

    return Listed(int(rng.integers(2, room)), int(rng.integers(8, 25)), lambda s: 8, outcomes, discount=0.99)


def furnace(rng: np.random.Generator) -> Simulator:
    """Choose how hot to run a furnace that rarely, and dearly, breaks down."""
    wears, heats = size(rng, 10, 100), size(rng, 3, 12)
    rare, ruin = rng.uniform(2e-4, 4e-3), rng.uniform(20.0, 60.0)
    stop = rng.uniform(1.0, 4.0)

    def outcomes(wear: Any, action: int) -> Outcomes:
        if action == 0:
            return [(1.0, max(0, wear - 3), stop, False)]
        breaks = min(0.5, rare * action**2 * (1 + wear / 4))
        hotter = 0.15 * action
        return merged(
            [
                (breaks, 0, ruin, False),
                ((1 - breaks) * hotter, min(wears - 1, wear + 1), -0.6 * action, False),
                ((1 - breaks) * (1 - hotter), wear, -0.6 * action, False),
            ]
        )

    return Listed(wears // 3, int(rng.integers(10, 40)), lambda s: heats, outcomes, discount=0.99)


# ------------------------------------------------------- states that do not come back


def parking(rng: np.random.Generator) -> Simulator:
    """Take a free place on the way, or drive on to where fewer are free; the garage at the end costs."""
    places, walk = size(rng, 8, 60), rng.uniform(0.3, 1.5)
    free = np.linspace(rng.uniform(0.5, 0.9), rng.uniform(0.05, 0.3), places)
    garage, rest, tow = rng.uniform(5.0, 20.0), rng.uniform(0.3, 0.9), rng.uniform(0.0, 0.08)

    def outcomes(state: Any, action: int) -> Outcomes:
        place, is_free = state
        if action == 1 and is_free:
            cost = walk * (places - place)
            return merged([(1.0 - tow, (place, 0), cost, True), (tow, (place, 0), cost + 2.0 * garage, True)])
        if place + 1 == places:
            return [(1.0, (place, 0), garage, True)]
        chance = rest * float(free[place + 1]) + (1.0 - rest) * is_free * float(free[place])
        delay = 0.1 + 0.4 * action  # to wait here is slow
        if action == 2:
            return merged([(0.3, (place, 1), delay, False), (0.7, (place, 0), delay, False)])
        return merged([(chance, (place + 1, 1), delay, False), (1.0 - chance, (place + 1, 0), delay, False)])

    return Listed((0, 1), 2 * places, lambda s: 3, outcomes)


def overbooking(rng: np.random.Generator) -> Simulator:
    """Sell tickets at one of several prices, more than there are seats, since some do not come."""
    seats, prices = size(rng, 4, 30), np.sort(rng.uniform(0.5, 4.0, size(rng, 3, 10)))
    wanted, shows = rng.uniform(0.4, 0.95), rng.uniform(0.6, 0.95)
    most, angry = seats + int(rng.integers(2, 8)), rng.uniform(3.0, 12.0)

    def outcomes(sold: Any, action: int) -> Outcomes:
        if sold == most:
            return [(1.0, sold, 0.0, False)]
        chance = wanted * (1.0 - 0.8 * action / prices.size)
        return merged([(chance, sold + 1, -float(prices[action]), False), (1.0 - chance, sold, 0.0, False)])

    def terminal(sold: Any) -> float:
        return angry * sum(p * max(0, come - seats) for come, p in enumerate(binomial(sold, shows)))

    return Listed(0, int(seats * rng.uniform(1.0, 2.5)), lambda s: prices.size, outcomes, terminal=terminal)


def charging(rng: np.random.Generator) -> Simulator:
    """Charge a car at prices that come and go, before an hour that nobody knows."""
    full, levels = size(rng, 5, 40), size(rng, 2, 6)
    prices = np.cumsum(rng.uniform(0.1, 1.0, levels))
    moves = rng.dirichlet(np.ones(levels) * 0.7, levels)
    leaves, short = rng.uniform(0.0, 0.08), rng.uniform(1.0, 4.0)

    def outcomes(state: Any, action: int) -> Outcomes:
        charge, price = state
        new = min(full, charge + action)
        cost = float(prices[price]) * (new - charge) * (1.0 + 0.1 * action)
        missing = short * (full - new) ** 1.3
        found = [(leaves, (new, price), cost + missing, True)] if leaves > 0.0 else []
        found += [((1.0 - leaves) * float(p), (new, k), cost, False) for k, p in enumerate(moves[price])]
        return merged(found)

    terminal = lambda state: short * (full - state[0]) ** 1.3  # noqa: E731
    return Listed((0, 0), size(rng, 6, 40), lambda s: 1 + min(4, full // 2), outcomes, terminal=terminal, discount=0.99)


def storage(rng: np.random.Generator) -> Simulator:
    """Buy, hold or sell energy at a price that takes a new value at every step."""
    room, horizon = 3, int(rng.integers(5, 8))
    moves = np.exp(rng.normal(0.0, rng.uniform(0.1, 0.4), (horizon, 3)))
    chances = rng.dirichlet(np.ones(3) * 3, horizon)
    toll = rng.uniform(0.0, 0.2)

    def outcomes(state: Any, action: int) -> Outcomes:
        h, held, price = state
        change = min(room - held, max(-held, action - 1))
        cost = price * change + toll * abs(change)
        return merged(
            [
                (float(p), (h + 1, held + change, price * float(m)), cost, False)
                for p, m in zip(chances[h], moves[h], strict=True)
            ]
        )

    return Listed((0, 1, 5.0), horizon, lambda s: 3, outcomes)


def dose(rng: np.random.Generator) -> Simulator:
    """Treat with a dose whose total in the body decides the harm."""
    horizon, doses = 4, 3
    effects, decay = rng.uniform(0.5, 2.0, 4), rng.uniform(0.4, 0.8)
    chances = rng.dirichlet(np.ones(4) * 2)
    toxic, illness = rng.uniform(2.0, 4.0), rng.uniform(1.0, 2.0)

    def outcomes(state: Any, action: int) -> Outcomes:
        body, tumour = state
        found = []
        for effect, p in zip(effects, chances, strict=True):
            new = decay * body + action * float(effect)
            size = max(0.1, tumour * (1.25 - 0.3 * min(new, 2.5)))
            found.append((float(p), (new, size), illness * size + max(0.0, new - toxic) * 3.0, False))
        return merged(found)

    return Listed((0.0, 2.0), horizon, lambda s: doses, outcomes)


def irrigation(rng: np.random.Generator) -> Simulator:
    """Water a field whose soil dries by the weather, before a harvest that suffers from dry and from wet soil."""
    horizon, dry, wet = int(rng.integers(4, 7)), rng.uniform(0.25, 0.4), rng.uniform(0.6, 0.8)
    amounts, price = np.array([0.0, 0.15, 0.35]), rng.uniform(0.2, 2.0)
    rains, losses = np.array([0.0, *rng.uniform(0.05, 0.5, 2)]), rng.uniform(0.1, 0.35, horizon)
    chances = rng.dirichlet(np.ones(3) * 2, horizon)

    def outcomes(state: Any, action: int) -> Outcomes:
        h, soil = state
        found = []
        for rain, p in zip(rains, chances[h], strict=True):
            new = min(1.0, max(0.0, soil * (1.0 - float(losses[h])) + float(amounts[action]) + float(rain)))
            harm = 10.0 * max(0.0, dry - new) ** 2 / dry**2 + 6.0 * max(0.0, new - wet) ** 2
            found.append((float(p), (h + 1, new), price * float(amounts[action]) + harm, False))
        return merged(found)

    return Listed((0, float(rng.uniform(0.2, 0.8))), horizon, lambda s: 3, outcomes)


def hedging(rng: np.random.Generator) -> Simulator:
    """Hold none, half or all of a stock against a call that was sold; trades cost, and the price moves by factors."""
    horizon, toll = int(rng.integers(4, 6)), rng.uniform(0.0, 0.03)
    factors = np.exp(np.sort(rng.normal(0.0, rng.uniform(0.05, 0.3), (horizon, 3)), axis=1))
    chances, strike = rng.dirichlet(np.ones(3) * 3, horizon), rng.uniform(0.9, 1.1)

    def outcomes(state: Any, action: int) -> Outcomes:
        h, held, price = state
        new = 0.5 * action
        trade = toll * price * abs(new - held)
        found = []
        for factor, p in zip(factors[h], chances[h], strict=True):
            after = price * float(factor)
            owed = max(0.0, after - strike) if h + 1 == horizon else 0.0
            found.append((float(p), (h + 1, new, after), trade - new * (after - price) + owed, h + 1 == horizon))
        return merged(found)

    return Listed((0, 0.0, 1.0), horizon, lambda s: 3, outcomes)


def trading(rng: np.random.Generator) -> Simulator:
    """Sell a block of shares while selling moves a price that wanders."""
    horizon, block = 4, 4
    shocks = rng.normal(0.0, rng.uniform(0.2, 0.6), (horizon, 3))
    impact, fear = rng.uniform(0.05, 0.3), rng.uniform(0.0, 0.1)

    def outcomes(state: Any, action: int) -> Outcomes:
        h, left, price = state
        sold = min(left, action)
        found = []
        for shock in shocks[h]:
            new = price - impact * sold + float(shock)
            found.append((1 / 3, (h + 1, left - sold, new), -sold * (price - impact * sold) + fear * left, False))
        return merged(found)

    terminal = lambda state: -state[1] * (state[2] - impact * state[1] * 1.5)  # noqa: E731
    return Listed((0, block, 10.0), horizon, lambda s: 4, outcomes, terminal=terminal)


def contract(rng: np.random.Generator) -> Simulator:
    """Work under a contract whose penalty depends on all that was delivered."""
    horizon = int(rng.integers(4, 6))
    yields = rng.uniform(0.5, 3.0, (horizon, 3, 2))
    chances = rng.uniform(0.2, 0.8, (horizon, 3))
    prices = np.sort(rng.uniform(0.0, 1.5, 3))
    due, penalty = 1.6 * horizon, rng.uniform(1.0, 3.0)

    def outcomes(state: Any, action: int) -> Outcomes:
        h, total = state
        p, (low, high) = float(chances[h, action]), yields[h, action]
        paid = float(prices[action])
        return [(p, (h + 1, total + float(low)), paid, False), (1 - p, (h + 1, total + float(high)), paid, False)]

    terminal = lambda state: penalty * max(0.0, due - state[1])  # noqa: E731
    return Listed((0, 0.0), horizon, lambda s: 3, outcomes, terminal=terminal)


Family = Callable[[np.random.Generator], Simulator]
CHOOSING: dict[str, Family] = {
    "queue": queue, "lead times": lead_times, "replacement": replacement, "stopping": stopping,
    "windy route": windy_route, "pricing": pricing, "random table": random_table, "corrosion": corrosion,
    "investing": investing, "crews": crews, "reservoir": reservoir, "knapsack": knapsack, "tunnel": tunnel,
    "poker": poker, "service": service, "storage*": storage, "dose*": dose, "irrigation*": irrigation,
    "hedging*": hedging,
}  # fmt: skip
REPORTING: dict[str, Family] = {
    "epidemic": epidemic, "project": project, "gambling": gambling, "beds": beds, "furnace": furnace,
    "parking": parking, "overbooking": overbooking, "charging": charging, "trading*": trading, "contract*": contract,
}  # fmt: skip
AVERSIONS = (-1.0, 0.0, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Draw:
    """A problem, its risk level, and the exact answer.

    Attributes
    ----------
    family, index : str, int
        Which draw of which family.
    simulator, table : Simulator, TabularMDP
        The problem, and the same as a table.
    beta : float
        So that beta times the standard deviation of the total under random actions is one of :data:`AVERSIONS`.
    q : ndarray of float64, shape (A,)
        Exact risk of each first action (costs).
    """

    family: str
    index: int
    simulator: Simulator
    table: TabularMDP
    beta: float
    q: Any

    def regret(self, action: int) -> float:
        """Normalised simple regret of a first action: 0 is the best, 1 the mean action."""
        return float((self.q[action] - self.q.min()) / (self.q.mean() - self.q.min()))


def random_std(table: TabularMDP, rng: np.random.Generator, episodes: int = 300) -> float:
    """Standard deviation of the total under uniformly random actions."""
    totals = []
    for _ in range(episodes):
        state, total, factor = table.start, 0.0, 1.0
        for _ in range(table.horizon):
            state, cost, done = table.step(state, int(rng.choice(table.actions(state))), rng)
            total, factor = total + factor * cost, factor * table.discount
            if done:
                break
        else:
            total += factor * table.terminal_cost(state)
        totals.append(total)
    return float(np.std(totals))


def draw(family: str, index: int, *, max_states: int = 60_000) -> Draw:
    """Return a draw of a family; the same index gives the same problem.

    Draws whose first actions are worth the same, or that have too many states for an exact answer, are drawn again.
    """
    build = {**CHOOSING, **REPORTING}[family]
    for attempt in range(100):
        rng = np.random.default_rng([index, attempt, *family.encode()])
        simulator = build(rng)
        try:
            table = tabulate(simulator, max_states=max_states)
        except ModelError:
            continue
        std = random_std(table, rng)
        aversion = AVERSIONS[index % len(AVERSIONS)]
        beta = aversion / std if std > 0.0 else 0.0
        solution = backward_induction(table, beta)
        q = np.asarray(solution.q_values[0][table.start], dtype=np.float64)
        q = q[np.isfinite(q)]
        if q.size > 1 and q.mean() - q.min() > 1e-4 * max(std, 1e-12):
            return Draw(family, index, simulator, table, beta, q)
    raise RuntimeError(f"{family} {index}: no draw with a decision in it")


def summary(families: Sequence[str], draws: int) -> str:
    """Sizes of some draws, as a Markdown table."""
    lines = ["| family | states | horizon | actions | beta * std |", "| --- | --- | --- | --- | --- |"]
    for family in families:
        made = [draw(family, k) for k in range(draws)]
        spans = [
            f"{min(values)} to {max(values)}"
            for values in (
                [d.table.num_states for d in made],
                [d.table.horizon for d in made],
                [d.q.size for d in made],
            )
        ]
        lines.append(
            f"| {family} | " + " | ".join(spans) + f" | {', '.join(f'{AVERSIONS[k % 6]:g}' for k in range(draws))} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(summary([*CHOOSING, *REPORTING], 6))
