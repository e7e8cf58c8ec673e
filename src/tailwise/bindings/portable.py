"""Whether the states of a Python simulator can be kept in a file: without pickle, and with nothing lost."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any

from tailwise._values import CannotPackError, pack, unpack
from tailwise.errors import SimulatorError
from tailwise.models.simulator import model_name, short


def require_portable(states: list[Hashable], first: int, model: Any) -> None:
    """Raise unless each state from ``first`` on comes back equal, with the same types and in the same order.

    Raises
    ------
    SimulatorError
        Naming the first state that does not, and the way out.
    """
    for state in states[first:]:
        fault = _fault(state)
        if fault:
            raise SimulatorError(
                f"state {short(state)} of {model_name(model)} cannot be kept in a file: {fault}. Let states be "
                "numbers, texts, tuples, frozensets, or frozen dataclasses and named tuples of such, of a class at the "
                "top of a module; or keep the plan alone (plan.save)"
            )


def _fault(state: Any) -> str:
    try:
        packed, arrays = _packed(state)
        copy = unpack(json.loads(packed), arrays)
        if _text(copy) != _text(state) or hash(copy) != hash(state) or not bool(copy == state):
            return "it does not come back the same"
    except CannotPackError as error:
        return str(error)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _packed(state: Any) -> tuple[str, list[Any]]:
    arrays: list[Any] = []
    return json.dumps(pack(state, arrays)), arrays


def _text(state: Any) -> str:
    packed, arrays = _packed(state)
    return packed + "".join(f"{array.dtype.str}{array.shape}{array.tobytes()!r}" for array in arrays)
