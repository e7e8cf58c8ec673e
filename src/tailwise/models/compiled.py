"""Simulators that are fast: ``step`` is compiled, or ``step_many`` takes many states at once.

The functions are plain Python. With numba's compiler they run at machine speed inside the
search; interpreted (``NUMBA_DISABLE_JIT=1``, or in a debugger) the same source gives the same result for
the same seed, since both draw from the same stream.

Rows of many states are independent: row i is state i, its action, and what came of it. All rows draw from one
generator, so what one of them meets depends on how many others there are; nothing shares its luck with episodes played
one by one.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._random import generator
from tailwise._validate import truth
from tailwise.errors import ModelError, StateError
from tailwise.models.contract import LARGEST_COST, MAX_ACTIONS, Sense, short
from tailwise.models.simulator import Simulator, model_name, validate_simulator

State = int | float | tuple[int | float, ...]


class CompiledSimulator(Simulator):
    """A simulator made of plain functions that numba compiles.

    The functions may use ints, floats, tuples, arithmetic, ``math``, NumPy arrays that are constants of their
    module, other plain functions, and the methods of ``rng``, a NumPy Generator (``rng.random()``,
    ``rng.normal()``, ``rng.integers(0, n)``, ``rng.poisson(5.0)`` ...). They are compiled when a search first binds the
    model (about a second); the search itself is not compiled again.

    Parameters
    ----------
    step : callable
        ``step(state, action, rng) -> (next_state, cost, done)``; ``action`` is 0..n-1.
    start : int, float or flat tuple of ints and floats
        Initial state. It fixes the type of every field of every state.
    horizon : int
        Number of decisions H.
    actions : int or callable
        Number of actions, or ``actions(state) -> int``.
    discount : float in (0, 1], default 1.0
        Factor per step.
    sense : "cost" or "reward", default "cost"
        What the numbers of ``step`` are.
    terminal_cost : callable, optional
        ``terminal_cost(state) -> float``, charged when step H is reached.
    rollout : callable, optional
        ``rollout(state, h, rng) -> float``, a sampled cost-to-go from step h, instead of random actions.
    outcomes : callable, optional
        ``outcomes(state, action) -> list of (probability, next_state, cost, done)`` for exact planning;
        never compiled.
    action_labels : sequence of str or callable
        Names of the actions, or ``action_labels(state) -> sequence of str`` where they depend on the state; never
        compiled.
    name : str, default "simulator"
        Name of the problem, for display.
    fallback : bool, default False
        Run the functions interpreted where they cannot be compiled, rather than raise.

    Raises
    ------
    ModelError
        If a function does not take the arguments it should, or ``start`` is no state. A function that
        cannot be compiled is named, with its own line, when a search binds the model.

    Examples
    --------
    >>> from tailwise import CompiledSimulator, ErmMcts
    >>> def step(stock, order, rng):
    ...     left = stock + order - rng.poisson(2.0)
    ...     return min(max(left, 0), 9), order + 4.0 * max(-left, 0) + 0.5 * max(left, 0), False
    >>> shop = CompiledSimulator(step, start=3, horizon=8, actions=5, name="shop")
    >>> ErmMcts(shop, beta=0.2, seed=0).plan(iterations=100).iterations
    100
    """

    is_shareable = True  # threads may use it at a time: it keeps nothing of a step
    made_by: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None  # how, of what, and as what

    def __init__(
        self,
        step: Callable[[Any, int, np.random.Generator], tuple[Any, float, bool]],
        *,
        start: State,
        horizon: int,
        actions: int | Callable[[Any], int],
        discount: float = 1.0,
        sense: Sense = "cost",
        terminal_cost: Callable[[Any], float] | None = None,
        rollout: Callable[[Any, int, np.random.Generator], float] | None = None,
        outcomes: Callable[[Any, int], list[Any]] | None = None,
        action_labels: Sequence[str] | Callable[[Any], Sequence[str]] = (),
        name: str = "simulator",
        fallback: bool = False,
    ) -> None:
        self.fields = _fields(start)
        self.is_tuple = isinstance(start, tuple)
        self.start = self.canonical(start)
        self.horizon, self.discount, self.sense, self.name = horizon, discount, sense, name
        self.fallback = truth(fallback, "fallback")
        self.num_actions = None if callable(actions) else _count(actions)
        self.labels_by_state = callable(action_labels)
        self.action_labels = action_labels if callable(action_labels) else self._checked_labels(action_labels)
        self._replace("step", step)
        self._replace("actions", actions if callable(actions) else self._same_everywhere)
        for key, function in (("terminal_cost", terminal_cost), ("rollout", rollout), ("outcomes", outcomes)):
            if function is not None:
                self._replace(key, function)
        validate_simulator(self, endless=True)
        self.adapters: dict[Any, Any] = {}  # compiled forms, kept by the search that made them

    def _replace(self, method: str, function: Callable[..., Any]) -> None:
        """Let a user's function be the method: no detour in calls that are counted in nanoseconds."""
        setattr(self, method, function)

    def _same_everywhere(self, state: Any) -> int:
        assert self.num_actions is not None
        return self.num_actions

    def canonical(self, state: Any) -> State:
        """Return ``state`` with every field of its own plain type, or raise ``StateError``."""
        given = state if isinstance(state, tuple) else (state,)
        if isinstance(state, tuple) != self.is_tuple or len(given) != len(self.fields):
            kinds = ", ".join(kind.__name__ for kind in self.fields)
            form = f"a tuple of {len(self.fields)} ({kinds})" if self.is_tuple else f"one {kinds}"
            raise StateError(f"state {short(state)} is not like the start, which is {form}")
        fields = []
        for k, (value, kind) in enumerate(zip(given, self.fields, strict=True)):
            whole = isinstance(value, (numbers.Integral, np.integer, np.bool_))
            if not whole and (kind is int or not isinstance(value, (numbers.Real, np.floating))):
                raise StateError(f"field {k} of state {short(state)} must be {kind.__name__}, as in the start")
            if kind is int and not -(2**63) <= value < 2**63:
                raise StateError(f"field {k} of state {short(state)} is beyond the range of 64-bit integers")
            fields.append(kind(value))
        return tuple(fields) if self.is_tuple else fields[0]

    def _checked_labels(self, labels: Any, state: Any = None) -> tuple[str, ...]:
        where = f"action_labels({short(state)})" if self.labels_by_state else "action_labels"
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise ModelError(f"{where} of {self.name} must be a sequence of names, not {short(labels)}")
        names = tuple(map(str, labels))
        most = self.num_actions
        if names and most is not None and len(names) != most:
            raise ModelError(
                f"{where} of {self.name} has {len(names)} names for {most} actions; give one each, or none"
            )
        if len(set(names)) != len(names):
            raise ModelError(f"{where} of {self.name} holds a name more than once: {short(list(names))}")
        return names

    def action_name(self, action: int, state: Any = None) -> str:
        """Return the action's label (in ``state``, where labels depend on it), or its number as text.

        Raises
        ------
        ModelError
            If ``action_labels`` fails, or gives no names.
        """
        labels: Any = self.action_labels
        if callable(labels):
            if state is None:
                return str(action)
            try:
                labels = labels(state)
            except Exception as error:
                raise ModelError(
                    f"action_labels({short(state)}) of {self.name} raised {type(error).__name__}: {error}"
                ) from error
            labels = self._checked_labels(labels, state)
        return labels[action] if 0 <= action < len(labels) else str(action)

    def __repr__(self) -> str:
        return (
            f"CompiledSimulator(name={model_name(self)!r}, start={self.start!r}, horizon={self.horizon}, "
            f"discount={self.discount}, sense={self.sense!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "adapters": {}}

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.made_by is None:
            return super().__reduce_ex__(protocol)
        make, given, made = self.made_by
        own = {key: value for key, value in vars(self).items() if key != "made_by" and made.get(key) is not value}
        return make, given, own or None


def _fields(start: Any) -> tuple[type, ...]:
    fields: list[type] = []
    for value in start if isinstance(start, tuple) else (start,):
        if isinstance(value, (numbers.Integral, np.integer, np.bool_)):
            fields.append(int)
        elif isinstance(value, (numbers.Real, np.floating)):
            fields.append(float)
        else:
            raise ModelError(
                f"start {short(start)} cannot be a compiled state: {short(value)} is neither an int nor a float; "
                "use an int, a float or a flat tuple of them (or a Simulator, for other states)"
            )
    if not fields:
        raise ModelError("start () cannot be a compiled state: it has no fields")
    return tuple(fields)


def _count(actions: Any) -> int:
    if isinstance(actions, bool) or not isinstance(actions, (int, np.integer)) or actions < 1:
        raise ModelError(
            f"actions must be a number of at least 1 or a function actions(state) -> int, not {short(actions)}"
        )
    if actions > MAX_ACTIONS:
        raise ModelError(f"actions is {actions}; the search takes at most {MAX_ACTIONS} actions: choose some")
    return int(actions)


Steps: TypeAlias = tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_]]

