"""Copies of Python objects in which every random generator is a fresh one.

An environment is copied as ``pickle`` would, in memory: slots, deques, containers of any depth and size, pandas
objects and closures are all reached. Three things differ. A random generator, wherever it sits, is never copied but
made anew, to be seeded by whoever uses the copy: a copy of its state would show the planner the future. Functions,
classes and modules are kept by reference. And what is an ``EzPickle``, which pickle would make anew by its
constructor, is copied with the attributes that it has now. The bytes leave the states of generators out, so equal
bytes mean equal states.
"""

from __future__ import annotations

import copy
import copyreg
import io
import pickle
import random
import types
import weakref
from collections.abc import Hashable
from typing import Any, TypeAlias

import numpy as np

SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)
Generator: TypeAlias = np.random.Generator | np.random.RandomState | np.random.BitGenerator | random.Random
GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
_BY_REFERENCE = (type, types.ModuleType, types.CodeType, weakref.ref)
_EVERYBODYS = (np.random.mtrand._rand, getattr(random, "_inst", None))


class Copier:
    """Turns objects into bytes and back; it keeps what goes by reference, so a copier reads its own bytes only."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self._places: dict[Any, int] = {}

    def __deepcopy__(self, memo: Any) -> Copier:
        return self  # what was kept stays where it is; a second owner only adds to it

    def __getstate__(self) -> list[Any]:
        return self.held

    def __setstate__(self, held: list[Any]) -> None:
        self.held = held  # identities are those of this process
        self._places = {type(each) if isinstance(each, GENERATORS) else id(each): i for i, each in enumerate(held)}

    def place(self, value: Any, key: Any) -> int:
        """Return where ``value`` is kept by reference; values of one ``key`` share a place."""
        if key not in self._places:
            self._places[key] = len(self.held)
            self.held.append(value)
        return self._places[key]

    def freeze(self, value: Any) -> bytes:
        """Return ``value`` as bytes; raise whatever parts raise that cannot be pickled (sockets, windows)."""
        buffer = io.BytesIO()
        _Freezer(buffer, self).dump(value)
        return buffer.getvalue()

    def thaw(self, data: bytes) -> tuple[Any, list[Generator]]:
        """Return a new copy, and the fresh generators in it in a fixed order."""
        thawer = _Thawer(io.BytesIO(data), self.held)
        return thawer.load(), thawer.generators


class _Freezer(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, copier: Copier) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._copier = copier

    def reducer_override(self, value: Any) -> Any:
        if any(value is mark for mark in _MARKS):
            return NotImplemented
        if isinstance(value, GENERATORS):
            detached = np.random.default_rng(0) if type(value) is np.random.Generator else copy.deepcopy(value)
            return _fresh, (self._copier.place(detached, type(value)),)
        if isinstance(value, types.FunctionType):
            if value.__closure__ is None:
                return self._by_reference(value)
            names = self._copier.place(value.__globals__, id(value.__globals__))
            kept = (value.__name__, value.__defaults__, value.__kwdefaults__, dict(vars(value)))
            return _function, (value.__code__, names, *kept, value.__closure__)
        if isinstance(value, types.CellType):
            return _cell, (value.cell_contents,)
        if _is_made_anew(value):
            return copyreg.__newobj__, (type(value),), dict(vars(value)), None, None, _set_attributes  # type: ignore[attr-defined]
        return self._by_reference(value) if isinstance(value, _BY_REFERENCE) else NotImplemented

    def _by_reference(self, value: Any) -> Any:
        return _held, (self._copier.place(value, id(value)),)


class _Thawer(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, held: list[Any]) -> None:
        super().__init__(buffer)
        self._kept = held
        self.generators: list[Any] = []

    def find_class(self, module: str, name: str) -> Any:
        return getattr(self, name) if module == __name__ else super().find_class(module, name)

    def _held(self, place: int) -> Any:
        return self._kept[place]

    def _fresh(self, place: int) -> Any:
        self.generators.append(copy.deepcopy(self._kept[place]))
        return self.generators[-1]

    def _function(self, code: Any, names: int, name: str, defaults: Any, kw: Any, held: Any, closure: Any) -> Any:
        made = types.FunctionType(code, self._kept[names], name, defaults, closure)
        made.__kwdefaults__ = kw
        vars(made).update(held)
        return made

    def _cell(self, contents: Any) -> Any:
        return types.CellType(contents)

    def _set_attributes(self, made: Any, attributes: dict[str, Any]) -> None:
        vars(made).update(attributes)


def _is_made_anew(value: Any) -> bool:
    """Whether a value is pickled by Gymnasium's ``EzPickle``: as its constructor once made it."""
    return getattr(getattr(type(value), "__setstate__", None), "__qualname__", "") == "EzPickle.__setstate__"


