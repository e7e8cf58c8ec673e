"""Interned states: one handle per distinct tuple of words."""

import numpy as np

from tailwise.bindings import intern


def test_handles_are_dense_and_stable_over_growth():
    rng = np.random.default_rng(0)
    rows = rng.integers(-5, 5, size=(3000, 3))
    store = intern.new_store(3, 4)
    handles = []
    for row in rows:
        handle = intern.intern(store, row)
        while handle == intern.FULL_STORE:
            store = intern.grown(store)
            handle = intern.intern(store, row)
        handles.append(int(handle))
    known = {}
    for row, handle in zip(map(tuple, rows.tolist()), handles, strict=True):
        assert known.setdefault(row, handle) == handle
    assert sorted(known.values()) == list(range(len(known)))
    assert all(tuple(store.words[h].tolist()) == row for row, h in known.items())


def test_retaining_keeps_the_words():
    store = intern.new_store(1, 64)
    rows = np.arange(50).reshape(-1, 1) * 7
    handles = intern.intern_rows(store, rows)
    kept, fresh = intern.retained(store, handles[[3, 40, 3]])
    assert kept.used[0] == 2
    assert kept.words[fresh].reshape(-1).tolist() == [21, 280, 21]


def test_float_words():
    for value in (0.0, -0.0, 1.5, -1e300, float("inf")):
        assert intern.word_float(intern.float_word(value)) == value
    assert intern.float_word(-0.0) == intern.float_word(0.0)
