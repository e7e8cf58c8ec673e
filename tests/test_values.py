"""Values that are packed come back with the same types."""

import enum
import json
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailwise._values import CannotPackError, class_name, find_class, pack, unpack

hashable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=8,
)
values = st.recursive(
    hashable | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(hashable, inner, max_size=3),
    max_leaves=12,
)


def there_and_back(value):
    arrays = []
    packed = json.loads(json.dumps(pack(value, arrays)))
    return unpack(packed, arrays)


def typed(value):
    """The value as text, with the type of every part."""
    name = type(value).__name__
    if isinstance(value, (tuple, list)):
        return f"{name}({', '.join(map(typed, value))})"
    if isinstance(value, (set, frozenset)):
        return f"{name}({', '.join(sorted(map(typed, value)))})"
    if isinstance(value, dict):
        return f"{name}({', '.join(typed(pair) for pair in value.items())})"
    return f"{name} {value!r}"


@settings(deadline=None)
@given(values)
def test_plain_values_come_back(value):
    assert typed(there_and_back(value)) == typed(value)


def test_numbers_that_json_lacks():
    for value in (math.inf, -math.inf, -0.0, 5e-324, 2**200, -(2**63)):
        assert repr(there_and_back(value)) == repr(value)
    assert there_and_back(float("nan")) is math.nan


def test_arrays_and_their_scalars():
    for value in (
        np.arange(4, dtype=">i2").reshape(2, 2),
        np.float32(0.1),
        np.str_("a"),
        np.bool_(True),
        np.array(2.0),
    ):
        found = there_and_back(value)
        assert type(found) is type(value)
        assert found.dtype == value.dtype
        assert np.array_equal(found, value)


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.IntFlag):
    RED = 1
    BLUE = 2


def test_classes_come_back_by_name():
    assert there_and_back(Point(1, Colour.BLUE)) == Point(1, Colour.BLUE)
    assert type(there_and_back(Point(1, 2))) is Point
    assert find_class(class_name(Point)) is Point


class Text(str):
    __slots__ = ()


def test_what_cannot_be_said_is_named():
    class Local(Point):
        pass

    for value in (object(), Text("a"), Local(1, 2), np.array([None]), len, type, range(3), Colour.RED | Colour.BLUE):
        with pytest.raises(CannotPackError, match=type(value).__qualname__):
            pack((1, [value]), [])


def test_nothing_is_imported_and_nothing_is_called():
    for name in ("no_such_module:Thing", "os:system", "os:path", "json:decoder.JSONDecoder.nothing"):
        with pytest.raises(LookupError, match="there is no class"):
            find_class(name)
    for packed in (["fields", "json.decoder:JSONDecoder", []], ["named", "builtins:int", 1], ["call", "builtins:int"]):
        with pytest.raises((ValueError, TypeError)):
            unpack(packed, [])
