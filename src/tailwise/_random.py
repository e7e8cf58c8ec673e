"""Seeds and random streams.

Every entry point takes ``seed``: None, an int, a ``SeedSequence`` or a ``Generator``. All of
tailwise draws from NumPy's SFC64, whose state is four 64-bit words. Compiled kernels step
those very words in place (1 ns a draw instead of 5 through NumPy's function pointers), so that
a kernel, a user's compiled ``step`` and plain Python code share one stream, draw for draw.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import apart
from tailwise._jit import DISABLE_JIT, Kernel, inlined, kernel
from tailwise.errors import OptionError, VersionError

Seed: TypeAlias = "int | np.random.SeedSequence | np.random.Generator | None"

_UNIT = 1.0 / 9007199254740992.0  # 2**-53
_S3, _S11, _S24, _S40 = np.uint64(3), np.uint64(11), np.uint64(24), np.uint64(40)
_ONE = np.uint64(1)
_MASK = 0xFFFFFFFFFFFFFFFF
_FEWEST_TURNS, _MOST_TURNS = 16, 256  # that are made ready at once


def seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """Return a SeedSequence for ``seed``, or raise ``OptionError``; a Generator gives a child and so moves on.

    Of a SeedSequence it is a copy that has spawned nothing yet: spawning from it leaves the caller's as it was, and
    the same SeedSequence gives the same result again.
    """
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(seed.integers(0, 2**32, size=8, dtype=np.uint64).tolist())
    if seed is None:
        return np.random.SeedSequence()
    given: Any = seed
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and given >= 0:
        return np.random.SeedSequence(int(given))
    raise OptionError(f"seed must be None, a non-negative int, a SeedSequence or a Generator, not {seed!r}")


def generator(seed: Seed) -> np.random.Generator:
    """Return a fresh SFC64 generator for ``seed`` (see :func:`seed_sequence`)."""
    return np.random.Generator(np.random.SFC64(seed_sequence(seed)))


def seed_text(rng: np.random.Generator) -> str:
    """Return the seed of a generator in words, so that what it gave can be repeated; also where none was given."""
    found: Any = getattr(rng.bit_generator, "seed_seq", None)
    if not isinstance(found, np.random.SeedSequence):
        return "a generator's own"
    return f"{found.entropy}" + (f", child {found.spawn_key}" if found.spawn_key else "")


def stream_words(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return the state of an SFC64 generator, shared with it, for use in kernels: uint64, shape (5,).

    Four words are the state proper; the fifth buffers half a word between draws of 32 bits. ``rng`` must stay alive.
    """
    _verify_layout()
    if not isinstance(rng.bit_generator, np.random.SFC64):
        raise OptionError(f"a kernel needs an SFC64 generator, not {type(rng.bit_generator).__name__}")
    return _words_at(rng)


def _words_at(rng: np.random.Generator) -> NDArray[np.uint64]:
    address: Any = rng.bit_generator.ctypes.state_address
    return np.ctypeslib.as_array((ctypes.c_uint64 * 5).from_address(address))


@functools.cache
def _verify_layout() -> None:
    """Check, once a process, that SFC64's state lies in memory as the kernels read it: NumPy does not promise that."""
    rng, twin = (np.random.Generator(np.random.SFC64(20)) for _ in range(2))
    words = _words_at(rng)
    drawn = [_draw_one(words) for _ in range(3)]
    if drawn != twin.random(3).tolist() or rng.random() != twin.random():
        raise VersionError(
            f"NumPy {np.__version__} keeps the state of SFC64 otherwise than tailwise reads it; install another "
            "version of NumPy (pip install 'numpy<3'), or run without compilation (NUMBA_DISABLE_JIT=1)"
        )


@dataclass
class _Turns:
    """The turns of one key: seeds of its scrambling, how many were made ready, and those of them that are left."""

    seeds: NDArray[np.uint32]
    begun: int = 0
    states: NDArray[np.uint64] = field(default_factory=lambda: np.empty((0, 5), np.uint64))
    place: int = 0


def _sobol_directions() -> NDArray[np.uint32]:
    """Return the direction numbers of four dimensions (4, 32), the first bit of each number last (Joe & Kuo 2008)."""
    found = []
    for degree, middle, numbers in ((0, 0, [1] * 32), (1, 0, [1]), (2, 1, [1, 3]), (3, 1, [1, 3, 1])):
        while len(numbers) < 32:
            new = numbers[-degree] ^ numbers[-degree] << degree
            for back in range(1, degree):
                new ^= (middle >> degree - 1 - back & 1) * numbers[-back] << back
            numbers.append(new)
        found.append([int(f"{number << 31 - k:032b}"[::-1], 2) for k, number in enumerate(numbers)])
    return np.array(found, np.uint32)


