"""How a learned-model search is configured: a frozen, validated value, and its form for the kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import integer, real
from tailwise.bindings import Widening
from tailwise.bindings.widening import limits_of
from tailwise.errors import OptionError

_SETTLED = 32  # an action taken more often is backed up on the path 32 to 64 times while its count doubles
_TABLE = 16_384  # roots of counts below this are looked up


@dataclass(frozen=True, kw_only=True)
class LearnedOptions:
    """Everything that shapes a learned-model search, besides the model and the seed.

    Parameters
    ----------
    beta : float
        Finite risk level at step 0 (1/cost); at step h the search works at ``beta * discount**h``.
    exploration : float, default 0.1
        Non-negative: the exploration bonus in units of the range of costs-to-go that was observed, so that there is
        nothing to tune to the scale of the costs. From .03 to .3 it hardly matters. Where it searches as a tree, ten
        times as much, of the standard deviation of the totals at the root if that is less than the range.
    max_nodes : int, optional
        Stop when so many (step, state) nodes are held.
    max_memory : int, optional
        Stop when the search would need more bytes than this.
    widening : Widening, optional
        Take outcomes seen before again, once an action has shown many: for continuous outcomes.
    rollout_policy : callable, optional
        ``rollout_policy(state, h, rng) -> action``: a new state is valued by following it to the end.
    leaf_value : callable, optional
        ``leaf_value(state, h) -> float``: the cost-to-go (in the model's sense, discounted to step h) of a new state.
    """

    beta: float
    exploration: float = 0.1
    max_nodes: int | None = None
    max_memory: int | None = None
    widening: Widening | None = None
    rollout_policy: Callable[[Any, int, np.random.Generator], Any] | None = None
    leaf_value: Callable[[Any, int], float] | None = None

    def __post_init__(self) -> None:
        real(self.beta, "beta", hint="0 is the mean, positive averse, negative seeking")
        real(self.exploration, "exploration", low=0.0, hint="it is a multiple of the observed range")
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

    def without_widening(self) -> LearnedOptions:
        """Return what a model is bound with: the search itself takes outcomes again, from its own counts."""
        return dataclasses.replace(self, widening=None)


class LearnedKeywords(TypedDict, total=False):
    """The fields of :class:`LearnedOptions` as keywords of a planner that chooses beta by itself."""

    exploration: float
    max_nodes: int | None
    max_memory: int | None
    widening: Widening | None
    rollout_policy: Callable[[Any, int, np.random.Generator], Any] | None
    leaf_value: Callable[[Any, int], float] | None


class LearnedRules(NamedTuple):
    """The options as the kernel reads them; H is the horizon."""

    horizon: int
    discount: float
    betas: NDArray[np.float64]  # (H,) risk level of each step
    togo: NDArray[np.float64]  # (H + 1,) sum of discount^k over the steps left
    exploration: float
    inverse_roots: NDArray[np.float64]  # (16384,) n ** -0.5
    fourth_roots: NDArray[np.float64]  # (16384,) n ** 0.25
    rests: NDArray[np.int64]  # (16384,) an action taken n times is backed up where ``n & rests[n]`` is 0
    leaves: bool  # whether every new state is rolled out
    widening: NDArray[np.float64]  # (2,) k and alpha, (0,) where there is none


def compile_rules(options: LearnedOptions, horizon: int, discount: float) -> LearnedRules:
    """Turn options into the kernel's form, for a model's horizon and discount."""
    counts = np.maximum(np.arange(_TABLE, dtype=np.float64), 1.0)
    powers = discount ** np.arange(horizon, dtype=np.float64)
    togo = np.concatenate((np.cumsum(powers)[::-1], [0.0]))
    return LearnedRules(
        horizon,
        discount,
        options.beta * powers,
        togo,
        options.exploration,
        1.0 / np.sqrt(counts),
        np.sqrt(np.sqrt(counts)),
        2 ** np.floor(np.log2(np.maximum(counts // _SETTLED, 1.0))).astype(np.int64) - 1,
        options.rollout_policy is not None or options.leaf_value is not None,
        limits_of(options.widening),
    )
