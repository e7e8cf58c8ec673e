"""Trees as version 0.1.0 grew them, seed for seed: a change of these numbers changes everyone's saved results."""

import pytest

from tailwise import (
    AccMcts,
    CompiledSimulator,
    ErmMcts,
    LogBonus,
    NluMcts,
    PolynomialBonus,
    Simulator,
    Uct,
    Widening,
    domains,
)

EXPECTED = {  # visits of the root's actions, nodes, simulated steps, value
    "erm": ([15, 27, 21, 2937], 2490, 45000, 13.9329440019),
    "path": ([133, 2867], 33157, 60000, 1.82105932745),
    "eta": ([1902, 28, 1052, 18], 3001, 45000, 5.60614535893),
    "log": ([4, 109, 96, 2791], 3001, 45000, 33.7964260588),
    "uct": ([2846, 154], 3001, 60000, 1.51653466392),
    "acc": ([1679, 1321], 3001, 60000, -0.0268511429012),
    "nlu": ([10, 6, 19, 2965], 3001, 45000, 80.6074242804),
    "compiled": ([2753, 104, 130, 6, 7], 3000, 24000, 48.1130619265),
    "python": ([2, 967, 22, 9], 983, 8000, -20.3794943709),
}


def shop_step(stock, order, rng):
    left = stock + order - rng.poisson(2.0)
    return min(max(left, 0), 9), order + 4.0 * max(-left, 0) + 0.5 * max(left, 0), False


class Walk(Simulator):
    horizon, discount, sense, start = 8, 0.95, "reward", 3

    def actions(self, state):
        return 4 if state % 2 else 2

    def step(self, state, action, rng):
        left = state + action - int(rng.random() * 4)
        return max(0, min(left, 6)), -1.5 * abs(left - 2), left > 8

    def terminal_cost(self, state):
        return float(state)


def square(total):
    return total * total


def make(name):
    grid, four = domains.make("grid-mdp"), domains.make("mdp-4")
    shop = CompiledSimulator(shop_step, start=3, horizon=8, actions=5)
    eta, log = PolynomialBonus(constant=5.0, eta=0.7), LogBonus(constant=2.0)
    return {
        "erm": lambda: ErmMcts(grid, 0.1, seed=3),
        "path": lambda: ErmMcts(four, 0.3, seed=3, expansion="path"),
        "eta": lambda: ErmMcts(grid, -0.3, seed=3, bonus=eta),
        "log": lambda: ErmMcts(grid, 0.3, seed=3, bonus=log, recommend="value"),
        "uct": lambda: Uct(four, seed=3),
        "acc": lambda: AccMcts(four, 0.1, seed=3),
        "nlu": lambda: NluMcts(grid, square, seed=3),
        "compiled": lambda: ErmMcts(shop, 0.2, seed=0, widening=Widening(k=2.0, alpha=0.3)),
        "python": lambda: ErmMcts(Walk(), 0.2, seed=0),
    }[name]()


@pytest.mark.compiled  # uncompiled, logarithms differ in the last digit, and so may a tie
@pytest.mark.parametrize("name", EXPECTED)
def test_the_tree_is_as_it_was(name):
    visits, nodes, steps, value = EXPECTED[name]
    plan = make(name).plan(iterations=sum(visits))
    assert ([row.visits for row in plan.rows], plan.nodes, plan.simulator_steps) == (visits, nodes, steps)
    assert plan.value == pytest.approx(value, rel=1e-9)