_DRAWS, _PLACES = 4000, 4
_ERROR_RATE = 1e-6  # of a sound simulator that is blamed all the same


def same_states(model: Any, state: Any, number: int) -> NDArray[Any]:
    """Return a state so many times: shape (n,) of a number, (n, d) of a tuple of d numbers; else ``ModelError``."""
    try:
        row = np.asarray(state)
    except ValueError:  # tuples of different lengths
        row = np.empty((0, 0))
    if row.ndim > 1 or row.dtype.kind not in "biuf" or listed_states(row[None])[0] != state:
        raise ModelError(
            f"step_many of {model_name(model)} cannot be used: its states must be numbers or flat tuples of numbers, "
            f"and one is {short(state)}"
        )
    return np.repeat(row[None], number, axis=0)


def listed_states(states: NDArray[Any]) -> list[Hashable]:
    """Return the rows of an array as the states that ``step`` knows: numbers, or tuples of them."""
    rows: list[Any] = states.tolist()
    return rows if states.ndim == 1 else list(map(tuple, rows))


def steps_of(states: NDArray[Any], answer: Any) -> tuple[Steps | None, str]:
    """Return what ``step_many`` answered as arrays, or None and what is wrong with it."""
    expected, number = "expected arrays (next_states, costs, done)", len(states)
    if not isinstance(answer, (tuple, list)) or len(answer) != 3:
        return None, f"it returned {short(answer)}; {expected}"
    found: list[NDArray[Any]] = []
    for name, value, shape, kinds, form in (
        ("next_states", answer[0], states.shape, "biuf", "numbers"),
        ("costs", answer[1], (number,), "biuf", "numbers"),
        ("done", answer[2], (number,), "b", "bool"),
    ):
        try:
            array = np.asarray(value)
        except ValueError:
            return None, f"{name} is {short(value)}; {expected}"
        if array.shape != shape or array.dtype.kind not in kinds:
            return None, f"{name} is {array.dtype} of shape {array.shape}; expected {form} of shape {shape}"
        found.append(array)
    wrong = np.flatnonzero(~(np.abs(found[1]) <= LARGEST_COST))
    if wrong.size:
        at = f"cost {wrong[0]} is {found[1][wrong[0]]:g}"
        return None, f"{at}; it must be a finite number of at most {LARGEST_COST:g}"
    return (found[0], found[1].astype(np.float64, copy=False), found[2]), ""


