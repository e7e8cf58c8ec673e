"""Problems that nobody chose: each is drawn anew from one of fourteen generators, with random parameters.

``python benchmarks/families.py --half 0`` measures the regret of the first action on the generators that rules are
chosen on, ``--half 1`` on the others, which nothing is chosen on. Every problem has an exact answer.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, poisson

from tailwise import ErmMcts, LearnedModelSearch, Simulator, TabularMDP, backward_induction, evaluate
from tailwise.models import tabulate

Outcomes = list[tuple[float, Any, float, bool]]
BUDGETS = (100, 300, 1000, 3000)


class Drawn(Simulator):
    """A problem given by its start, its number of actions and a function of (state, action)."""

    sense, discount = "cost", 1.0

    def __init__(self, start: Any, horizon: int, actions: Callable[[Any], int], outcomes: Callable[..., Outcomes]):
        self.start, self.horizon, self._actions, self._outcomes = start, horizon, actions, outcomes

    def actions(self, state: Any) -> int:
        """Return how many there are."""
        return self._actions(state)

    def outcomes(self, state: Any, action: int) -> Outcomes:
        """Return (probability, next state, cost, done), likely ones alone."""
        found = [one for one in self._outcomes(state, action) if one[0] > 1e-9]
        total = math.fsum(one[0] for one in found)
        return [(p / total, *rest) for p, *rest in found]  # type: ignore[misc]

    def step(self, state: Any, action: int, rng: np.random.Generator) -> tuple[Any, float, bool]:
        """Draw an outcome."""
        found = self.outcomes(state, action)
        _, target, cost, done = found[int(np.searchsorted(np.cumsum([one[0] for one in found])[:-1], rng.random()))]
        return target, cost, done


def queue(rng: np.random.Generator) -> Drawn:
    """Servers to open for a queue with limited room."""
    room, servers = int(rng.integers(8, 25)), int(rng.integers(2, 6))
    arrivals, rate, wage, lost = rng.uniform(1, 4), rng.uniform(0.3, 0.8), rng.uniform(0.5, 3), rng.uniform(5, 30)

    def step(length: int, opened: int) -> Outcomes:
        found: dict[int, float] = {}
        spilled = 0.0
        for came in range(12):
            p = poisson.pmf(came, arrivals)
            left = min(room, length + came)
            spilled += p * max(0, length + came - room)
            for served in range(opened + 1):
                after = max(0, left - served)
                found[after] = found.get(after, 0.0) + p * binom.pmf(served, opened, rate)
        cost = length + wage * opened + lost * spilled
        return [(p, after, cost, False) for after, p in found.items()]

    return Drawn(int(rng.integers(0, room)), int(rng.integers(8, 30)), lambda s: servers + 1, step)


def lead_times(rng: np.random.Generator) -> Drawn:
    """Orders that come one or two steps later."""
    top, most, lag = int(rng.integers(5, 10)), int(rng.integers(2, 5)), int(rng.integers(1, 3))
    demand, hold, short, fixed = rng.uniform(0.5, 2.5), rng.uniform(0.2, 2), rng.uniform(3, 25), rng.uniform(0, 4)

    def step(state: tuple[int, ...], order: int) -> Outcomes:
        stock, *pipe = state
        have, found = min(top, stock + pipe[0]), []
        for asked in range(9):
            p = poisson.pmf(asked, demand) if asked < 8 else poisson.sf(7, demand)
            cost = hold * have + short * max(0, asked - have) + fixed * (order > 0) + order
            found.append((p, (max(0, have - asked), *pipe[1:], order), cost, False))
        return found

    return Drawn((top // 2, *(0,) * lag), int(rng.integers(8, 25)), lambda s: most + 1, step)


def reservoir(rng: np.random.Generator) -> Drawn:
    """Water to release; floods are dear and rare."""
    top, most = int(rng.integers(8, 20)), int(rng.integers(3, 6))
    inflow = rng.dirichlet(np.ones(most + 2))
    flood, want, dry = rng.uniform(20, 200), int(rng.integers(1, most)), rng.uniform(1, 6)

    def step(state: tuple[int, int], release: int) -> Outcomes:
        level, wet = state
        out, found = min(level, release), []
        for came, p in enumerate(inflow):
            for storm, q in ((0, 0.985), (1, 0.015 + 0.0 * wet)):
                after = level - out + came + (top // 2 if storm else 0)
                cost = dry * max(0, want - out) + (flood if after > top else 0.0)
                found.append((p * q, (min(top, after), storm), cost, False))
        return found

    return Drawn((top // 2, 0), int(rng.integers(10, 40)), lambda s: most + 1, step)


def replacement(rng: np.random.Generator) -> Drawn:
    """A machine that wears out: run, repair or replace."""
    worst, wear, price = int(rng.integers(8, 30)), rng.uniform(0.2, 0.7), rng.uniform(5, 30)
    growth, broken = rng.uniform(0.05, 0.5), rng.uniform(10, 80)

    def step(age: int, action: int) -> Outcomes:
        base = max(0, age - 3) if action == 1 else 0 if action == 2 else age
        paid = (0.0, price / 3, price)[action]
        fail = min(0.5, 0.002 * base**1.5)
        found = [(fail, worst, paid + broken, False)]
        for more in range(3):
            p = (1 - fail) * binom.pmf(more, 2, wear)
            found.append((p, min(worst, base + more), paid + growth * base, False))
        return found

    return Drawn(int(rng.integers(0, worst)), int(rng.integers(10, 50)), lambda s: 3, step)


def furnace(rng: np.random.Generator) -> Drawn:
    """Heat earns more; too much of it breaks the furnace, rarely."""
    levels, price = int(rng.integers(6, 20)), rng.uniform(20, 150)
    risk, gain = 10 ** rng.uniform(-3, -1.7), rng.uniform(0.5, 1.5)

    def step(heat: int, action: int) -> Outcomes:
        aim = min(levels - 1, max(0, heat + action - 1))
        fail = risk * (aim / (levels - 1)) ** 2 * 3
        earned = -gain * aim
        return [
            (fail, 0, earned + price, False), ((1 - fail) * 0.8, aim, earned, False),
            ((1 - fail) * 0.2, max(0, aim - 1), earned, False),
        ]  # fmt: skip

    return Drawn(0, int(rng.integers(8, 30)), lambda s: 3, step)


def epidemic(rng: np.random.Generator) -> Drawn:
    """Measures against a disease in a small population."""
    people, spread = int(rng.integers(8, 20)), rng.uniform(0.6, 2.2)
    recover, sick = rng.uniform(0.2, 0.5), rng.uniform(0.5, 3)
    prices, effects = np.sort(rng.uniform(0, 6, 3)) - 0.0, (1.0, rng.uniform(0.4, 0.8), rng.uniform(0.1, 0.4))
    prices[0] = 0.0

    def step(ill: int, action: int) -> Outcomes:
        chance = 1.0 - math.exp(-spread * effects[action] * ill / people)
        found: dict[int, float] = {}
        for new in range(people - ill + 1):
            p = binom.pmf(new, people - ill, chance)
            for well in range(ill + 1):
                after = ill + new - well
                found[after] = found.get(after, 0.0) + p * binom.pmf(well, ill, recover)
        return [(p, after, sick * ill + prices[action], False) for after, p in found.items()]

    return Drawn(int(rng.integers(1, 4)), int(rng.integers(8, 20)), lambda s: 3, step)


def parking(rng: np.random.Generator) -> Drawn:
    """Places on the way to a theatre: take a free one or drive on."""
    places, free, penalty = int(rng.integers(15, 50)), rng.uniform(0.1, 0.6), rng.uniform(5, 40)

    def step(state: tuple[int, int], action: int) -> Outcomes:
        place, is_free = state
        if action == 1 and is_free:
            return [(1.0, state, float(places - place), True)]
        if place + 1 == places:
            return [(1.0, state, penalty, True)]
        p = free * (1.0 - 0.7 * place / places)
        return [(p, (place + 1, 1), 0.0, False), (1 - p, (place + 1, 0), 0.0, False)]

    return Drawn((0, 1), places + 1, lambda s: 2 if s[1] else 1, step)


def knapsack(rng: np.random.Generator) -> Drawn:
    """Offers come one after the other; take or leave."""
    room, kinds = int(rng.integers(6, 15)), int(rng.integers(3, 6))
    sizes, values = rng.integers(1, 5, kinds), rng.uniform(1, 12, kinds)
    chances, lost = rng.dirichlet(np.ones(kinds)), rng.uniform(0.02, 0.2)

    def step(state: tuple[int, int], action: int) -> Outcomes:
        left, kind = state
        after = left - int(sizes[kind]) if action else left
        found = []
        for other, p in enumerate(chances):
            if action:
                found += [
                    (p * (1 - lost), (after, other), -values[kind], False),
                    (p * lost, (after, other), 2.0, False),
                ]
            else:
                found.append((p, (after, other), 0.0, False))
        return found

    return Drawn((room, 0), int(rng.integers(6, 20)), lambda s: 2 if s[0] >= sizes[s[1]] else 1, step)


def windy(rng: np.random.Generator) -> Drawn:
    """A way along a cliff, in wind."""
    wide, high = int(rng.integers(4, 9)), int(rng.integers(3, 6))
    wind, fall = rng.uniform(0.03, 0.25), rng.uniform(10, 60)

    def step(state: tuple[int, int], action: int) -> Outcomes:
        found = []
        for gust, p in ((0, 1 - wind), (1, wind)):
            row, column = state
            down, right = ((-1, 0), (1, 0), (0, -1), (0, 1))[action]
            row, column = row + down + gust, column + right
            row, column = max(0, row), min(wide - 1, max(0, column))
            if row >= high and 0 < column < wide - 1:
                found.append((p, (high - 1, 0), 1.0 + fall, False))
            elif min(row, high - 1) == high - 1 and column == wide - 1:
                found.append((p, state, 1.0, True))
            else:
                found.append((p, (min(row, high - 1), column), 1.0, False))
        return found

    return Drawn((high - 1, 0), int(rng.integers(12, 30)), lambda s: 4, step)


def project(rng: np.random.Generator) -> Drawn:
    """A network of tasks with random times; crash some."""
    layers, wide = int(rng.integers(4, 9)), int(rng.integers(3, 7))
    times = rng.exponential(3.0, (layers, wide, wide, 3))
    chances = rng.dirichlet(np.ones(3), (layers, wide, wide))

    def step(state: tuple[int, int], action: int) -> Outcomes:
        layer, node = state
        done = layer + 1 == layers
        return [
            (chances[layer, node, action, k], (min(layer + 1, layers - 1), action), times[layer, node, action, k], done)
            for k in range(3)
        ]

    return Drawn((0, 0), layers, lambda s: wide, step)


def gambling(rng: np.random.Generator) -> Drawn:
    """Stakes of up to a fifth of a wish."""
    wish, win = int(rng.integers(10, 40)), rng.uniform(0.35, 0.6)

    def step(have: int, stake: int) -> Outcomes:
        found = []
        for p, after in ((win, have + stake), (1 - win, have - stake)):
            over = after <= 0 or after >= wish
            found.append((p, after, -float(stake if after > have else -stake) if stake else 0.1, over))
        return found

    return Drawn(int(rng.integers(3, wish - 3)), int(rng.integers(8, 25)), lambda s: 1 + min(s, wish - s, 5), step)


def pricing(rng: np.random.Generator) -> Drawn:
    """Seats to sell at one of several prices."""
    seats, prices = int(rng.integers(6, 25)), np.sort(rng.uniform(1, 10, int(rng.integers(3, 8))))
    chances = np.exp(-prices * rng.uniform(0.1, 0.4))

    def step(left: int, action: int) -> Outcomes:
        if left == 0:
            return [(1.0, 0, 0.0, False)]
        q = chances[action]
        found = [(q * 0.97, left - 1, -prices[action], False), (1 - q, left, 0.0, False)]
        return [*found, (q * 0.03, left - 1, 3.0, False)]

    return Drawn(seats, int(rng.integers(15, 60)), lambda s: prices.size if s else 1, step)


def beds(rng: np.random.Generator) -> Drawn:
    """Patients to admit: elective ones now, or keep beds for emergencies."""
    top, rate, leave = int(rng.integers(8, 18)), rng.uniform(0.5, 2.5), rng.uniform(0.1, 0.35)
    gain, turned = rng.uniform(1, 4), rng.uniform(8, 60)

    def step(full: int, admitted: int) -> Outcomes:
        now, found = min(top, full + admitted), []
        for came in range(8):
            p, kept = poisson.pmf(came, rate), min(top, now + came)
            cost = turned * (now + came - kept) - gain * (now - full)
            found += [(p * binom.pmf(out, kept, leave), kept - out, cost, False) for out in range(kept + 1)]
        return found

    return Drawn(int(rng.integers(0, top)), int(rng.integers(8, 25)), lambda s: min(4, top - s) + 1, step)


def random_table(rng: np.random.Generator) -> Drawn:
    """Anything, with rare disasters."""
    states, actions, wide = int(rng.integers(20, 150)), int(rng.integers(2, 9)), int(rng.integers(2, 6))
    targets = rng.integers(states, size=(states, actions, wide))
    chances = rng.dirichlet(np.full(wide, 0.5), (states, actions))
    costs = rng.normal(size=(states, actions, wide)) + 10.0 * (rng.random((states, actions, wide)) < 0.03)

    def step(state: int, action: int) -> Outcomes:
        return [
            (chances[state, action, k], int(targets[state, action, k]), costs[state, action, k], False)
            for k in range(wide)
        ]

    return Drawn(0, int(rng.integers(5, 30)), lambda s: actions, step)


CHOSEN_ON = (queue, reservoir, furnace, parking, windy, pricing, random_table)
OTHERS = (lead_times, replacement, epidemic, knapsack, project, gambling, beds)


def problems(half: int, count: int, seed: int) -> list[tuple[str, TabularMDP, float]]:
    """Return ``count`` problems of each generator of a half, with a beta each."""
    found = []
    for k, family in enumerate(OTHERS if half else CHOSEN_ON):
        for j in range(count):
            rng = np.random.default_rng([seed, half, k, j])
            table = tabulate(family(rng), max_states=20_000)
            neutral = backward_induction(table, 0.0)
            std = float(np.std(evaluate(table, neutral, episodes=300, seed=0).costs))
            beta = float(rng.choice([-0.5, 0.0, 0.5, 1.0, 2.0, 5.0])) / std if std > 0 else 0.0
            found.append((family.__name__, table, beta))
    return found


class UniformInduction:
    """What any student would write: random actions, transition counts, one backward induction at the end."""

    def __init__(self, table: TabularMDP, beta: float, seed: int) -> None:
        self._search, self._rng = LearnedModelSearch(table, beta, seed=seed), np.random.default_rng(seed)

    def plan(self, iterations: int) -> Any:
        """Play so many episodes more, and answer."""
        self._search.play(lambda handle, actions, step, paid: int(self._rng.integers(actions)), iterations - 1)
        return self._search.plan(iterations=1)


PLANNERS: dict[str, Callable[..., Any]] = {
    "learned": lambda table, beta, seed: LearnedModelSearch(table, beta, seed=seed),
    "uniform + induction": UniformInduction,
    "tree": lambda table, beta, seed: ErmMcts(table, beta, preset="auto", seed=seed),
    "paper": lambda table, beta, seed: ErmMcts(table, beta, seed=seed),
}


def measure(half: int, count: int, seeds: int, names: list[str], seed: int = 0) -> dict[str, Any]:
    """Return the normalised regret of the first action: of each planner, problem and budget, one for each seed."""
    results: dict[str, Any] = {name: {} for name in names}
    for k, (family, table, beta) in enumerate(problems(half, count, seed)):
        q = backward_induction(table, beta).action_values(0)[table.start]
        q = q[np.isfinite(q)]
        if np.ptp(q) <= 1e-9 * np.abs(q).max():
            continue
        for name in names:
            rows = []
            for run in range(seeds):
                search, row, done = PLANNERS[name](table, beta, 1000 * k + run), [], 0
                for budget in BUDGETS:
                    plan = search.plan(iterations=budget - done)
                    done = budget
                    row.append([(q[plan.action] - q.min()) / np.ptp(q), getattr(plan, "probability_best", math.nan)])
                rows.append(row)
            results[name][f"{family}-{k}"] = rows
    return results


def table_of(results: dict[str, Any]) -> str:
    """Return geometric (floor .002) and arithmetic means over the problems."""
    lines = []
    for name, of in results.items():
        regrets = np.array([np.array(rows, float)[:, :, 0].mean(axis=0) for rows in of.values()])
        geometric = np.exp(np.log(np.maximum(regrets, 0.002)).mean(axis=0))
        cells = [f"{g:.3f} ({a:.2f})" for g, a in zip(geometric, regrets.mean(axis=0), strict=True)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", type=int, default=0)
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--planners", nargs="*", default=list(PLANNERS))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    begun = time.perf_counter()
    results = measure(given.half, given.count, given.seeds, given.planners)
    print(table_of(results), f"\n{time.perf_counter() - begun:.0f} s")
    if given.out:
        given.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
