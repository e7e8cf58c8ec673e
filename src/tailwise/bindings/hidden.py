"""Models whose state is not seen, as the compiled search over histories runs them: tables, and Python simulators.

Each kind registers five functions. A state is an integer of the kind's own; an observation that the search keeps is a
*key*, 0 or more, and ``NEW`` one that it does not know yet.

    begin(model, particle, stream) -> (state, status)          particle -1: where an episode begins
    draw(model, state, action, h, stream) -> (next_state, loss, status, key)     the loss of step H - 1 holds the end's
    keep(model, key) -> (key, status)                          of an observation that was just drawn
    fit(model, key) -> (log, status)                           how likely the step just drawn is to be observed as key
    play_out(model, state, action, h, stream) -> (loss, steps, status)        repeats an action; -1: random ones
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tailwise._arrays import Floats, Ints
from tailwise._jit import ChosenByKind, inlined
from tailwise._random import next_double
from tailwise.bindings.callback_model import (
    COST,
    DISCOUNT,
    HORIZON,
    NEXT,
    STATUS,
    STEPS,
    CallbackModel,
    SimulatorInterface,
    call_words,
)
from tailwise.bindings.kernel_model import DONE, FAILED, GO_ON, ModelInterface, draw_index
from tailwise.bindings.options import SimulationOptions
from tailwise.bindings.python import PENDING, PythonInterface
from tailwise.bindings.table import draw_outcome
from tailwise.errors import SimulatorError
from tailwise.models.contract import LARGEST_COST, cost_fault, done_fault, state_fault
from tailwise.models.partly_observed import hidden_actions
from tailwise.models.pomdp_table import PomdpTable

NEW = -2
_FAR = 600.0
_BEGIN, _KEEP, _FIT = 0, 1, 2  # what the first callback of a simulator is asked for


@ChosenByKind
def begin(model, particle, stream):  # type: ignore[no-untyped-def]
    """Draw the state in which an episode begins, or take a particle."""
    raise NotImplementedError


@ChosenByKind
def draw(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    """Draw a step."""
    raise NotImplementedError


@ChosenByKind
def keep(model, key):  # type: ignore[no-untyped-def]
    """Return the key under which the search keeps the observation just drawn, and the status."""
    return key, np.int64(GO_ON)


@ChosenByKind
def fit(model, key):  # type: ignore[no-untyped-def]
    """Return the logarithm of how likely an observation is after the step just drawn, and the status."""
    return 0.0, np.int64(GO_ON)


@ChosenByKind
def play_out(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    """Play on from step ``h`` to the end."""
    raise NotImplementedError


class HiddenTable(NamedTuple):
    """A :class:`PomdpTable` for the kernel; row ``A s + a`` of the outcomes is action a in state s."""

    outcome_offsets: Ints
    cumulative: Floats
    losses: Floats
    targets: Ints  # next state, or -1 - next state where the episode ends
    keys: Ints
    terminal_losses: Floats
    start: Floats  # (S,) running sums of the start belief
    particles: Ints
    num_actions: int
    horizon: int
    discount: float


@inlined
def draw_place(sums, stream):  # type: ignore[no-untyped-def]
    """Draw a place in proportion to weights, from their running sums."""
    wanted = next_double(stream) * sums[-1]
    return min(np.searchsorted(sums, wanted, side="right"), sums.size - 1)


def _table_begin(model, particle, stream):  # type: ignore[no-untyped-def]
    if particle >= 0:
        return model.particles[particle], np.int64(GO_ON)
    return np.int64(draw_place(model.start, stream)), np.int64(GO_ON)


def _table_draw(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    k = draw_outcome(model, model.num_actions * state + action, stream)
    target, loss = model.targets[k], model.losses[k]
    if target < 0:
        return -1 - target, loss, np.int64(DONE), np.int64(NEW)
    if h + 1 == model.horizon:
        return target, loss + model.discount * model.terminal_losses[target], np.int64(DONE), np.int64(NEW)
    return target, loss, np.int64(GO_ON), model.keys[k]


def _table_play_out(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    total, factor, steps = 0.0, 1.0, np.int64(0)
    while True:
        chosen = action if action >= 0 else draw_index(stream, model.num_actions)
        state, loss, status, _ = draw(model, state, chosen, h, stream)
        total += factor * loss
        steps += 1
        h += 1
        if status == DONE:
            return total, np.int64(steps), np.int64(GO_ON)
        factor *= model.discount


def _simulator_begin(model, particle, stream):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.count, model.context, particle, _BEGIN, 0)
    return np.int64(0), model.integers[STATUS]


def _simulator_draw(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.step, model.context, state, action, h)
    return state, model.numbers[COST], model.integers[STATUS], model.integers[NEXT]


def _simulator_keep(model, key):  # type: ignore[no-untyped-def]
    if key != NEW:
        return key, np.int64(GO_ON)
    model.integers[STATUS] = FAILED
    call_words(model.count, model.context, key, _KEEP, 0)
    return model.integers[NEXT], model.integers[STATUS]


def _simulator_fit(model, key):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.count, model.context, key, _FIT, 0)
    return model.numbers[COST], model.integers[STATUS]


def _simulator_play_out(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    model.integers[STATUS] = FAILED
    call_words(model.roll, model.context, state, action, h)
    return model.numbers[COST], model.integers[STEPS], model.integers[STATUS]


begin.register(HiddenTable, _table_begin)
draw.register(HiddenTable, _table_draw)
play_out.register(HiddenTable, _table_play_out)
begin.register(CallbackModel, _simulator_begin)
draw.register(CallbackModel, _simulator_draw)
keep.register(CallbackModel, _simulator_keep)
fit.register(CallbackModel, _simulator_fit)
play_out.register(CallbackModel, _simulator_play_out)


class HiddenTableInterface(ModelInterface):
    """A :class:`PomdpTable` bound to the kernel. Observations, with the costs where they are seen, are its keys.

    Attributes
    ----------
    keys : dict
        From what is observed (and from the loss too, where it is seen: a pair) to the key.
    """

    def __init__(self, model: PomdpTable) -> None:
        table = model.table
        seen: list[Hashable] = model.observed.tolist()
        if model.cost_seen:
            seen = list(zip(model.observed.tolist(), table.losses.tolist(), strict=True))
        self.keys: dict[Hashable, int] = {}
        numbers = np.array([self.keys.setdefault(one, len(self.keys)) for one in seen], np.int64)
        data = table.data
        self.data = HiddenTable(
            data.outcome_offsets, data.cumulative, data.losses, data.targets, numbers, data.terminal_losses,
            np.cumsum(model.start_belief), np.empty(0, np.int64), model.num_actions, int(model.horizon),
            float(model.discount),
        )  # fmt: skip

    def set_particles(self, particles: list[Any]) -> None:
        """Say which states the particles of the root are."""
        self.data = self.data._replace(particles=np.array(particles, np.int64))

    def set_keys(self, keys: dict[Hashable, int]) -> None:
        """Know the keys of another binding: a table's are always the same."""

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise: what a checked table draws cannot fail."""
        raise SimulatorError(f"no step could be drawn at step {step}")


class HiddenSimulatorInterface(PythonInterface):
    """A Python simulator whose state is not seen: the state of the sample under way stays on this side."""

    def __init__(self, model: Any, rng: np.random.Generator) -> None:
        self.keys: dict[Hashable, int] = {}
        self._listed = hidden_actions(model)
        self._own_draw = getattr(model, "draw", None)
        self._density = getattr(model, "likelihood", None)
        self._cost_seen = bool(getattr(model, "cost_seen", False))
        self._particles: list[Any] = []
        self._state: Any = None
        self._drawn: tuple[Any, ...] = ()
        self._seen: list[Hashable] = []  # observations by key
        self._observed: Hashable = None  # what was observed last, with the loss where that is seen
        super().__init__(model, rng, SimulationOptions())

    def _require_sound(self, model: Any) -> None:
        """Pass: whoever searches has asked for it."""

    def try_out(self, handle: int, step: int) -> None:
        """Try it from a particle, or, where the handle is -1, from where an episode begins."""
        SimulatorInterface.try_out(self, handle, step)

    def _begun(self, handle: int, step: int) -> int:
        self._try(self.data.count, handle, _BEGIN, step)
        return 0

    def _valued(self) -> list[int]:
        return [-1]  # a rollout at random

    def set_particles(self, particles: list[Any]) -> None:
        """Say which states the particles of the root are."""
        self._particles = particles

    def set_keys(self, keys: dict[Hashable, int]) -> None:
        """Know the keys of another binding."""
        self.keys, self._seen = dict(keys), list(keys)

    def _count(self, handle: int, position: int, h: int) -> None:
        """Answer whatever is asked beside steps."""
        if position == _BEGIN:
            self._place = ("sample_start", None, None, None, PENDING)
            self._state = self._particles[handle] if handle >= 0 else self.model.sample_start(self._rng)
        elif position == _KEEP:
            fault = state_fault(self._observed)
            if fault:
                raise SimulatorError(f"the observation {fault}")
            self._integers[NEXT] = self.keys[self._observed] = len(self.keys)
            self._seen.append(self._observed)
        else:
            seen: Any = self._seen[handle]
            self._place = ("likelihood", self._drawn[0], self._drawn[1], None, PENDING)
            share = float(self._density(*self._drawn, seen[0] if self._cost_seen else seen))  # type: ignore[misc]
            self._numbers[COST] = math.log(share) if share > 0.0 else -_FAR
        self._integers[STATUS] = GO_ON

    def _take(self, handle: int, position: int, h: int) -> None:
        state, action, integers = self._state, self._listed[position], self._integers
        target, loss, done, seen = self._sampled(state, action, h)
        if done or h + 1 == integers[HORIZON]:
            if not done and self._terminal is not None:
                loss += self._numbers[DISCOUNT] * self._end(target)
            integers[STATUS] = DONE
        else:
            self._observed = (seen, loss) if self._cost_seen else seen
            try:
                integers[NEXT] = self.keys.get(self._observed, NEW)
            except TypeError:
                raise SimulatorError(f"the observation {state_fault(seen)}") from None
            integers[STATUS] = GO_ON
        self._drawn = state, action, target
        self._state = target
        self._numbers[COST] = loss

    def _sampled(self, state: Any, action: Any, h: int) -> tuple[Any, float, bool, Any]:
        self._place = ("step", state, action, h, PENDING)
        if self._own_draw is not None:
            target, cost, done, seen = self._own_draw(state, action, self._rng)
            loss = self._to_cost(cost)
        else:
            result = self.model.step(state, action, self._rng)
            self._place = ("step", state, action, h, result)
            target, cost, done = result
            loss = self._to_cost(cost)
            if done is not True and done is not False and done_fault(done):
                raise SimulatorError(done_fault(done))
            seen = None
            if not done:
                self._place = ("observe", state, action, h, PENDING)
                seen = self.model.observe(state, action, target, self._rng)
        if not -LARGEST_COST <= loss <= LARGEST_COST:
            raise SimulatorError(f"the cost {cost_fault(cost)}")
        return target, loss, done, seen

    def _roll(self, handle: int, position: int, h: int) -> None:
        state, listed, random = self._state, self._listed, self._rng.random
        discount, horizon, size = float(self._numbers[DISCOUNT]), int(self._integers[HORIZON]), len(self._listed)
        total, factor, steps, done = 0.0, 1.0, 0, False
        while h < horizon and not done:
            place = position if position >= 0 else int(random() * size) if size > 1 else 0
            state, loss, done, _ = self._sampled(state, listed[place], h)
            total += factor * loss
            factor *= discount
            h, steps = h + 1, steps + 1
        if not done and self._terminal is not None:
            total += factor * self._end(state)
        self._numbers[COST] = total
        self._integers[STEPS] = steps
        self._integers[STATUS] = GO_ON


def bind_hidden(model: Any, rng: np.random.Generator) -> HiddenTableInterface | HiddenSimulatorInterface:
    """Bind a model whose state is not seen to the kernel; ``rng`` is the search's own stream."""
    if isinstance(model, PomdpTable):
        return HiddenTableInterface(model)
    return HiddenSimulatorInterface(model, rng)
