"""What a search asks of a simulator beyond its steps: few outcomes, rare ones, and how to value a leaf.

Progressive widening: of a pair (state, action) that has shown enough outcomes, one of those is taken again. What one
iteration changes is noted in a journal, so that an iteration that is done again after more memory was found starts from
the same counts.

Rare outcomes: where a step was drawn from another law than the true one, and w is the ratio of their probabilities, the
true risk is

    E[exp(beta X)] = E'[w exp(beta X)] = E'[exp(beta (X + ln(w) / beta))]:

the ratio of a step is a cost of ``ln(w) / beta_h`` more. So the entropic risk of every policy, and every value on the
way, is that of a simulator whose steps cost as much more, and no search need know. Totals are no longer costs alone:
plans leave out what is said of their distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import inlined
from tailwise._validate import integer, real
from tailwise.bindings.intern import InternStore, grown, intern, intern_rows, new_store
from tailwise.errors import OptionError, SimulatorError
from tailwise.models.contract import outcome_fault, short

_RECORDS = 1024
_PER_RECORD = ("visits", "held", "room", "first")


@dataclass(frozen=True)
class Widening:
    """Progressive widening of a simulator's outcomes, for continuous or huge outcome spaces.

    A chance node (a state and an action) that was visited n times keeps at most ``k n^alpha`` different draws:
    once it holds as many, one of them, chosen evenly, is taken again instead of a new draw (double progressive
    widening: Couetoux et al., 2011). Without it, where no outcome comes twice, a tree grows no
    deeper than one step. Estimates are biased until n is large: each rests on a sample of ``k n^alpha`` outcomes.

    Parameters
    ----------
    k : float, default 1.0
        Positive factor.
    alpha : float in (0, 1), default 0.5
        Growth exponent.

    Examples
    --------
    >>> from tailwise import Widening
    >>> Widening(k=2.0, alpha=0.25).k
    2.0
    """

    k: float = 1.0
    alpha: float = 0.5

    def __post_init__(self) -> None:
        real(self.k, "k", low=0.0, ends="(]")
        real(self.alpha, "alpha", low=0.0, high=1.0, ends="()")


def limits_of(widening: Widening | None) -> NDArray[np.float64]:
    """Return k and alpha for kernels: float64, shape (2,), or (0,) where there is no widening."""
    return np.empty(0) if widening is None else np.array([widening.k, widening.alpha])


@inlined
def takes_again(limits, visits, held):  # type: ignore[no-untyped-def]
    """Whether a pair that comes for the ``visits``-th time and holds so many outcomes shows one of them again."""
    return held > 0 and held >= math.ceil(limits[0] * visits ** limits[1])


class Widened(NamedTuple):
    """Outcomes seen so far, by (state, action); empty arrays while widening is off.

    Record r (the handle of the pair in ``pairs``) owns ``room[r]`` slots from ``first[r]``, of which
    ``held[r]`` are taken. A record that is full moves to twice the room at the end.
    """

    limits: NDArray[np.float64]  # (2,) k and alpha
    pairs: InternStore
    visits: NDArray[np.int64]  # (R,)
    held: NDArray[np.int64]  # (R,)
    room: NDArray[np.int64]  # (R,)
    first: NDArray[np.int64]  # (R,)
    targets: NDArray[np.int64]  # (O,) next state's handle, or -1 where the episode ends
    costs: NDArray[np.float64]  # (O,)
    used: NDArray[np.int64]  # (1,) slots given away
    journal: NDArray[np.int64]  # (2 + H,) last step h, entries, 2 record + (1 if it grew) of this iteration

    @property
    def num_bytes(self) -> int:
        """Memory that the outcomes take."""
        own = (self.visits, self.held, self.room, self.first, self.targets, self.costs)
        return sum(array.nbytes for array in (*own, *self.pairs))


@inlined
def find_record(widened, state, action):  # type: ignore[no-untyped-def]
    """The record of a pair, made if need be; -1 when there is no room."""
    pair = np.empty(2, dtype=np.int64)
    pair[0], pair[1] = state, action
    before = widened.pairs.used[0]
    record = intern(widened.pairs, pair)
    if record == before:
        widened.visits[record] = widened.held[record] = widened.room[record] = 0
    return record


@inlined
def store_outcome(widened, record, target, cost):  # type: ignore[no-untyped-def]
    """Append an outcome to a record; False when there is no room."""
    held = widened.held[record]
    if held == widened.room[record]:
        room = max(4, 2 * held)
        start = widened.used[0]
        if start + room > widened.targets.size:
            return False
        old = widened.first[record]
        for k in range(held):
            widened.targets[start + k] = widened.targets[old + k]
            widened.costs[start + k] = widened.costs[old + k]
        widened.first[record], widened.room[record] = start, room
        widened.used[0] = start + room
    slot = widened.first[record] + held
    widened.targets[slot], widened.costs[slot] = target, cost
    widened.held[record] = held + 1
    return True


@inlined
def begin_step(widened, h):  # type: ignore[no-untyped-def]
    """Begin the journal anew where another iteration has begun: it may end before it notes anything."""
    if h <= widened.journal[0]:
        widened.journal[1] = 0
    widened.journal[0] = h


@inlined
def note_visit(widened, record, grew):  # type: ignore[no-untyped-def]
    """Count a visit; note it in the journal."""
    journal = widened.journal
    journal[2 + journal[1]] = 2 * record + grew
    journal[1] += 1
    widened.visits[record] += 1


def new_widened(widening: Widening | None, horizon: int) -> Widened:
    """Return an empty memory of outcomes; of size 0 where there is no widening."""
    if widening is None:
        return _allocate(limits_of(None), new_store(2, 1), 0, np.zeros(2, np.int64))
    return _allocate(limits_of(widening), new_store(2, _RECORDS), 8 * _RECORDS, np.zeros(2 + horizon, np.int64))


def _allocate(limits: NDArray[np.float64], pairs: InternStore, slots: int, journal: NDArray[np.int64]) -> Widened:
    visits, held, room, first = (np.zeros(pairs.words.shape[0], np.int64) for _ in _PER_RECORD)
    targets, costs, used = np.zeros(slots, np.int64), np.zeros(slots), np.zeros(1, np.int64)
    return Widened(limits, pairs, visits, held, room, first, targets, costs, used, journal)


def undo(widened: Widened) -> None:
    """Take back what the iteration noted in the journal has counted: it will be done again."""
    for entry in widened.journal[2 : 2 + int(widened.journal[1])].tolist():
        widened.visits[entry >> 1] -= 1
        widened.held[entry >> 1] -= entry & 1
    widened.journal[1] = 0


def enlarged(widened: Widened) -> Widened | None:
    """Return the same outcomes with more room, or None where there was room left."""
    if not widened.limits.size:
        return None
    pairs, records, used, slots = widened.pairs, int(widened.pairs.used[0]), int(widened.used[0]), widened.targets.size
    short_of_records = records == pairs.words.shape[0]
    largest = int(widened.room[:records].max(initial=0))
    short_of_slots = used + max(4, 2 * largest) > slots
    if not short_of_records and not short_of_slots:
        return None
    pairs = grown(pairs) if short_of_records else pairs
    slots = 2 * max(slots, used + 2 * largest) if short_of_slots else slots
    larger = _allocate(widened.limits, pairs, slots, widened.journal)
    for name, count in (*((name, records) for name in _PER_RECORD), ("targets", used), ("costs", used), ("used", 1)):
        getattr(larger, name)[:count] = getattr(widened, name)[:count]
    return larger


def pruned(widened: Widened, kept: NDArray[np.int64], fresh: NDArray[np.int64]) -> Widened:
    """Return the outcomes whose states are all among the handles ``kept``, now called ``fresh``.

    A record that leads to a forgotten state is dropped: its pair starts afresh.
    """
    if not widened.limits.size:
        return widened
    renamed = {-1: -1, **dict(zip(kept.tolist(), fresh.tolist(), strict=True))}
    survivors, renamed_pairs, targets = list[int](), list[tuple[int, int]](), list[list[int]]()
    for record, (state, action) in enumerate(widened.pairs.words[: int(widened.pairs.used[0])].tolist()):
        first = int(widened.first[record])
        led = widened.targets[first : first + int(widened.held[record])].tolist()
        if state in renamed and all(target in renamed for target in led):
            survivors.append(record)
            renamed_pairs.append((renamed[state], action))
            targets.append([renamed[target] for target in led])
    pairs = new_store(2, max(_RECORDS, 2 * len(survivors)))
    if survivors:
        intern_rows(pairs, np.array(renamed_pairs, dtype=np.int64))
    slots = int(widened.room[survivors].sum())
    smaller = _allocate(widened.limits, pairs, max(8 * _RECORDS, 2 * slots), widened.journal)
    smaller.journal[1] = 0
    for index, (record, led) in enumerate(zip(survivors, targets, strict=True)):
        start, first = int(smaller.used[0]), int(widened.first[record])
        for name in ("visits", "held", "room"):
            getattr(smaller, name)[index] = getattr(widened, name)[record]
        smaller.first[index] = start
        smaller.targets[start : start + len(led)] = led
        smaller.costs[start : start + len(led)] = widened.costs[first : first + len(led)]
        smaller.used[0] = start + int(widened.room[record])
    return smaller


RolloutPolicy: TypeAlias = Callable[[Any, int, np.random.Generator], Any]
PriorPolicy: TypeAlias = Callable[[Any, int], Any]
LeafValue: TypeAlias = Callable[[Any, int], float]
ValueBounds: TypeAlias = Callable[[Any, int], tuple[float, float]]
RareOutcomes: TypeAlias = Callable[[Any, Any], Sequence[tuple[float, Any, float, bool]]]


_FUNCTIONS = {
    "rollout_policy": "(state, h, rng) -> action",
    "prior_policy": "(state, h) -> action, or weights of all actions",
    "leaf_value": "(state, h) -> float",
    "bounds": "(state, h) -> (low, high)",
    "rare_outcomes": "(state, action) -> list of (probability, next_state, cost, done)",
}


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
    prior_policy : callable, optional
        ``prior_policy(state, h)`` returns the action that is held likely, or a list or array of weights, one for each
        action in the model's order, none negative and not all 0. Of actions never tried the one of most weight comes
        first, and an action's bonus is multiplied by its weight over the mean one, cut to 1 ... 2: a wrong prior costs
        a constant factor at most. It is asked once for a state and step, in Python; what is compiled stays so.
    leaf_value : callable, optional
        ``leaf_value(state, h) -> float``: the cost-to-go (in the model's sense, discounted to step h) of a new state,
        instead of a rollout. For a compiled simulator this and ``rollout_policy`` are compiled.
    bounds : callable, optional
        ``bounds(state, h) -> (low, high)``, between which the optimal risk-to-go from step h on lies (in the model's
        sense, discounted to step h): cuts what new leaves, and states in the learned model, are worth. A compiled
        simulator runs interpreted with it.
    rare_outcomes : callable, optional
        ``rare_outcomes(state, action) -> [(probability, next_state, cost, done), ...]``: outcomes of known probability,
        each with all of it, which are then drawn in a tenth of the draws of the action, and weighed. The simulator's
        own draws stand for the rest; it may draw these outcomes, too, or never: what is listed is drawn again.
        For the ERM at a beta other than 0. A compiled simulator runs interpreted with it.
    """

    max_nodes: int | None = None
    max_memory: int | None = None
    widening: Widening | None = None
    rollout_policy: RolloutPolicy | None = None
    prior_policy: PriorPolicy | None = None
    leaf_value: LeafValue | None = None
    bounds: ValueBounds | None = None
    rare_outcomes: RareOutcomes | None = None

    def __post_init__(self) -> None:
        if self.max_nodes is not None:
            integer(self.max_nodes, "max_nodes", low=1)
        if self.max_memory is not None:
            integer(self.max_memory, "max_memory", low=4096, hint="it is in bytes")
        if self.widening is not None and not isinstance(self.widening, Widening):
            raise OptionError(f"widening must be a Widening, as Widening(k=1, alpha=0.5), not {self.widening!r}")
        for name, shape in _FUNCTIONS.items():
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise OptionError(f"{name} must be a function {shape}, not {given!r}")


