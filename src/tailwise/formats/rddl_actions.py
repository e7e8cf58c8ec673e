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

from tailwise._validate import integer
from tailwise.errors import ModelError


@dataclass(frozen=True, kw_only=True)
class ActionLimits:
    """Bounds on the joint actions of an instance.

    Attributes
    ----------
    max_actions : int, default 1000
        Most joint actions to enumerate; an instance with more is refused.
    max_concurrent : int, optional
        Most action fluents that differ from their defaults at once, beside the instance's own bound.
    integer_bound : int, optional
        Integer action fluents take values from minus this to this, beside the instance's own bounds.
    levels : int, optional
        Real-valued action fluents take so many values, evenly from their lower to their upper bound.
    """

    max_actions: int = 1000
    max_concurrent: int | None = None
    integer_bound: int | None = None
    levels: int | None = None

    def __post_init__(self) -> None:
        integer(self.max_actions, "max_actions", low=1)
        if self.levels is not None:
            integer(self.levels, "levels", low=2)
        for name in ("max_concurrent", "integer_bound"):
            if getattr(self, name) is not None:
                integer(getattr(self, name), name, low=0)

    def notes(self) -> tuple[str, ...]:
        """Return what these limits leave out, in words."""
        found = []
        if self.max_concurrent is not None:
            found.append(f"only actions with at most {self.max_concurrent} fluents set at once are considered")
        if self.integer_bound is not None:
            found.append(f"integer actions are limited to values of at most {self.integer_bound} in size")
        if self.levels is not None:
            found.append(f"real-valued actions take {self.levels} values each, evenly spread")
        return tuple(found)


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


def joint_actions(sampler: Any, limits: ActionLimits, source: str) -> tuple[JointAction, ...]:
    """Enumerate the joint actions, by number of fluents that differ from their defaults; the first does nothing.

    Raises ``ModelError`` if an action fluent is real-valued or unbounded, or there are too many joint actions.
    """
    choices = _choices(sampler, limits, source)
    most = int(min(sampler.rddl.max_allowed_actions, len(choices)))
    if limits.max_concurrent is not None:
        most = min(most, limits.max_concurrent)
    count = _count([len(choice.others) for choice in choices], most)
    if count > limits.max_actions:
        raise ModelError(
            f"{source}: {count} joint actions (at most {most} of {len(choices)} action fluents at once), "
            f"more than max_actions={limits.max_actions}; raise it, or consider fewer at once with max_concurrent="
        )
    return tuple(
        _build(sampler, chosen, assignment)
        for size in range(most + 1)
        for chosen in itertools.combinations(choices, size)
        for assignment in itertools.product(*(choice.others for choice in chosen))
    )


def _choices(sampler: Any, limits: ActionLimits, source: str) -> list[_Choice]:
    rddl = sampler.rddl
    bounds: Any = None
    found: list[_Choice] = []
    for fluent, default in sampler.noop_actions.items():
        kind = rddl.action_ranges[fluent]
        if kind == "real" and limits.levels is None:
            raise ModelError(
                f"{source}: the action fluent {fluent!r} takes real values; expected finitely many actions: say levels="
            )
        if kind in ("int", "real") and bounds is None:
            bounds = _bounds(sampler)
        flat = np.asarray(default).reshape(-1)
        for index, (grounded, _) in enumerate(rddl.ground_var_with_values(fluent, default)):
            name = _pretty(grounded)
            if kind == "bool":
                values: list[tuple[str, Any]] = [(f"not {name}", False), (name, True)]
            elif kind == "real":
                low, high = (float(bound) for bound in (np.max(bounds[grounded][0]), np.min(bounds[grounded][1])))
                if not np.isfinite(high - low):
                    raise ModelError(f"{source}: the real-valued action fluent {name!r} has no bounds, so no levels")
                values = [(f"{name}={v:g}", v) for v in np.linspace(low, high, limits.levels or 2).tolist()]
            elif kind == "int":
                low, high = (float(np.max(bound)) for bound in bounds[grounded])
                if limits.integer_bound is not None:
                    low, high = max(low, -limits.integer_bound), min(high, limits.integer_bound)
                if not high - low < limits.max_actions:
                    raise ModelError(
                        f"{source}: the integer action fluent {name!r} is not bounded to fewer than "
                        f"max_actions={limits.max_actions} values; say integer_bound="
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
