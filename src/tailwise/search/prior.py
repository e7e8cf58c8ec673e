"""What a user holds likely beforehand: a ``prior_policy``, for the order of first tries and for the bonus.

It is asked once for a node, in Python, whatever the model is: a table and a compiled simulator stay compiled. Its
weights are scaled to a mean of 1, so that even ones say nothing. Of the actions never tried the one of most weight
comes first, and an action's bonus is multiplied by its weight, cut to 1 ... 2: every action keeps at least the bonus
that it has without, so that what is proved of the search stays true with twice the constant, and a wrong prior costs a
constant factor.

To the tree's kernel a search with a prior is one whose bonus is :class:`Guided`; without, nothing changes.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tailwise._jit import DISABLE_JIT, ChosenByKind, inlined
from tailwise._values import is_same
from tailwise.bindings import ModelInterface, position_of
from tailwise.bindings.callback_model import SIGNATURE, call_words
from tailwise.bindings.kernel_model import draw_index
from tailwise.bonuses import bonus_of, growth_of, observe, register_bonus
from tailwise.errors import SimulatorError, StateError
from tailwise.models.contract import short
from tailwise.models.simulator import model_name
from tailwise.search.arena import COUNT

_MOST_KEPT = 65_536
NONE, UNKNOWN = -1, -2
_MOST = 2.0  # times the bonus, of an action that the prior holds likely


class Prior:
    """A ``prior_policy`` as kernels ask it: ``function(address of weights, handle, number of actions, step)``."""

    def __init__(self, policy: Callable[[Any, int], Any], model: Any, binding: ModelInterface) -> None:
        self._policy, self._model, self._binding = policy, model, binding
        self._kept: dict[Any, list[float]] = {}
        self._error: BaseException | None = None

        def fill(address: int, handle: int, num_actions: int, h: int) -> int:
            try:
                room = (ctypes.c_double * num_actions).from_address(address)
                for k, weight in enumerate(self.weights(handle, h)):
                    room[k] = weight
            except BaseException as error:  # nothing may pass through the compiled caller
                self._error = error
            return 0

        native: Any = fill if DISABLE_JIT else SIGNATURE(fill)
        self._callback = native  # it must live as long as its address is used
        self.function: Any = fill if DISABLE_JIT else ctypes.cast(native, ctypes.c_void_p).value

    def weights(self, handle: int, h: int) -> list[float]:
        """Return the weights of a state's actions at step ``h``, of mean 1."""
        state = self._binding.state(handle)
        found = self._kept.get((state, h))
        if found is None:
            where = f"prior_policy({short(state)}) of {model_name(self._model)} at step {h}"
            try:
                found = self._scaled(self._policy(state, h), handle)
            except SimulatorError as error:
                raise SimulatorError(f"{where}: {error}") from None
            except Exception as error:
                raise SimulatorError(f"{where} raised {type(error).__name__}: {error}") from error
            if len(self._kept) == _MOST_KEPT:
                self._kept.clear()
            self._kept[state, h] = found
        return found

    def _scaled(self, said: Any, handle: int) -> list[float]:
        actions = self._binding.actions(handle)
        number = len(actions)
        said = np.asarray(said) if hasattr(said, "__array__") and np.ndim(said) > 0 else said  # as a series is
        liked = next((k for k, action in enumerate(actions) if is_same(action, said)), -1)
        if liked < 0 and not isinstance(said, (list, np.ndarray)):
            try:
                liked = position_of(self._binding, handle, said)
            except StateError as error:
                raise SimulatorError(f"{error}; weights are a list or an array, one for each action") from None
        if liked >= 0:
            return [float(number * (k == liked)) for k in range(number)]
        try:
            weights = np.asarray(said)
            weights = weights.astype(np.float64) if weights.dtype.kind in "biuf" else np.full(1, math.nan)
        except (TypeError, ValueError):
            weights = np.full(1, math.nan)
        if weights.shape != (number,) or not np.all((weights >= 0.0) & (weights < math.inf)) or not weights.any():
            raise SimulatorError(
                f"it returned {short(said)}; expected an action, or {number} finite weights, one for each action in "
                "the model's order, none negative and not all 0"
            )
        weights = weights / weights.max()
        scaled: list[float] = (weights * (number / weights.sum())).tolist()
        return scaled

    def fail(self) -> None:
        """Raise what the policy raised, if it was what failed."""
        error, self._error = self._error, None
        if error is not None:
            raise error


