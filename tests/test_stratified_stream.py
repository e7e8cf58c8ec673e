"""Stratified luck: each draw as random as any, all of them together spread evenly."""

import copy
import pickle

import numpy as np
import pytest

from tailwise._random import StratifiedStream


def turns(stream, key, count, draw):
    return np.array([draw(stream.turn_to(key)) for _ in range(count)])


def test_the_first_draws_fall_into_each_stratum_once():
    drawn = turns(StratifiedStream(0), "key", 512, lambda rng: (rng.random(), rng.random(), rng.random()))
    for column in (0, 1):
        for size in (1, 2, 8, 32, 512):
            for first in range(0, 512, size):  # any run of the sequence that long
                assert len(set((size * drawn[first : first + size, column]).astype(int))) == size
    assert len(set((512 * drawn[:, 2]).astype(int))) < 450  # later ones are plainly random
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 0.15
    cells = np.histogram2d(drawn[:, 0], drawn[:, 1], bins=16, range=[[0, 1], [0, 1]])[0]
    assert cells.std() < 0.8  # of 2 on average: 1.4 by plain luck


def test_draws_of_half_a_word_are_stratified_too():
    drawn = turns(StratifiedStream(1), 0, 16, lambda rng: rng.integers(2, size=4))
    assert (drawn.sum(axis=0) == 8).all()
    assert len({tuple(row) for row in drawn}) > 4  # each on its own


def test_frequencies_are_right_in_the_mean_and_vary_little():
    shares = [turns(StratifiedStream(seed), 0, 107, lambda rng: rng.random() < 0.3).mean() for seed in range(40)]
    assert np.mean(shares) == pytest.approx(0.3, abs=0.003)
    assert np.std(shares) < 0.2 * np.sqrt(0.3 * 0.7 / 107)


def test_any_one_draw_is_uniform_to_its_last_digits():
    """The fifth of each key, whose first digits, and those far behind, are spread over the keys as by plain luck."""
    stream = StratifiedStream(3)
    drawn = np.array([turns(stream, key, 5, lambda rng: rng.random())[4] for key in range(2000)])
    for scale in (1, 2**6, 2**20, 2**40):
        counts = np.histogram(drawn * scale % 1.0, bins=10, range=(0, 1))[0]
        assert ((counts - 200) ** 2 / 200).sum() < 27.9  # chi-squared of 9, 0.1 %
    first = turns(stream, "digits", 2000, lambda rng: rng.random()) * 2**13 % 1.0  # a scale it has not come down to
    assert np.histogram(first, bins=10, range=(0, 1))[0].std() < 30


def test_keys_take_turns_and_a_copy_goes_on_alike():
    stream, twin = StratifiedStream(2), StratifiedStream(2)
    first = turns(stream, "a", 5, lambda rng: rng.random())
    assert (turns(twin, "a", 5, lambda rng: rng.random()) == first).all()
    turns(stream, "b", 3, lambda rng: rng.random(7))
    copies = copy.deepcopy(stream), pickle.loads(pickle.dumps(stream))
    drawn = turns(stream, "a", 11, lambda rng: rng.random())
    assert sorted((16 * np.append(first, drawn)).astype(int)) == list(range(16))
    for other in copies:
        assert (turns(other, "a", 11, lambda rng: rng.random()) == drawn).all()