_DIRECTIONS = _sobol_directions()


def _scrambled_sobol(first: int, count: int, seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return points of the sequence, (4, n), in units of 2**-32: each bit is changed by what stands before it."""
    indices = np.arange(first, first + count, dtype=np.uint32)
    points = np.zeros((4, count), np.uint32)
    for k in range((first + count - 1).bit_length()):
        points ^= _DIRECTIONS[:, k, None] * (indices >> np.uint32(k) & np.uint32(1))
    points += seeds  # the first bit is the last here, as carries go the other way (Laine & Karras 2011, Burley 2020)
    for factor in (0x6C50B47C, 0xB82F1E52, 0xC7AFE638, 0x8D22F6E6):
        points ^= points * np.uint32(factor)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        points = (points >> np.uint32(shift) & np.uint32(mask)) | (points & np.uint32(mask)) << np.uint32(shift)
    return points


class StratifiedStream:
    """A stream whose luck is spread evenly over the draws for one purpose: randomised quasi-Monte Carlo.

    Over the turns of a key, the first two words that are drawn from ``rng`` (and each half of them, as draws of 32 bits
    take one) are a Sobol sequence with Owen's scrambling, which falls evenly into strata however far it has come;
    further words are plainly random. Any one turn is as random as it would be, so that frequencies over turns are right
    in the mean; they vary less, by far where a step takes one draw.

    Attributes
    ----------
    rng : Generator
        What to draw from, after :meth:`turn_to`.
    """

    def __init__(self, seed: Seed) -> None:
        self._own = generator(seed)
        self.rng = generator(self._own)
        self._words = stream_words(self.rng)
        self._turns: dict[Hashable, _Turns] = {}

    def turn_to(self, key: Hashable) -> np.random.Generator:
        """Return ``rng``, ready for the next draws for a purpose."""
        turns = self._turns.get(key)
        if turns is None:
            turns = self._turns[key] = _Turns(self._own.integers(0, 2**32, (4, 1), dtype=np.uint32))
        if turns.place == len(turns.states):
            turns.states, turns.place = self._block(turns), 0
        self._words[:] = turns.states[turns.place]
        turns.place += 1
        return self.rng

    def _block(self, turns: _Turns) -> NDArray[np.uint64]:
        """Return states of SFC64 whose next two words are those of the sequence, solved for the state before them."""
        count = min(_MOST_TURNS, max(_FEWEST_TURNS, 2 * len(turns.states)))
        halves = _scrambled_sobol(turns.begun, count, turns.seeds).astype(np.uint64)
        turns.begun += count
        first, second = halves[0::2] | halves[1::2] << np.uint64(32)
        states = np.zeros((count, 5), np.uint64)
        kept = self._own.integers(0, _MASK, count, dtype=np.uint64, endpoint=True)
        states[:, 1], states[:, 3] = kept, _ONE
        states[:, 0] = first - kept - _ONE
        states[:, 2] = (second - (kept ^ (kept >> _S11)) - np.uint64(2)) * np.uint64(pow(9, -1, 2**64))
        return states

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_words"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._words = stream_words(self.rng)


def own_words(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return a copy of :func:`stream_words`: quicker, and right where the model does not draw from ``rng`` itself."""
    _verify_layout()
    state: Any = rng.bit_generator.state
    (words,) = apart(np.uint64, 5)
    words[:4] = state["state"]["state"]
    words[4] = 0
    return words


def _draw(words):  # type: ignore[no-untyped-def]
    drawn = words[0] + words[1] + words[3]
    words[3] += _ONE
    words[0] = words[1] ^ (words[1] >> _S11)
    words[1] = words[2] + (words[2] << _S3)
    words[2] = ((words[2] << _S24) | (words[2] >> _S40)) + drawn
    return (drawn >> _S11) * _UNIT


def _draw_interpreted(words: NDArray[np.uint64]) -> float:
    """The same in Python's unbounded integers."""
    a, b, c, counter = (int(word) for word in words[:4])
    drawn = (a + b + counter) & _MASK
    words[0], words[1] = b ^ (b >> 11), (c + (c << 3)) & _MASK
    words[2] = ((((c << 24) | (c >> 40)) & _MASK) + drawn) & _MASK
    words[3] = (counter + 1) & _MASK
    return (drawn >> 11) * _UNIT


next_double: Kernel = _draw_interpreted if DISABLE_JIT else inlined(_draw)
"""Draw a double in [0, 1) from SFC64's words (uint64), as ``Generator.random`` does."""


@kernel
def _draw_one(words):  # type: ignore[no-untyped-def]
    """Return the next number; cached on disk, which what is inlined is not."""
    return next_double(words)
