"""Steps of many states at once: ``step_many`` of a simulator, and whether it draws what its ``step`` draws.

Rows are independent: row i is state i, its action, and what came of it. All rows draw from one generator, so what one
of them meets depends on how many others there are; nothing here shares its luck with episodes played one by one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._random import generator
from tailwise.errors import ModelError
from tailwise.models.contract import LARGEST_COST
from tailwise.models.simulator import model_name, short

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