@inlined
def asked(function, state, num_actions, h):  # type: ignore[no-untyped-def]
    """Weights of the actions of a state at step ``h``; the first is NaN where that failed."""
    weights = np.empty(num_actions)
    weights[0] = math.nan
    call_words(function, weights.ctypes.data, state, num_actions, h)
    return weights


@inlined
def leaning(weight):  # type: ignore[no-untyped-def]
    """Factor of the bonus of an action."""
    return min(max(weight, 1.0), _MOST)


class NoPrior(NamedTuple):
    """There is no prior, for the kernel of the learned search."""

    function: Any = 0


class Asked(NamedTuple):
    """There is one."""

    function: Any  # address of what says the weights


@ChosenByKind
def is_guided(rule):  # type: ignore[no-untyped-def]
    """Whether there is a prior: known when the kernel is compiled."""
    return False


class Guided(NamedTuple):
    """A bonus with a prior, as the tree's kernel reads it."""

    inner: Any  # the bonus without
    slot: int  # column of the weights
    function: Any  # address of what says them


WEIGHT = "prior weight"  # the statistic of an action that its bonus reads


@ChosenByKind
def first_try(rule, arena, node, num_actions, h, at_random, stream):  # type: ignore[no-untyped-def]
    """Position of the action that is to be tried for the first time; NONE without a prior, UNKNOWN if asking failed."""
    return NONE


def always(rule):  # type: ignore[no-untyped-def]
    """There is one."""
    return True


def guided_try(rule, arena, node, num_actions, h, at_random, stream):  # type: ignore[no-untyped-def]
    """The one of most weight that was never tried; of equals the first, or any."""
    statistics, slot = arena.statistics, rule.slot
    if math.isnan(statistics[node + 1, slot]):
        weights = asked(rule.function, np.int64(arena.ints[4 * node]), num_actions, h)
        for k in range(num_actions):
            statistics[node + 1 + k, slot] = weights[k]
        if math.isnan(weights[0]):
            return UNKNOWN
    best, most, ties = NONE, -1.0, 0
    for k in range(num_actions):
        unit = node + 1 + k
        if arena.ints[4 * unit + COUNT] == 0 and statistics[unit, slot] >= most:
            if statistics[unit, slot] > most:
                best, most, ties = k, statistics[unit, slot], 0
            ties += 1
    skip = draw_index(stream, ties) if at_random and ties > 1 else 0
    while skip > 0:
        best += 1
        unit = node + 1 + best
        skip -= arena.ints[4 * unit + COUNT] == 0 and statistics[unit, slot] == most
    return best


def guided_growth(rule, h, visits, statistics, node):  # type: ignore[no-untyped-def]
    """What the bonus has without."""
    return growth_of(rule.inner, h, visits, statistics, node)


def guided_bonus(rule, growth, h, count, statistics, action):  # type: ignore[no-untyped-def]
    """What the bonus has without, once to twice, by the weight."""
    return leaning(statistics[action, rule.slot]) * bonus_of(rule.inner, growth, h, count, statistics, action)


def note_guided(rule, statistics, nodes, actions, costs_to_go, length):  # type: ignore[no-untyped-def]
    """What the bonus does without."""
    observe(rule.inner, statistics, nodes, actions, costs_to_go, length)


is_guided.register(Asked, always)
register_bonus(Guided, guided_growth, guided_bonus, note_guided)
first_try.register(Guided, guided_try)
