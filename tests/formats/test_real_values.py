"""Real files, solved: the same as QuantEcon on arrays built from the file by the csv module alone."""

import csv
from collections import defaultdict

import numpy as np
import pytest

from tailwise import backward_induction
from tailwise.formats import load

STEPS = 25
NAMES = [
    "cliff.csv", "gridworld_transient.csv", "inventory1.csv", "machine.csv",
    "machine_replacement_zero_based.csv",
    "population.csv", "riverswim.csv", "ruin.csv", "two_state.csv", "rock_paper_scissors_outcomes.csv",
]  # fmt: skip


def loaded(data_folder, name, **options):
    """The table of a file; of alternatives, one drawn anew at each step, as :func:`by_hand` reads them."""
    return load(data_folder / name, **options, **({"outcomes": "uniform"} if "outcomes" in name else {}))


def by_hand(path):
    """Mean rewards and probabilities of the (state, action) pairs, ids as they stand in the file."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    ids = sorted({int(row["idstatefrom"]) for row in rows})
    total, means, chances = defaultdict(float), defaultdict(float), defaultdict(float)
    for row in rows:
        pair = (int(row["idstatefrom"]), int(row["idaction"]))
        total[pair] += float(row["probability"])
        means[pair] += float(row["probability"]) * float(row["reward"])
        chances[pair, int(row["idstateto"])] += float(row["probability"])
    pairs = sorted(total)
    index = {number: position for position, number in enumerate(ids)}
    probabilities = np.zeros((len(pairs), len(ids)))
    for (pair, target), chance in chances.items():
        probabilities[pairs.index(pair), index[target]] += chance / total[pair]
    rewards = np.array([means[pair] / total[pair] for pair in pairs])
    low = min(action for _, action in pairs)
    return rewards, probabilities, [index[s] for s, _ in pairs], [a - low for _, a in pairs]


@pytest.mark.compiled  # QuantEcon itself needs its kernels compiled
@pytest.mark.parametrize("name", NAMES)
def test_values_are_quantecons(data_folder, name):
    markov = pytest.importorskip("quantecon.markov")
    rewards, probabilities, states, actions = by_hand(data_folder / name)
    problem = markov.DiscreteDP(rewards, probabilities, 0.9, states, actions)
    expected, _ = markov.backward_induction(problem, STEPS)
    mdp = loaded(data_folder, name, horizon=STEPS, discount=0.9)
    assert np.allclose(backward_induction(mdp, 0.0).values, expected, rtol=0, atol=1e-8)
    tiny = backward_induction(mdp, -1e-12).values
    assert np.allclose(tiny, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [*NAMES, "inventory.arrow"])
def test_aversion_never_helps(data_folder, name):
    if name.endswith("arrow"):
        pytest.importorskip("pyarrow")
    mdp = loaded(data_folder, name, horizon=8)
    averse, neutral = (backward_induction(mdp, beta).value for beta in (0.5, 0.0))
    assert averse <= neutral + 1e-9  # rewards: the certainty equivalent falls
