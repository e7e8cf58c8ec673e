"""Damaged files load, or fail with our error that names file and line; nothing else happens."""

import re
import resource
import time

import numpy as np
import pytest

from conftest import random_mdp
from formats.mutations import generator, mutate, subjects, try_one
from formats.small_files import write
from formats.test_everyday import COLUMNS
from formats.test_explicit import umb
from tailwise.errors import OptionError, TailwiseError
from tailwise.formats import csv_rows, load, save

NAMES = [
    "csv from 0", "csv from 1", "csv alternatives", "csv numbered", "csv saved", "domains_info", "metadata",
    "storm tra", "storm lab", "storm srew", "storm trew", "prism tra", "prism lab", "prism srew",
    "prism trew", "prism sta", "prism pexp", "csv names",
]  # fmt: skip
_ASKS = re.compile(
    r"model\.[a-z]+: .*; (say reward= one of|expected one)"
)  # a sound file, of which one thing is to be said
_WHERE = re.compile(r"(model|domains_info)\.[a-z.]+, line \d+")


def run(name, folder, count):
    """Damage ``count`` copies; return how many were refused and the longest time of one."""
    subject, refused, longest = subjects(folder)[name], 0, 0.0
    for index in range(count):
        began = time.process_time()
        error, data = try_one(subject, folder, generator(name, index))
        longest = max(longest, time.process_time() - began)
        if error is not None:
            assert isinstance(error, TailwiseError), (index, data, repr(error))
            is_asked = isinstance(error, OptionError) and _ASKS.search(str(error))
            assert is_asked or _WHERE.search(str(error)), (index, data, str(error))
            refused += 1
    return refused, longest


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_all_formats_are_fuzzed(tmp_path):
    assert sorted(subjects(tmp_path)) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_copies(tmp_path, name):
    before = peak()
    refused, _ = run(name, tmp_path, 150)
    assert refused > 0  # the damage does something
    assert peak() - before < 200e6


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("csv")])
def test_all_readers_say_the_same_of_damaged_copies(tmp_path, monkeypatch, name):
    """With pyarrow, with NumPy, and row by row: the same table, or the same words."""
    pytest.importorskip("pyarrow")
    subject = subjects(tmp_path)[name]
    for index in range(100):
        path = write(tmp_path, **subject.files)
        path.write_bytes(mutate(subject.files[subject.damaged], generator(name, index)))
        found = []
        for reader in ("_read_arrow", "_read_numpy", None):
            monkeypatch.setattr(
                csv_rows, "_read_fast", finite(getattr(csv_rows, reader)) if reader else lambda *_: None
            )
            try:
                mdp = load(path, horizon=3)
                mdp = getattr(mdp, "table", mdp)  # of alternatives
                found.append((mdp.num_states, mdp.losses.tolist(), mdp.probabilities.tolist(), mdp.notes))
            except TailwiseError as error:
                found.append(str(error))
        assert found[0] == found[1] == found[2], index


def finite(reader):
    """What is asked of a fast reader's columns."""

    def read(*arguments):
        raw = reader(*arguments)
        return raw if raw is not None and all(np.isfinite(column).all() for column in raw.values()) else None

    return read


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_ten_thousand_damaged_copies(tmp_path, name):
    before = peak()
    refused, longest = run(name, tmp_path, 10_000)
    print(f"{name}: {refused} of 10,000 refused, longest {1000 * longest:.0f} ms of processor time")
    assert 0 < refused < 10_000
    assert longest < 1.0
    assert peak() - before < 200e6


def damage(content, rng):
    """Flip some bytes, and cut some copies off."""
    found = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        found[int(rng.integers(len(found)))] ^= int(rng.integers(1, 256))
    return bytes(found[: int(rng.integers(1, len(found)))] if rng.random() < 0.2 else found)


@pytest.mark.parametrize("name", ["model.umb", "packed.umb", "model.parquet", "model.arrow", "model.csv.gz"])
def test_damaged_binary_files(tmp_path, name):
    """They load, or are refused by our error, which names the file."""
    if name.endswith((".parquet", ".arrow")):
        pytest.importorskip("pyarrow")
    if name.endswith(".umb"):
        path = umb(tmp_path, name, "w:gz" if name.startswith("packed") else "w")
    else:
        path = save(random_mdp(3, done=True), tmp_path / name)
    content, said, before = path.read_bytes(), [], peak()
    for index in range(200):
        path.write_bytes(damage(content, generator(name, index)))
        try:
            load(path, horizon=3, metadata="ignore") if not name.endswith(".umb") else load(path, horizon=3)
        except TailwiseError as error:
            said.append(str(error))
    assert all(str(path) in text for text in said)
    assert len(said) > 50
    assert peak() - before < 200e6


def test_damaged_cells_of_data_frames():
    """A cell of another kind, or out of range, is named by its row; no other error comes out."""
    said = []
    odd = [None, float("nan"), float("inf"), -1, 0.5, 1e300, 2**70, "", "x", "1", b"1", True, [], object(), 1 + 0j]
    for index in range(300):
        rng = generator("frame", index)
        frame = {name: list(column) for name, column in COLUMNS.items()}
        names = list(frame)
        for _ in range(int(rng.integers(1, 3))):
            column = frame[names[int(rng.integers(len(names)))]]
            column[int(rng.integers(len(column)))] = odd[int(rng.integers(len(odd)))]
        try:
            load(frame, horizon=3)
        except TailwiseError as error:
            said.append(str(error))
    assert all(re.search(r"the dict, (row|line|columns)", text) for text in said)
    assert 200 < len(said) < 300
