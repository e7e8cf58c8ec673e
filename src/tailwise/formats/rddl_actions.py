"""All joint actions of an RDDL instance.

An action sets every action fluent, and at most ``max-nondef-actions`` of them may differ from their
defaults. Their number is counted before any is built, so that a large instance is refused at once.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import ModelError


@dataclass(frozen=True)
class JointAction:
    """One action: its name, and a value for every action fluent."""

    name: str
    values: tuple[tuple[str, NDArray[Any]], ...]


@dataclass(frozen=True)
class _Choice:
    """One grounded action fluent, and the values that differ from its default."""

    fluent: str
    index: int  # position in the fluent's flattened array
    others: tuple[tuple[str, Any], ...]  # name of the assignment, value


def joint_actions(
    sampler: Any, limit: int, source: str, *, integer_bound: int | None = None
) -> tuple[JointAction, ...]:
    """Enumerate the joint actions; the first does nothing.

    Parameters
    ----------
    sampler : RDDLSimulator
        pyRDDLGym's simulator of the instance.
    limit : int
        Most joint actions to enumerate.
    source : str
        The instance, for messages.
    integer_bound : int, optional
        Integer action fluents take values from minus this to this; by default the instance bounds them.

    Returns
    -------
    tuple of JointAction
        By number of fluents that differ from their defaults.

    Raises
    ------
    ModelError
        If an action fluent is real-valued or unbounded, or there are more than ``limit`` joint actions.
    """
    choices = _choices(sampler, limit, source, integer_bound)
    most = int(min(sampler.rddl.max_allowed_actions, len(choices)))
    count = _count([len(choice.others) for choice in choices], most)
    if count > limit:
        raise ModelError(
            f"{source}: {count} joint actions (at most {most} of {len(choices)} action fluents at once), "
            f"more than max_actions={limit}; raise it, or take an instance with fewer concurrent actions"
        )
    return tuple(
        _build(sampler, chosen, assignment)
        for size in range(most + 1)
        for chosen in itertools.combinations(choices, size)
        for assignment in itertools.product(*(choice.others for choice in chosen))
    )


def _choices(sampler: Any, limit: int, source: str, integer_bound: int | None) -> list[_Choice]:
    rddl = sampler.rddl
    bounds: Any = None
    found: list[_Choice] = []
    for fluent, default in sampler.noop_actions.items():
        kind = rddl.action_ranges[fluent]
        if kind == "real":
            raise ModelError(
                f"{source}: the action fluent {fluent!r} takes real values; expected finitely many actions"
            )
        if kind == "int" and bounds is None:
            bounds = _bounds(sampler)
        flat = np.asarray(default).reshape(-1)
        for index, (grounded, _) in enumerate(rddl.ground_var_with_values(fluent, default)):
            name = _pretty(grounded)
            if kind == "bool":
                values: list[tuple[str, Any]] = [(f"not {name}", False), (name, True)]
            elif kind == "int":
                low, high = (float(np.max(bound)) for bound in bounds[grounded])
                if integer_bound is not None:
                    low, high = max(low, -integer_bound), min(high, integer_bound)
                if not high - low < limit:
                    raise ModelError(
                        f"{source}: the integer action fluent {name!r} is not bounded to fewer than "
                        f"max_actions={limit} values; say integer_bound="
                    )
                values = [(f"{name}={v}", v) for v in range(int(np.ceil(low)), int(np.floor(high)) + 1)]
            else:
                values = [(f"{name}={item}", v) for v, item in enumerate(rddl.type_to_objects[kind])]
            others = tuple((text, value) for text, value in values if value != flat[index])
            found.append(_Choice(fluent, index, others))
    return found


def _bounds(sampler: Any) -> Any:
    constraints = importlib.import_module("pyRDDLGym.core.constraints")
    return constraints.RDDLConstraints(sampler, vectorized=False).bounds


def _count(sizes: Sequence[int], most: int) -> int:
    """Ways to pick at most ``most`` items and a value for each: elementary symmetric sums, exact."""
    ways = [1] + [0] * most
    for size in sizes:
        for picked in range(most, 0, -1):
            ways[picked] += ways[picked - 1] * size
    return sum(ways)


def _build(sampler: Any, chosen: Sequence[_Choice], assignment: Sequence[tuple[str, Any]]) -> JointAction:
    values = {fluent: np.array(default) for fluent, default in sampler.noop_actions.items()}
    for choice, (_, value) in zip(chosen, assignment, strict=True):
        values[choice.fluent].reshape(-1)[choice.index] = value
    name = " & ".join(text for text, _ in assignment) or "noop"
    return JointAction(name, tuple(values.items()))


def _pretty(grounded: str) -> str:
    """``move___a__b`` as ``move(a,b)``."""
    fluent, bar, objects = grounded.partition("___")
    return f"{fluent}({objects.replace('__', ',')})" if bar else fluent
