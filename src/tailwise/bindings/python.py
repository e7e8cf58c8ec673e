"""Python simulators bound to the kernel: C callbacks, with states interned in a dict.

The kernel calls back once per step inside the tree and once per rollout. Stream contract (so that
a table, a compiled and a Python simulator coincide, draw for draw): a uniform random rollout draws its action as
``int(rng.random() * n)``, nothing where n is 1.

Nothing raised in a callback may reach the kernel: it is kept, the answer is "failed", and ``fail``
raises it again with the state, the action and the step. Ctrl-C that falls between two
callbacks is kept the same way (see ``running``).
"""

from __future__ import annotations

import ctypes
import math
import signal
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import DISABLE_JIT
from tailwise.bindings import callback_model as shared
from tailwise.bindings.callback_model import COST, NEXT, SIGNATURE, STATUS, STEPS, SimulatorInterface
from tailwise.bindings.intern import KnownStates, new_store
from tailwise.bindings.kernel_model import DONE, FAILED, FULL, GO_ON, BudgetSpentError
from tailwise.bindings.options import SimulationOptions, weighed_step, weighs
from tailwise.bindings.watchdog import EndlessCall, Watch
from tailwise.errors import SimulatorError, StateError
from tailwise.models.contract import (
    LARGEST_COST,
    compared_by_identity,
    cost_fault,
    done_fault,
    holds_nan,
    listed_actions,
    outcome_fault,
    short,
    state_fault,
)
from tailwise.models.simulator import Simulator, action_label, model_name, own_method, validate_simulator

_UNBOUNDED = -math.inf, math.inf
_BOOL = np.bool_
PENDING = object()  # stands for a result that has not come yet