# Names in the bytes, which ``_Thawer`` reads as its methods of the same names.
def _held() -> None: ...
def _fresh() -> None: ...
def _function() -> None: ...
def _cell() -> None: ...
def _set_attributes() -> None: ...
def _skip(*parts: Any) -> None: ...  # what is walked through and never read back


_MARKS = (_held, _fresh, _function, _cell, _set_attributes)


class _Finder(pickle.Pickler):
    """Walks through an object as a pickler does, past what cannot be pickled, and lists the generators it meets."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), pickle.HIGHEST_PROTOCOL)
        self.found: list[Any] = []

    def reducer_override(self, value: Any) -> Any:
        if value is _skip:
            return NotImplemented
        if isinstance(value, GENERATORS):
            if not any(value is each for each in _EVERYBODYS):
                self.found.append(value)
            return _skip, ()
        if isinstance(value, types.FunctionType):
            cells = tuple(_contents(cell) for cell in value.__closure__ or ())
            return _skip, (cells, value.__defaults__, value.__kwdefaults__, dict(vars(value)))
        if isinstance(value, types.GeneratorType):
            return _skip, (dict(value.gi_frame.f_locals) if value.gi_frame else (),)
        if isinstance(value, _BY_REFERENCE):
            return _skip, ()
        if _is_made_anew(value):
            return _skip, (dict(vars(value)),)
        try:
            return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        except Exception:  # it cannot be pickled, so there is no looking into it
            return _skip, ()


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


def find_generators(value: Any) -> list[Generator]:
    """Return the random generators inside an object, each once, in a fixed order; not the two of the whole program."""
    finder = _Finder()
    try:
        finder.dump(value)
    except Exception:  # what was found until then; the distribution of the steps decides, not this list
        return finder.found
    return finder.found


def reseed(generators: list[Any], rng: np.random.Generator) -> None:
    """Seed each generator anew, in place, from one draw of ``rng`` each."""
    for each in generators:
        seed = int(rng.integers(2**32))
        if isinstance(each, np.random.Generator):
            each = each.bit_generator
        if isinstance(each, np.random.BitGenerator):
            kind: Any = type(each)
            each.state = kind(seed).state
        else:
            each.seed(seed)


def global_states() -> tuple[Hashable, Hashable]:
    """Return the states of NumPy's and Python's global generators, to be compared."""
    name, words, *rest = np.random.get_state()  # noqa: NPY002
    return (name, np.asarray(words).tobytes(), *rest), random.getstate()


def is_data(value: Any) -> bool:
    """Whether a value is plain data: scalars, arrays and containers of them."""
    if isinstance(value, np.ndarray):
        return bool(value.dtype != object)
    if isinstance(value, dict):
        return all(is_data(key) and is_data(item) for key, item in value.items())
    return isinstance(value, SCALARS) or (isinstance(value, (list, tuple, set, frozenset)) and all(map(is_data, value)))


def freeze(value: Any) -> Hashable:
    """Return a hashable stand-in for data, equal where the data are equal."""
    if isinstance(value, SCALARS):
        value = value.item() if isinstance(value, np.generic) else value
        return value if value == value else "nan"
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes() if value.dtype != object else freeze(value.tolist()))
    if isinstance(value, dict):
        return ("dict", frozenset((freeze(key), freeze(item)) for key, item in value.items()))
    if isinstance(value, (set, frozenset)):
        return ("set", frozenset(map(freeze, value)))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(map(freeze, value)))
    try:
        return Copier().freeze(value)
    except Exception:  # it cannot be looked into
        return type(value).__name__


def duplicate(value: Any) -> Any:
    """Return a copy of data; quick for the usual ones."""
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple)) and all(isinstance(item, SCALARS) for item in value):
        return value if isinstance(value, tuple) else list(value)
    return copy.deepcopy(value)