class SimulationKeywords(TypedDict, total=False):
    """The fields of :class:`SimulationOptions` as keywords of a planner."""

    max_nodes: int | None
    max_memory: int | None
    widening: Widening | None
    rollout_policy: RolloutPolicy | None
    prior_policy: PriorPolicy | None
    leaf_value: LeafValue | None
    bounds: ValueBounds | None
    rare_outcomes: RareOutcomes | None


WEIGHED = "draws are weighed by likelihood ratios: nothing is said of the totals beside their risk"
_SHARE = 0.1  # of the draws of an action, for its rare outcomes together
_MOST = 0.5  # that their probabilities may add up to
_REDRAWS = 10_000


def weighs(model: Any, rare_outcomes: RareOutcomes | None) -> bool:
    """Return whether draws of a model are weighed."""
    return rare_outcomes is not None or bool(getattr(model, "likelihood_ratios", False))


def weighed_step(
    model: Any, step: Callable[..., Any], rare_outcomes: RareOutcomes | None, beta: float
) -> Callable[..., tuple[Hashable, float, bool]]:
    """Return ``step(state, action, rng, h) -> (next_state, cost, done)`` that charges the ratios of what it draws."""
    if beta == 0.0:
        raise OptionError(
            "rare_outcomes, and simulators with likelihood_ratios, are for the ERM of plain costs at a beta other than "
            "0: a ratio w is charged as a cost of ln(w) / beta"
        )
    if rare_outcomes is not None and getattr(model, "likelihood_ratios", False):
        raise OptionError("give rare_outcomes, or a simulator with likelihood_ratios that weighs its own, not both")
    if np.size(getattr(model, "step_losses", ())):
        raise OptionError("rare_outcomes are costs of a state and an action alone: this table has costs per step")
    draw = step if rare_outcomes is None else _Proposal(step, rare_outcomes)
    discount, sign = float(model.discount), 1.0 if model.sense == "cost" else -1.0

    def charged(state: Any, action: Any, rng: np.random.Generator, h: int) -> tuple[Hashable, float, bool]:
        result = draw(state, action, rng, h)
        if not isinstance(result, tuple) or len(result) != 4:
            raise SimulatorError(f"it returned {short(result)}; expected (next_state, cost, done, likelihood ratio)")
        target, cost, done, ratio = result
        if not 0.0 < ratio < math.inf:
            raise SimulatorError(f"the likelihood ratio is {short(ratio)}; it must be a finite number above 0")
        return target, cost + sign * math.log(ratio) / (beta * discount**h), done

    return charged


