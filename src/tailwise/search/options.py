"""How a search is configured: frozen, validated values, and what they become for the kernel.

A recommendation of your own derives from :class:`Recommendation` and has one method; it runs in Python.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import choice, real
from tailwise.bindings.options import SimulationKeywords, SimulationOptions, limits_of
from tailwise.bonuses import Bonus, PolynomialBonus, RangeBonus, Slots
from tailwise.errors import OptionError
from tailwise.search.backups import Backup, OffPolicyBackup, SampledBackup, Settings
from tailwise.search.kernels import Rules
from tailwise.search.leaves import Leaf, Rollout, WholePath
from tailwise.search.prior import WEIGHT, Asked, Guided, NoPrior, Prior
from tailwise.search.tree import Limits


class Recommendation:
    """Base class of recommendation rules; derive a frozen dataclass from it."""

    def choose(self, visits: NDArray[np.int64], values: NDArray[np.float64]) -> int:
        """Return the position of the recommended action.

        Parameters
        ----------
        visits : ndarray of int64, shape (A,)
            How often each action was taken; at least one is positive.
        values : ndarray of float64, shape (A,)
            Its estimated ERM, as a cost; of no meaning where ``visits`` is 0.

        Returns
        -------
        int
            In 0..A-1, of an action with ``visits > 0``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say which action it recommends: give it choose()")


@dataclass(frozen=True)
class MostVisited(Recommendation):
    """The most visited action; of equals, the one of least risk."""

    def choose(self, visits: NDArray[np.int64], values: NDArray[np.float64]) -> int:
        """Return its position."""
        return _least_of(visits == visits.max(), values)


@dataclass(frozen=True)
class LeastValue(Recommendation):
    """The action of least estimated risk."""

    def choose(self, visits: NDArray[np.int64], values: NDArray[np.float64]) -> int:
        """Return its position."""
        return _least_of(visits > 0, values)


def _least_of(candidates: NDArray[np.bool_], values: NDArray[np.float64]) -> int:
    positions = np.flatnonzero(candidates)
    return int(positions[np.argmin(values[positions])])


_RECOMMENDATIONS = {"visits": MostVisited(), "value": LeastValue()}


@dataclass(frozen=True, kw_only=True)
class SearchOptions(SimulationOptions):
    """Everything that shapes a search, besides the model and the seed. Each planner takes the same as keywords.

    Parameters
    ----------
    beta : float, default 0.0
        Finite risk level at step 0 (1/cost); at step h the search works at ``beta * discount**h``.
    bonus : Bonus
        Exploration: :class:`PolynomialBonus` (the paper's, and the default), :class:`LogBonus`,
        :class:`RangeBonus`, or your own.
    backup : Backup
        How costs change the values: :class:`SampledBackup` (the paper's, and the default), :class:`OffPolicyBackup`,
        :class:`BellmanBackup`, or your own.
    leaf : Leaf
        How a new leaf is valued: :class:`Rollout` (one rollout by default), or your own.
    expansion : "leaf" or "path", default "leaf"
        "leaf": one node is added per iteration and then valued, as in the paper's experiments. "path": the rule is
        followed to the horizon and every node on the way is added, the setting of theorem ``mcts-result``.
    untried : "first" or "random", default "first"
        Which of a node's untried actions comes next: the first in the model's order, or any with equal chances.
    recommend : "visits", "value" or Recommendation, default "visits"
        Recommended action: the most visited (of equals, the one of least risk), the one of least risk, or as a rule
        of your own says.
    max_nodes, max_memory, widening, rollout_policy, prior_policy, leaf_value : optional
        As for :class:`tailwise.bindings.SimulationOptions`: bounds of memory, outcomes taken again, a new leaf's value.

    Examples
    --------
    >>> from tailwise import SearchOptions, TreeSearch, domains
    >>> options = SearchOptions(beta=0.5, untried="random", recommend="value")
    >>> TreeSearch(domains.make("mdp-4"), options, seed=0).plan(iterations=2000).label
    'safe'
    """

    beta: float = 0.0
    bonus: Bonus = field(default_factory=PolynomialBonus)
    backup: Backup = field(default_factory=SampledBackup)
    leaf: Leaf = field(default_factory=Rollout)
    expansion: str = "leaf"
    untried: str = "first"
    recommend: str | Recommendation = "visits"

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.beta, "beta", hint="0 is the mean, positive averse, negative seeking")
        kinds: tuple[tuple[str, type, str], ...] = (
            ("bonus", Bonus, "PolynomialBonus(), LogBonus() or RangeBonus()"),
            ("backup", Backup, "SampledBackup(), OffPolicyBackup() or BellmanBackup()"),
            ("leaf", Leaf, "Rollout(repeats=1)"),
        )
        for name, kind, example in kinds:
            given = getattr(self, name)
            if not isinstance(given, kind):
                raise OptionError(f"{name} must be a {kind.__name__}, as {example}, not {given!r}")
        if self.rollout_policy is not None and self.leaf_value is not None:
            raise OptionError(
                "give rollout_policy or leaf_value, not both: in a tree a leaf value replaces the rollout"
            )
        choice(self.expansion, "expansion", ("leaf", "path"))
        choice(self.untried, "untried", ("first", "random"))
        if not isinstance(self.recommend, Recommendation):
            choice(self.recommend, "recommend", tuple(_RECOMMENDATIONS))

    @property
    def recommendation(self) -> Recommendation:
        """The rule that ``recommend`` names."""
        return _RECOMMENDATIONS[self.recommend] if isinstance(self.recommend, str) else self.recommend

    def recommended(self, visits: NDArray[np.int64], values: NDArray[np.float64]) -> int:
        """Return the position that the rule chooses, or raise ``OptionError`` where it is none of a tried action."""
        position: Any = self.recommendation.choose(visits, values)
        if not isinstance(position, (int, np.integer)) or not 0 <= position < visits.size or not visits[position]:
            tried = np.flatnonzero(visits).tolist()
            raise OptionError(
                f"{self.recommendation!r} chose {position!r}; expected the position of a tried action: {tried}"
            )
        return int(position)