class PythonInterface(SimulatorInterface):
    """A Python simulator: its states are handles of those known (:class:`KnownStates`)."""

    first_chunk = 1
    is_parallel = False

    def __init__(
        self,
        model: Any,
        rng: np.random.Generator,
        options: SimulationOptions,
        canonical: Callable[[Any], Hashable] | None = None,
    ) -> None:
        self._require_sound(model)
        super().__init__(model, rng, options, width=0)
        self._known = KnownStates()
        self._canonical = canonical or getattr(model, "canonical", None)  # from any name of a state to the one kept
        self._is_over, self._interrupted = False, False
        self._callbacks: list[Any] = []
        self._failure: BaseException | None = None
        self._place: tuple[Any, ...] = ()
        self._watch = Watch(float(getattr(model, "patience", Simulator.patience)))
        self._to_cost: Callable[[Any], float] = (
            (lambda value: float(0.0 + value)) if model.sense == "cost" else (lambda value: float(0.0 - value))
        )
        self._step = self._with_step_index(model)
        self.weighs = weighs(model, options.rare_outcomes)
        if self.weighs:
            self._step = weighed_step(model, self._step, options.rare_outcomes, getattr(options, "beta", 0.0))
        self._terminal: Any = own_method(model, "terminal_cost")
        self._connect([self._reachable(call) for call in (self._count, self._take, self._roll)], new_store(1, 1))

    def _require_sound(self, model: Any) -> None:
        if not getattr(model, "takes_step", False):
            validate_simulator(model)

    def _reachable(self, function: Callable[[int, int, int], None]) -> Any:
        """What the kernel calls: the address of a C callback, or the callback itself where nothing is compiled."""
        callback = self._guarded(function)
        if DISABLE_JIT:
            return callback
        native = SIGNATURE(callback)
        self._callbacks.append(native)  # it must live as long as its address is used
        return ctypes.cast(native, ctypes.c_void_p).value

    @staticmethod
    def _with_step_index(model: Any) -> Callable[..., Any]:
        """``step(state, action, rng, h)`` for every kind of model; to a simulator the step does not matter."""
        step: Callable[..., Any] = model.step
        if getattr(model, "takes_step", False):
            return step
        return lambda state, action, rng, h: step(state, action, rng)

    def handle(self, state: Any) -> int:
        """Return the handle of a state, known or new."""
        state = state if self._canonical is None else self._canonical(state)
        fault = state_fault(state)
        if fault:
            raise StateError(f"state {fault}")
        return self._intern(state)

    def _intern(self, state: Any) -> int:
        handle = self._known.index.get(state)
        if handle is None:
            if compared_by_identity(state) or holds_nan(state):
                raise SimulatorError(f"the next state {state_fault(state)}")
            handle = self._known.add(state, self.budget - super().num_bytes)
        return handle

    def state(self, handle: int) -> Hashable:
        """Return the state of a handle."""
        return self._known.states[handle]

    def actions(self, handle: int) -> list[object]:
        """Return the actions allowed in a state, as the simulator names them."""
        try:
            return self._known_actions(handle)
        except Exception as error:
            self._place, self._failure = ("actions", self._known.states[handle], None, None, PENDING), error
            self.fail(handle, -1, 0)

    def _known_actions(self, handle: int) -> list[object]:
        allowed = self._known.actions[handle]
        if allowed is None:
            allowed = self._known.actions[handle] = self._ask_actions(self._known.states[handle])
        return allowed

    def _ask_actions(self, state: Any) -> list[object]:
        allowed, fault = listed_actions(self.model.actions(state))
        if fault:
            raise SimulatorError(fault)
        return allowed

    def action_name(self, action: Any, handle: int) -> str:
        """Return the simulator's own name for an action, or its text."""
        try:
            return action_label(self.model, action, self._known.states[handle])
        except Exception as error:
            raise SimulatorError(
                f"action_name({short(action)}) of {model_name(self.model)} raised {type(error).__name__}: {error}"
            ) from error

    def _guarded(self, function: Callable[[int, int, int], None]) -> Callable[[int, int, int, int], int]:
        watch = self._watch
        integers = self._integers.data  # a memoryview: quicker to write than the array

        def callback(context: int, handle: int, position: int, h: int) -> int:
            try:
                watch.calls += 1
                watch.inside = True
                if self._interrupted:
                    raise KeyboardInterrupt
                function(handle, position, h)
            except BudgetSpentError:
                self._is_over = True
                integers[STATUS] = FULL
            except BaseException as error:  # nothing may pass through the compiled caller
                self._failure = error
                integers[STATUS] = FAILED
            finally:
                watch.inside = False
            return 0

        return callback

    def _count(self, handle: int, position: int, h: int) -> None:
        self._place = ("actions", self._known.states[handle], None, None, PENDING)
        self._integers[NEXT] = len(self._known_actions(handle))
        self._integers[STATUS] = GO_ON

    def _take(self, handle: int, position: int, h: int) -> None:
        known, integers = self._known, self._integers
        state = known.states[handle]
        action = (known.actions[handle] or self._known_actions(handle))[position]
        self._place = ("step", state, action, h, PENDING)
        result = self._step(state, action, self._rng, h)
        self._place = ("step", state, action, h, result)
        target, cost, done = result
        if hash(state) != known.hashes[handle]:
            raise SimulatorError("it changed the state in place; return a new state instead")
        cost = self._to_cost(cost)
        if not -LARGEST_COST <= cost <= LARGEST_COST:
            raise SimulatorError(f"the cost {cost_fault(result[1])}")
        if done is not False and done is not True and type(done) is not _BOOL:
            _require_bool(done)
        if done:
            integers[STATUS] = DONE
        elif h + 1 == integers[shared.HORIZON]:
            fault = state_fault(target)
            if fault:
                raise SimulatorError(f"the next state {fault}")
            if self._terminal is not None:
                cost += self._numbers[shared.DISCOUNT] * self._end(target)
            integers[STATUS] = DONE
        else:
            integers[NEXT] = self._intern(target)
            integers[STATUS] = GO_ON
        self._numbers[COST] = cost

    def _end(self, state: Any) -> float:
        self._place = ("terminal_cost", state, None, self.model.horizon, PENDING)
        return self._checked(self._terminal(state), "the terminal cost")

    def _roll(self, handle: int, what: int, h: int) -> None:
        state, options = self._known.states[handle], self._options
        total, steps = 0.0, 0
        low, high = self._bounds(state, h) if what != shared.POLICY_ACTION else _UNBOUNDED
        if what == shared.POLICY_ACTION:
            assert options.rollout_policy is not None
            self._place = ("rollout_policy", state, None, h, PENDING)
            action = self._allowed(options.rollout_policy(state, h, self._rng), state)
            self._integers[NEXT] = self._known_actions(handle).index(action)
        elif what == shared.BOUNDS:
            total = low
            self._numbers[shared.HIGHEST] = high
        elif options.leaf_value is not None:
            self._place = ("leaf_value", state, None, h, PENDING)
            total = self._checked(options.leaf_value(state, h))
        elif options.rollout_policy is None and own_method(self.model, "rollout") is not None:
            self._place = ("rollout", state, None, h, PENDING)
            answer = self.model.rollout(state, h, self._rng)
            if isinstance(answer, tuple):
                answer, steps = answer
            total = self._checked(answer)
        else:
            total, steps = self._follow(state, h)
        if hash(state) != self._known.hashes[handle]:
            raise SimulatorError("it changed the state in place; return a new state instead")
        self._numbers[COST] = min(max(total, low), high)
        self._integers[STEPS] = steps
        self._integers[STATUS] = GO_ON

    def _bounds(self, state: Any, h: int) -> tuple[float, float]:
        """Return what the user's function says of the least risk-to-go, as costs."""
        if self._options.bounds is None:
            return _UNBOUNDED
        self._place = ("bounds", state, None, h, PENDING)
        found = self._options.bounds(state, h)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise SimulatorError(f"it returned {short(found)}; expected (low, high)")
        if not found[0] <= found[1]:
            raise SimulatorError(f"it returned {short(found)}; low must not exceed high")
        low, high = (self._to_cost(value) for value in found)
        return min(low, high), max(low, high)

    def _checked(self, value: Any, what: str = "its value") -> float:
        fault = cost_fault(value)
        if fault:
            raise SimulatorError(f"{what} {fault}")
        return self._to_cost(value)

    def _follow(self, state: Any, h: int) -> tuple[float, int]:
        """Roll out the policy (uniform if none was given) from step ``h``; (cost-to-go, steps)."""
        step, rng, random = self._step, self._rng, self._rng.random
        choose, policy, to_cost = self.model.actions, self._options.rollout_policy, self._to_cost
        discount, horizon = float(self._numbers[shared.DISCOUNT]), int(self._integers[shared.HORIZON])
        total, factor, first = 0.0, 1.0, h
        while h < horizon:
            self._place = ("actions", state, None, h, PENDING)
            allowed = choose(state)
            if policy is not None:
                self._place = ("rollout_policy", state, None, h, PENDING)
                action = self._allowed(policy(state, h, rng), state)
            elif type(allowed) is int and allowed > 0:
                action = int(random() * allowed) if allowed > 1 else 0
            else:
                if not isinstance(allowed, (tuple, list, range)) or not allowed:
                    allowed = self._ask_actions(state)
                size = len(allowed)
                action = allowed[int(random() * size)] if size > 1 else allowed[0]
            self._place = ("step", state, action, h, PENDING)
            result = step(state, action, rng, h)
            self._place = ("step", state, action, h, result)
            state, cost, done = result
            cost = to_cost(cost)
            if not -LARGEST_COST <= cost <= LARGEST_COST:
                raise SimulatorError(f"the cost {cost_fault(result[1])}")
            total += factor * cost
            h += 1
            if done is not False:
                if done is not True and type(done) is not _BOOL:
                    _require_bool(done)
                if done:
                    return total, h - first
            factor *= discount
        if self._terminal is not None:
            total += factor * self._end(state)
        return total, h - first

    def _allowed(self, action: Any, state: Any) -> Any:
        allowed = self._ask_actions(state)
        if action not in allowed:
            raise SimulatorError(f"it chose {short(action)}, which is not allowed; allowed: {short(allowed)}")
        return action

    def try_out(self, handle: int, step: int) -> None:
        """Try it among states of its own: the handles that are given next stay what they would be."""
        known, self._known = self._known, self._known.retained([handle])
        try:
            super().try_out(0, step)
        finally:
            self._known = known

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise what a callback raised, with the state, the action and the step."""
        error, self._failure = self._failure, None
        interrupted, self._interrupted = self._interrupted, False
        if error is None or (interrupted and isinstance(error, KeyboardInterrupt)):
            raise KeyboardInterrupt  # it fell before the callback could keep it
        if isinstance(error, EndlessCall):
            patience = self._watch.patience
            raise SimulatorError(
                f"{self._where()} has not returned after {patience:g} s: does it loop for ever? If it is only slow, "
                "set patience (in seconds) on the model; for long rollouts, shorten the horizon, end episodes with "
                "done=True, or define rollout or leaf_value"
            ) from None
        if not isinstance(error, Exception):
            raise error
        where, result = self._where(), self._place[-1]
        if isinstance(error, SimulatorError):
            raise SimulatorError(f"{where}: {error}") from None
        fault = "" if result is PENDING else outcome_fault(result)
        raise SimulatorError(where + (f": {fault}" if fault else f" raised {type(error).__name__}: {error}")) from error

    def _where(self) -> str:
        method, state, action, h, _ = self._place
        shown = ", ".join(map(short, (state, action) if method == "step" else (state,)))
        return f"{method}({shown}) of {model_name(self.model)}" + (f" at step {h}" if h is not None else "")

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the kernel runs: watch for calls without end, keep a Ctrl-C that falls between callbacks."""
        with self._watch.running():
            yield from self._keeping_interrupts()

    def _keeping_interrupts(self) -> Iterator[None]:
        standard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not standard or threading.current_thread() is not threading.main_thread():
            yield
            return

        def keep(number: int, frame: Any) -> None:
            if self._watch.inside:
                raise KeyboardInterrupt
            self._interrupted = True

        signal.signal(signal.SIGINT, keep)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._interrupted and self._failure is None:
                self._interrupted = False
                raise KeyboardInterrupt

    def retain(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget all states but these; return their new handles."""
        kept, inverse = np.unique(np.asarray(handles, dtype=np.int64), return_inverse=True)
        self._known = self._known.retained(kept.tolist())
        fresh = np.arange(kept.size)
        self._forget_outcomes(kept, fresh)
        return np.asarray(fresh[inverse])

    def make_room(self) -> bool:
        """Enlarge the memory of outcomes, if it is what ran out."""
        has_more = super().make_room()
        if self._is_over:
            self._is_over = False
            raise BudgetSpentError
        return has_more

    @property
    def num_bytes(self) -> int:
        """Memory of states (estimated) and of outcomes."""
        return super().num_bytes + self._known.num_bytes

    def state_dict(self) -> dict[str, object]:
        """Return the states met, and the outcomes remembered."""
        return {**super().state_dict(), **self._known.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know the states and outcomes that another binding knew."""
        super().load_state_dict(state)
        self._known = KnownStates.loaded(state)

    def require_portable(self) -> None:
        """Raise if a file cannot hold one of the states; names it."""
        self._known.require_portable(self.model)


def _require_bool(done: Any) -> None:
    """Raise for a ``done`` that would only be taken for a bool."""
    if done_fault(done):
        raise SimulatorError(done_fault(done))
