"""The compiled loop against a slow, obvious one on the same random stream, pull by pull."""

import math

import numpy as np
import pytest

from tailwise.bandits import (
    Arm,
    Bandit,
    Drift,
    EntropicThompson,
    ErmUcb,
    LipschitzUcb,
    Outcome,
    Ucb1,
    bernoulli,
    beta_distribution,
    simulate,
    truncated_normal,
    uniform,
)

PULLS = 250
BANDITS = {
    "stationary": Bandit(
        (Arm.of(beta_distribution(2, 6)), Arm.of(uniform(0.1, 0.7)), Arm.of(truncated_normal(0.4, 0.3, -1, 1)))
    ),
    "drifting": Bandit(
        (
            Arm.of(uniform(0.0, 0.5), drift=Drift(beta_distribution(6, 2), decay=0.5)),
            Arm.of(beta_distribution(3, 3), drift=Drift(uniform(-1.0, 0.0), decay=1.0, amplitude=0.7)),
        )
    ),
    "non-deterministic": Bandit(
        (
            Arm(
                (
                    Outcome(0.7, beta_distribution(2, 5), Drift(uniform(0.5, 1.0), decay=0.75)),
                    Outcome(0.3, uniform(0.2, 0.9)),
                ),
                cost=0.15,
            ),
            Arm(
                (
                    Outcome(0.2, uniform(-0.5, 0.5)),
                    Outcome(0.5, uniform(0.0, 1.0)),
                    Outcome(0.3, beta_distribution(1, 3)),
                )
            ),
        ),
        discount=0.9,
    ),
    "two-point": Bandit((Arm.of(bernoulli(0.3, 0.013, 0.971)), Arm.of(bernoulli(0.5, 0.029, 0.883)))),
}
ALGORITHMS = {
    "erm-ucb": lambda beta: ErmUcb(beta),
    "erm-ucb, other exponents": lambda beta: ErmUcb(beta, constant=0.4, eta=0.7, exponent=0.25),
    "lipschitz": lambda beta: LipschitzUcb(beta),
    "ucb1": lambda beta: Ucb1(beta),
    "thompson": lambda beta: EntropicThompson(beta),
}


def slow_erm(costs, beta):
    """Eq. entropic_risk_estimator on a list."""
    if beta == 0.0:
        return math.fsum(costs) / len(costs)
    top = max(costs) if beta > 0 else min(costs)
    return top + math.log(math.fsum(math.exp(beta * (x - top)) for x in costs) / len(costs)) / beta


def slow_quantile(law, level):
    total = 0.0
    for k in range(law.left.size):
        before, total = total, total + float(law.probability[k])
        if k == law.left.size - 1:
            total = 1.0
        if level < total:
            return float(law.left[k]) + float(law.width[k]) * ((level - before) / (total - before))
    raise AssertionError(level)


def slow_draw(bandit, i, drawn, rng):
    """Next cost of arm i; ``drawn[(i, s)]`` counts the costs taken from its outcome s."""
    arm, chosen = bandit.arms[i], 0
    if len(arm.outcomes) > 1:
        level, total = rng.random(), 0.0
        for chosen, outcome in enumerate(arm.outcomes):  # noqa: B007
            total += outcome.probability
            if level < total:
                break
    drawn[i, chosen] = drawn.get((i, chosen), 0) + 1
    outcome, level = arm.outcomes[chosen], rng.random()
    law = outcome.distribution
    if outcome.drift is not None:
        share = outcome.drift.amplitude * float(drawn[i, chosen]) ** -outcome.drift.decay
        law, level = (outcome.drift.start, level / share) if level < share else (law, (level - share) / (1 - share))
    return arm.cost + bandit.discount * slow_quantile(law, level)


def slow_normal(rng):
    radius = math.sqrt(-2.0 * math.log(1.0 - rng.random()))
    return radius * math.cos(2.0 * math.pi * rng.random())


def slow_gamma(shape, rng):
    boost = 1.0
    if shape < 1.0:
        boost, shape = (1.0 - rng.random()) ** (1.0 / shape), shape + 1.0
    d = shape - 1.0 / 3.0
    while True:
        x = slow_normal(rng)
        v = (1.0 + x / math.sqrt(9.0 * d)) ** 3
        if v > 0.0 and math.log(1.0 - rng.random()) < 0.5 * x * x + d - d * v + d * math.log(v):
            return boost * d * v


def slow_index(algorithm, width, costs, t, rng):
    n = len(costs)
    if isinstance(algorithm, ErmUcb):
        bonus = algorithm.constant * t**algorithm.exponent / n ** (1 - algorithm.eta)
        return slow_erm(costs, algorithm.beta) - bonus
    confidence = width * math.sqrt(2 * math.log(t) / n)
    mean = math.fsum(costs) / n
    if isinstance(algorithm, LipschitzUcb):
        return slow_erm(costs, algorithm.beta) - math.exp(abs(algorithm.beta) * width) * confidence
    if isinstance(algorithm, Ucb1):
        return mean - confidence
    spread = math.fsum((x - mean) ** 2 for x in costs)
    precision = slow_gamma(0.5 + n / 2, rng) / (0.5 + spread / 2)
    return mean + slow_normal(rng) / math.sqrt(n) + algorithm.beta / (2 * precision)


def slow_run(bandit, algorithm, pulls, rng):
    width = bandit.high - bandit.low
    lists, drawn, counts, average, stream = [[] for _ in bandit.arms], {}, [], [], []
    for t in range(pulls):
        if t < len(lists):
            chosen = t
        else:
            indices = [slow_index(algorithm, width, costs, t, rng) for costs in lists]
            chosen = indices.index(min(indices))
        lists[chosen].append(slow_draw(bandit, chosen, drawn, rng))
        counts.append([len(costs) for costs in lists])
        average.append(sum(len(c) * slow_erm(c, algorithm.beta) for c in lists if c) / (t + 1))
        stream.append(slow_erm([x for c in lists for x in c], algorithm.beta))
    return np.array(counts), np.array(average), np.array(stream)


@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("setting", BANDITS)
def test_every_pull_equals_the_slow_reference(setting, name, beta):
    bandit, algorithm = BANDITS[setting], ALGORITHMS[name](beta)
    run = simulate(bandit, algorithm, pulls=PULLS, replications=2, checkpoints=range(1, PULLS + 1), seed=7)
    for r, child in enumerate(np.random.SeedSequence(7).spawn(2)):
        rng = np.random.Generator(np.random.SFC64(child))
        counts, average, stream = slow_run(bandit, algorithm, PULLS, rng)
        np.testing.assert_array_equal(run.counts[r], counts)
        np.testing.assert_allclose(run.average[r], average, rtol=0, atol=1e-12)
        np.testing.assert_allclose(run.stream[r], stream, rtol=0, atol=1e-12)