def check_many(trial: Any) -> None:
    """``step_many`` answers in the right form, the same for the same draws, and draws what ``step`` draws.

    Of some states and actions that were tried, each number of the outcome (cost, done, each number of the next state)
    is compared by the test of Kolmogorov and Smirnov on 4000 draws of each: a simulator whose two methods agree is
    blamed at most once in a million times, and a difference of 0.07 in a probability is found.
    """
    tried = list({(step.state, step.action): step for step in trial.steps}.values())
    tried = tried[:: max(1, len(tried) // _PLACES)][:_PLACES]
    if not tried:
        return
    seeds = trial.sequence.spawn(2)
    alone = same_states(trial.simulator, tried[0].state, 1)
    states = np.concatenate([same_states(trial.simulator, step.state, 1) for step in tried] * _DRAWS)
    actions = np.array([step.action for step in tried] * _DRAWS)
    answers = []
    for rows, taken in ((alone, actions[:1]), (states, actions), (states, actions)):
        where = f"step_many of {len(rows)} states"
        answer = trial.call("step_many", (rows.copy(), taken.copy(), generator(seeds[0])), where)
        found, fault = (None, "") if answer is None else steps_of(rows, answer[0])
        if found is None:
            if fault:
                trial.fault("many", where, *fault.split("; ", 1))
            return
        answers.append([found[0].copy(), found[1].copy(), found[2].copy()])
    if any(not np.array_equal(one, two) for one, two in zip(answers[1], answers[2], strict=True)):
        trial.fault("many draws", "step_many", "the same draws gave another outcome", "take all randomness from rng")
    many, rng = _columns(answers[1]), generator(seeds[1])
    least = math.sqrt(math.log(2 * len(tried) * len(many) / _ERROR_RATE) / _DRAWS)
    for place, step in enumerate(tried):
        drawn = [trial.simulator.step(step.state, step.action, rng) for _ in range(_DRAWS)]
        for name, column in _columns([np.array(part) for part in zip(*drawn, strict=True)]).items():
            gap = _distance(column, many[name][place :: len(tried)])
            if gap > least:
                where = step.where.replace("step(", "step_many(", 1).partition(" at step")[0]
                problem = f"{name} is distributed differently than by step (by {gap:.2g} of the probability)"
                trial.fault("many", where, problem, "draw each row by itself: rng.random(len(states))")


def _columns(steps: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return each number of the outcomes by itself; what follows the end does not matter."""
    following, costs, done = steps
    rows = following.reshape(len(costs), -1)
    states = {f"next state[{k}]" if following.ndim > 1 else "next state": rows[:, k] for k in range(rows.shape[1])}
    return {"cost": costs, "done": done} | {name: np.where(done, 0, column) for name, column in states.items()}


def _distance(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the largest difference of two empirical distribution functions."""
    both = np.concatenate((first, second))
    shares = (np.searchsorted(np.sort(one), both, side="right") / one.size for one in (first, second))
    return float(np.max(np.abs(np.subtract(*shares))))