class SearchKeywords(SimulationKeywords, total=False):
    """The fields of :class:`SearchOptions` as keywords of a planner."""

    bonus: Bonus | None
    backup: Backup | None
    leaf: Leaf | None
    expansion: str
    untried: str
    recommend: str | Recommendation


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "auto": {
        "bonus": RangeBonus(),
        "backup": OffPolicyBackup(),
        "untried": "random",
        "recommend": "value",
    },
}
"""Named sets of rules: the paper's experiments, and what finds the right action sooner without a constant to tune."""


def options_of(beta: float, keywords: SearchKeywords, *, preset: str = "paper") -> SearchOptions:
    """Return the options of a planner, from keywords over a preset.

    Parameters
    ----------
    beta : float
        Risk level of the planner.
    keywords : SearchKeywords
        Given one by one; what is not given comes from the preset.
    preset : str
        Key of :data:`PRESETS`.

    Raises
    ------
    OptionError
        If a keyword is unknown, or an option is out of range.
    """
    base = PRESETS[choice(preset, "preset", tuple(PRESETS))]
    if not keywords and isinstance(beta, Hashable):
        return _preset_options(beta, preset)
    unknown = sorted(keywords.keys() - SearchKeywords.__annotations__.keys())
    if unknown:
        known = ", ".join(SearchKeywords.__annotations__)
        raise OptionError(f"unknown option {unknown[0]!r}; a search takes {known}")
    given: dict[str, Any] = {**base, **{key: value for key, value in keywords.items() if value is not None}}
    return SearchOptions(beta=beta, **given)


@functools.lru_cache(maxsize=64, typed=True)
def _preset_options(beta: float, preset: str) -> SearchOptions:
    return SearchOptions(beta=beta, **PRESETS[preset])


class CompiledOptions(NamedTuple):
    """Options as the search runs them."""

    settings: Settings
    rules: Rules
    limits: Limits


def compile_options(
    options: SearchOptions, horizon: int, discount: float, prior: Prior | None = None
) -> CompiledOptions:
    """Turn options into the kernel's form, for a model's horizon and discount; the search adds its risk levels."""
    bonus, backup, leaf, tries_at_random = options.bonus, options.backup, options.leaf, options.untried == "random"
    node = _merged(bonus.node_statistics, backup.node_statistics)
    action = _merged(bonus.action_statistics, backup.action_statistics)
    if prior is not None:
        action = _merged(action, {WEIGHT: math.nan})
    slots = Slots(*({name: k for k, name in enumerate(names)} for names in (node, action)))
    width = max(len(node), len(action))
    limits = Limits(options.max_nodes, options.max_memory, _row(node, width), _row(action, width))
    rule = WholePath() if options.expansion == "path" else leaf.compiled()
    compiled = bonus.compiled(horizon, discount, slots)
    if prior is not None:
        compiled = Guided(compiled, slots.action[WEIGHT], prior.function)
    rules = Rules(compiled, backup.compiled(slots), rule)
    return CompiledOptions(Settings(horizon, discount, np.empty(0), tries_at_random), rules, limits)


def _merged(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    for name in one.keys() & other.keys():
        if one[name] != other[name]:
            raise OptionError(f"two rules start the statistic {name!r} from {one[name]} and {other[name]}; rename one")
    return {**one, **other}


def _row(statistics: dict[str, float], width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    row = np.zeros(width)
    if statistics:
        row[: len(statistics)] = list(statistics.values())
    return row


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
    hurries: bool  # whether sweeps come seldom and bit by bit, as steps are cheap and time is short
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
        False,
        NoPrior() if prior is None else Asked(prior.function),
        limits_of(options.widening),
    )
