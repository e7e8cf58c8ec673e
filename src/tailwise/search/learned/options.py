"""How a learned-model search is configured: a frozen, validated value, and its form for the kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import real
from tailwise.bindings.options import SimulationKeywords, SimulationOptions, limits_of
from tailwise.errors import OptionError
from tailwise.search.prior import Asked, NoPrior, Prior

_SETTLED = 32  # an action taken more often is backed up on the path 32 to 64 times while its count doubles
_TABLE = 16_384  # roots of counts below this are looked up


@dataclass(frozen=True, kw_only=True)
class LearnedOptions(SimulationOptions):
    """Everything that shapes a learned-model search, besides the model and the seed.

    Parameters
    ----------
    beta : float
        Finite risk level at step 0 (1/cost); at step h the search works at ``beta * discount**h``.
    exploration : float, default 0.1
        Non-negative: the exploration bonus in units of the range of costs-to-go that was observed, so that there is
        nothing to tune to the scale of the costs. From .03 to .3 it hardly matters. Where it searches as a tree, ten
        times as much, of the standard deviation of the totals at the root if that is less than the range.
    max_nodes, max_memory, widening, rollout_policy, prior_policy, leaf_value : optional
        As for :class:`tailwise.bindings.SimulationOptions`. With ``widening`` an action of which many outcomes were
        seen takes one of them again, which costs no step. Every fourth iteration tries the actions of the root's state
        evenly and follows a ``rollout_policy`` everywhere else, so that the model knows where it leads.
        With a ``leaf_value`` an iteration ends at a new state, but a fourth of all steps goes on to the end (and every
        fourth of those iterations by the ``rollout_policy``, if there are both). It is asked once for each state and
        step, and is believed as far as the draws leave it possible, and no more once they refute it more often than
        not; so it helps where it is right, and cannot harm for long.
    features : callable, optional
        ``features(state) -> sequence of floats``, of one length: what the cost-to-go is fitted to where states do not
        come back, and, if no two states have the same, in what the changes are told by which actions are compared
        where they do. Without it a state's own numbers, if it is a number or a tuple of numbers.
    """

    beta: float
    exploration: float = 0.1
    features: Callable[[Any], Sequence[float]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.beta, "beta", hint="0 is the mean, positive averse, negative seeking")
        real(self.exploration, "exploration", low=0.0, hint="it is a multiple of the observed range")
        if self.features is not None and not callable(self.features):
            raise OptionError(f"features must be a function (state) -> numbers, not {self.features!r}")


class LearnedKeywords(SimulationKeywords, total=False):
    """The fields of :class:`LearnedOptions`, without beta, as keywords of a planner."""

    exploration: float
    features: Callable[[Any], Sequence[float]] | None


class LearnedRules(NamedTuple):
    """The options as the kernel reads them; H is the horizon."""

    horizon: int
    discount: float
    betas: NDArray[np.float64]  # (H,) risk level of each step
    horizon_left: NDArray[np.float64]  # (H + 1,) sum of discount^k over the steps left
    exploration: float
    inverse_roots: NDArray[np.float64]  # (16384,) n ** -0.5
    fourth_roots: NDArray[np.float64]  # (16384,) n ** 0.25
    rests: NDArray[np.int64]  # (16384,) an action taken n times is backed up where ``n & rests[n]`` is 0
    leaves: bool  # whether ``leaf_value`` says what each state at each step is worth
    bounded: bool  # whether ``bounds`` says between what each state at each step is worth
    follows: bool  # whether iterations follow a ``rollout_policy``
    fits: bool  # whether the cost-to-go is fitted where states do not come back
    prior: NoPrior | Asked
    widening: NDArray[np.float64]  # (2,) k and alpha, (0,) where there is none


@functools.cache
def _tables() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    counts = np.maximum(np.arange(_TABLE, dtype=np.float64), 1.0)
    rests = 2 ** np.floor(np.log2(np.maximum(counts // _SETTLED, 1.0))).astype(np.int64) - 1
    return 1.0 / np.sqrt(counts), np.sqrt(np.sqrt(counts)), rests


def compile_rules(
    options: LearnedOptions, horizon: int, discount: float, fits: bool, prior: Prior | None
) -> LearnedRules:
    """Turn options into the kernel's form, for a model's horizon and discount."""
    powers = discount ** np.arange(horizon, dtype=np.float64)
    horizon_left = np.concatenate((np.cumsum(powers)[::-1], [0.0]))
    return LearnedRules(
        horizon,
        discount,
        options.beta * powers,
        horizon_left,
        options.exploration,
        *_tables(),
        options.leaf_value is not None,
        options.bounds is not None,
        options.rollout_policy is not None,
        fits,
        NoPrior() if prior is None else Asked(prior.function),
        limits_of(options.widening),
    )