class _Proposal:
    """A step that draws the rare outcomes of an action in a tenth of its draws, the rest as the simulator does."""

    def __init__(self, step: Callable[..., Any], rare_outcomes: RareOutcomes) -> None:
        self._step, self._rare = step, rare_outcomes
        self._found, self._expected = 0, 0.0  # among the simulator's own draws

    def __call__(self, state: Any, action: Any, rng: np.random.Generator, h: int) -> tuple[Any, ...]:
        rare = self._checked(state, action)
        if not rare:
            return (*self._step(state, action, rng, h), 1.0)
        left, proposed, chance = rng.random(), 0.0, math.fsum(p for p, *_ in rare)
        for p, target, cost, done in rare:
            often = max(p, _SHARE / len(rare))
            proposed += often
            if left < proposed:
                return target, cost, done, p / often
        for _ in range(_REDRAWS):
            result = self._step(state, action, rng, h)
            self._expected += chance
            if outcome_fault(result) or not any(_is_same(result, one) for one in rare):
                return (*result, (1.0 - chance) / (1.0 - proposed))
            self._found += 1
            if self._found > 12.0 + self._expected + 6.0 * math.sqrt(self._expected):  # by chance: below 1e-8
                raise SimulatorError(
                    f"its draws contradict rare_outcomes: {self._found} of them were listed, and {self._expected:.3g} "
                    "would be by their probabilities; an outcome that is listed needs its whole probability"
                )
        raise SimulatorError(f"{_REDRAWS} draws were all of those in rare_outcomes: list what is rare alone")

    def _checked(self, state: Any, action: Any) -> list[Any]:
        found = self._rare(state, action)
        if not isinstance(found, Iterable):
            raise SimulatorError(
                f"rare_outcomes returned {short(found)}; expected a list of (probability, next_state, cost, done)"
            )
        listed = list(found)
        for one in listed:
            fault = "" if isinstance(one, (tuple, list)) and len(one) == 4 else "it is no such tuple"
            fault = fault or outcome_fault(one[1:])
            if not fault and not 0.0 < one[0] < 1.0:
                fault = "its probability must be above 0 and below 1"
            if fault:
                raise SimulatorError(
                    f"rare_outcomes lists {short(one)}, expected (probability, next_state, cost, done): {fault}"
                )
        total = math.fsum(one[0] for one in listed)
        if total > _MOST:
            raise SimulatorError(f"the probabilities of rare_outcomes add up to {total:.3g}; at most {_MOST} is rare")
        return listed


def _is_same(result: Any, listed: Any) -> bool:
    target, cost, done = result
    _, other, charged, ends = listed
    return bool(done) == bool(ends) and (bool(done) or target == other) and math.isclose(cost, charged, abs_tol=1e-12)
