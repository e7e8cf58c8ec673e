"""What a search asks of a simulator beyond its steps: few outcomes, and how to value a leaf."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict

import numpy as np

from tailwise._validate import integer
from tailwise.bindings.widening import Widening
from tailwise.errors import OptionError

RolloutPolicy: TypeAlias = Callable[[Any, int, np.random.Generator], Any]
LeafValue: TypeAlias = Callable[[Any, int], float]


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """What every search that samples takes, and what an interface reads of it.

    Parameters
    ----------
    max_nodes : int, optional
        Stop when so many nodes are held.
    max_memory : int, optional
        Stop when the search, with the simulator's states and outcomes (of Python objects: as estimated), would need
        more bytes than this.
    widening : Widening, optional
        Bound the different outcomes of each action, for simulators with continuous outcomes.
    rollout_policy : callable, optional
        ``rollout_policy(state, h, rng) -> action``, followed by rollouts instead of uniform random actions.
    leaf_value : callable, optional
        ``leaf_value(state, h) -> float``: the cost-to-go (in the model's sense, discounted to step h) of a new state,
        instead of a rollout. For a compiled simulator this and ``rollout_policy`` are compiled.
    """

    max_nodes: int | None = None
    max_memory: int | None = None
    widening: Widening | None = None
    rollout_policy: RolloutPolicy | None = None
    leaf_value: LeafValue | None = None

    def __post_init__(self) -> None:
        if self.max_nodes is not None:
            integer(self.max_nodes, "max_nodes", low=1)
        if self.max_memory is not None:
            integer(self.max_memory, "max_memory", low=4096, hint="it is in bytes")
        if self.widening is not None and not isinstance(self.widening, Widening):
            raise OptionError(f"widening must be a Widening, as Widening(k=1, alpha=0.5), not {self.widening!r}")
        for name, shape in (("rollout_policy", "(state, h, rng) -> action"), ("leaf_value", "(state, h) -> float")):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise OptionError(f"{name} must be a function {shape}, not {given!r}")
        if self.rollout_policy is not None and self.leaf_value is not None:
            raise OptionError("give rollout_policy or leaf_value, not both: a leaf value replaces the rollout")


class SimulationKeywords(TypedDict, total=False):
    """The fields of :class:`SimulationOptions` as keywords of a planner."""

    max_nodes: int | None
    max_memory: int | None
    widening: Widening | None
    rollout_policy: RolloutPolicy | None
    leaf_value: LeafValue | None
