"""The decorators of kernels."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tailwise import _jit
from tailwise._random import generator, next_double, stream_words
from tailwise.errors import OptionError
from tailwise.search.anytime import compile_notice


def test_a_kernel_without_a_cache_folder_still_compiles(tmp_path):
    """A function without a source file has nowhere to be cached."""
    scope = {}
    exec("def double(x):\n    return 2 * x\n", scope)
    assert _jit.kernel(scope["double"])(4) == 8


def test_a_kernel_is_prepared_for_arguments_without_a_call():
    @_jit.kernel
    def spoil(array, factor):
        array[0] *= factor

    array = np.ones(3)
    _jit.prepare(spoil, array, 2.0)
    assert array[0] == 1.0
    if not _jit.DISABLE_JIT:
        assert len(spoil.signatures) == 1
    spoil(array, 3.0)
    assert array[0] == 3.0
    if not _jit.DISABLE_JIT:
        assert len(spoil.signatures) == 1


def test_borrowed_arrays_are_the_callers():
    @_jit.kernel
    def fill(array):
        array = _jit.borrowed(array)
        array[0] = 7.0
        return array[0]

    data = np.zeros(3)
    assert fill(data) == 7.0
    assert data[0] == 7.0


@_jit.ChosenByKind
def area(shape):
    return 0.0


@_jit.inlined
def twice(shape):
    return 2.0 * area(shape)


def area_of_borrowed(shape):
    return twice(_jit.borrowed(shape))


@pytest.mark.compiled
def test_each_of_two_kinds_of_one_name_and_the_same_fields_has_its_own_body():
    """Two modules may both call their rule a Square, and a notebook's cell makes its class again when it is edited."""
    numba = pytest.importorskip("numba")

    def make(factor):
        class Square(NamedTuple):
            side: float

        area.register(Square, lambda shape: factor * shape.side)
        return Square(3.0)

    assert [numba.njit(area_of_borrowed)(make(factor)) for factor in (1.0, 10.0, 100.0)] == [6.0, 60.0, 600.0]


def test_one_stream_for_kernels_and_numpy():
    """Kernel draws and NumPy draws alternate on the same state."""
    mixed, plain = generator(5), generator(5)
    words = stream_words(mixed)
    drawn = [next_double(words), mixed.random(), next_double(words), mixed.random()]
    assert drawn == plain.random(4).tolist()


def test_seeds():
    child = np.random.SeedSequence(3)
    assert generator(3).random() == generator(child).random() == generator(np.int64(3)).random()
    parent = np.random.default_rng(0)
    assert generator(parent).random() != generator(parent).random()  # a Generator moves on
    for bad in (-1, 1.5, "x", True):
        with pytest.raises(OptionError, match="seed"):
            generator(bad)
    with pytest.raises(OptionError, match="SFC64"):
        stream_words(np.random.default_rng(0))


def test_ctrl_c_while_kernels_are_compiled_says_what_is_kept(capsys):
    with pytest.raises(KeyboardInterrupt), compile_notice():
        raise KeyboardInterrupt
    assert "the next run compiles the others" in capsys.readouterr().err


@pytest.mark.compiled
def test_the_search_is_cached_across_processes(tmp_path):
    """The second process loads the kernel: its dispatcher counts a hit and no miss."""
    code = (
        "from tailwise import ErmMcts, domains; search = ErmMcts(domains.make('mdp-4'), 0.5, seed=0);"
        "search.plan(iterations=10); stats = search._compiled().stats;"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert [run.strip() for run in runs] == ["0 1", "1 0"]


def triple(x):
    return 3 * x


@pytest.mark.compiled
@pytest.mark.parametrize("spoilt", [b"cno.such.module\nThing\n.", b"", b"\0\1"], ids=["moved", "empty", "damaged"])
def test_a_cache_that_cannot_be_read_is_made_anew(spoilt):
    """Classes move between versions, and files are cut off: neither may end a command."""
    file = _jit.kernel(triple)._dispatcher._cache._cache_file
    assert _jit.kernel(triple)(1) == 3
    stored = pickle.loads(Path(file._index_path).read_bytes())  # numba's version comes first, what it holds after it
    for index in (pickle.dumps(stored) + spoilt, spoilt):
        Path(file._index_path).write_bytes(index)
        assert _jit.kernel(triple)(2) == 6
        assert file._load_index()
    for name in file._load_index().values():
        Path(file._data_path(name)).write_bytes(spoilt)
    assert _jit.kernel(triple)(3) == 9
