"""From arrays of any accepted shape to the sparse parts of a :class:`TabularMDP`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailwise._validate import integer, real
from tailwise.errors import ModelError, OptionError
from tailwise.models.contract import Sense

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SUM_TOLERANCE = 1e-6  # rows that miss 1 by less are rounding of the source, and are rescaled
_LONGEST = 10_000_000  # decisions, as for simulators: a search keeps a few numbers for each
_EXACT = 1e-12  # rows this close to 1 are left as they are, so that saving and loading is exact


class Parts(NamedTuple):
    """The arrays of a table, see :class:`tailwise.TabularMDP`."""

    action_offsets: Ints
    action_ids: Ints
    outcome_offsets: Ints
    probabilities: Floats
    next_states: NDArray[np.int32]
    losses: Floats
    done: NDArray[np.bool_]
    step_losses: Floats
    sense: Sense


def parts_from_outcomes(
    states: ArrayLike,
    actions: ArrayLike,
    next_states: ArrayLike,
    probabilities: ArrayLike,
    costs: ArrayLike | None,
    rewards: ArrayLike | None,
    *,
    done: ArrayLike | None = None,
    num_states: int | None = None,
    step_losses: Floats | None = None,
    keep: NDArray[np.bool_] | None = None,
) -> Parts:
    """Sort outcome entries by (state, action), stably, and lay out the table."""
    sense, values = pick(costs, rewards)
    origin, action, target = (
        _indices(v, n) for v, n in ((states, "states"), (actions, "actions"), (next_states, "next_states"))
    )
    chance, cost = (
        _floats(probabilities, "probabilities"),
        _floats(values, "costs" if sense == "cost" else "rewards"),
    )
    ends = np.zeros(origin.size, dtype=np.bool_) if done is None else np.asarray(done, dtype=np.bool_).reshape(-1)
    columns = {
        "actions": action,
        "next_states": target,
        "probabilities": chance,
        f"{sense}s": cost,
        "done": ends,
    }
    for name, column in columns.items():
        if column.size != origin.size:
            raise ModelError(f"{name} has {column.size} entries, states has {origin.size}; they must match")
    if origin.size == 0:
        raise ModelError("the table has no outcomes; give at least one (state, action, next state) entry")
    largest = int(max(origin.max(), target.max()))
    size = largest + 1 if num_states is None else integer(num_states, "num_states", low=1)
    if largest >= size:
        raise ModelError(f"state {largest} is out of range for num_states={size}")
    count = int(action.max()) + 1
    for what, number in (("states", size), ("actions", count)):
        if number > np.iinfo(np.int32).max:
            raise ModelError(f"a table holds at most {np.iinfo(np.int32).max} {what}, not {number}")
    key = origin * count + action
    if keep is None:
        keep = chance != 0.0
    if not keep.all():
        all_keys = np.unique(key)
        origin, action, target, key = origin[keep], action[keep], target[keep], key[keep]
        chance, cost, ends = chance[keep], cost[keep], ends[keep]
        empty = np.setdiff1d(all_keys, key)
        if empty.size:
            where = ", ".join(f"(state {k // count}, action {k % count})" for k in empty[:5].tolist())
            raise ModelError(f"all probabilities are 0 for {where}; leave the action out, or give it outcomes")
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        key, target, chance, cost, ends = key[order], target[order], chance[order], cost[order], ends[order]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    row_keys = key[first]
    outcome_offsets = np.append(first, key.size)
    action_offsets = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(row_keys // count, minlength=size), out=action_offsets[1:])
    return Parts(
        action_offsets,
        row_keys % count,
        outcome_offsets,
        _rescale(chance, outcome_offsets),
        target.astype(np.int32),
        cost if sense == "cost" else 0.0 - cost,
        ends,
        np.zeros((0, 0)) if step_losses is None else step_losses,
        sense,
    )


def parts_from_arrays(
    transitions: Any,
    costs: Any,
    rewards: Any,
    *,
    order: str | None,
    costs_order: str | None,
    mask: ArrayLike | None,
    horizon: int,
) -> tuple[Parts, int]:
    """Read transition and cost arrays in any accepted shape (see ``TabularMDP.from_arrays``); also return A."""
    steps = check_horizon(horizon)
    sense, values = pick(costs, rewards)
    state, action, target, chance, (num_states, num_actions) = _entries(transitions, order)
    kind, array = _cost_array(values, num_states, num_actions, steps, order, costs_order, sense)
    illegal = math.inf if sense == "cost" else -math.inf
    allowed = np.ones((num_states, num_actions), dtype=np.bool_)
    if kind in ("SA", "HSA"):
        blocked = array == illegal
        allowed &= ~(blocked if kind == "SA" else blocked.all(axis=0))
        if kind == "HSA" and (blocked.any(axis=0) & allowed).any():
            where = np.argwhere(blocked.any(axis=0) & allowed)[0]
            raise ModelError(
                f"state {where[0]}, action {where[1]} is illegal ({illegal}) at some steps only; action sets "
                "may not depend on the step: add the step to the state, or give a large finite cost"
            )
    if mask is not None:
        given = np.asarray(mask, dtype=np.bool_)
        if given.shape != allowed.shape:
            raise ModelError(f"mask has shape {given.shape}, expected (S, A) = {allowed.shape}")
        allowed &= given
    used = allowed[state, action]
    state, action, target, chance = state[used], action[used], target[used], chance[used]
    missing = np.argwhere(
        allowed & (np.bincount(state * num_actions + action, minlength=allowed.size).reshape(allowed.shape) == 0)
    )
    if missing.size:
        where = ", ".join(f"(state {s}, action {a})" for s, a in missing[:5].tolist())
        raise ModelError(f"all probabilities are 0 for {where}; mark illegal actions with {illegal} costs or a mask")
    if kind == "HSA":
        per_outcome, rows = np.zeros(state.size), np.flatnonzero(allowed.reshape(-1))
        per_step = np.ascontiguousarray(array.reshape(steps, -1)[:, rows])
        if sense == "reward":
            per_step = 0.0 - per_step
    else:
        per_step = None
        if kind == "S":
            per_outcome = array[state]
        elif kind == "SA":
            per_outcome = array[state, action]
        else:
            per_outcome = array[state, action, target]
    given_costs = (
        {"costs": per_outcome, "rewards": None} if sense == "cost" else {"costs": None, "rewards": per_outcome}
    )
    parts = parts_from_outcomes(
        state, action, target, chance, **given_costs, num_states=num_states, step_losses=per_step,
        keep=np.ones(state.size, dtype=np.bool_),
    )  # fmt: skip
    return parts, num_actions


def _entries(transitions: Any, order: str | None) -> tuple[Ints, Ints, Ints, Floats, tuple[int, int]]:
    """Non-zero entries of the transition arrays, and (S, A)."""
    from scipy import sparse

    if isinstance(transitions, (list, tuple)) and transitions and any(sparse.issparse(m) for m in transitions):
        if order not in (None, "ASS"):
            raise ModelError(f"a list of sparse matrices has order 'ASS', not {order!r}")
        size = transitions[0].shape[0]
        columns: list[tuple[Ints, Ints, Ints, Floats]] = []
        for a, matrix in enumerate(transitions):
            if matrix.shape != (size, size):
                raise ModelError(f"transitions[{a}] has shape {matrix.shape}, expected {(size, size)}")
            entry = sparse.coo_array(matrix)
            kept = entry.data != 0
            rows, cols = entry.coords
            columns.append(
                (
                    rows[kept].astype(np.int64),
                    np.full(int(kept.sum()), a),
                    cols[kept].astype(np.int64),
                    entry.data[kept].astype(np.float64),
                )
            )
        state, action, target, chance = (np.concatenate(column) for column in zip(*columns, strict=True))
        return state, action, target, chance, (size, len(transitions))
    try:
        dense = np.asarray(transitions, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"transitions must be a numeric array or a list of sparse matrices: {error}") from None
    if dense.ndim != 3:
        raise ModelError(f"transitions has shape {dense.shape}; expected (S, A, S) or (A, S, S)")
    x, y, z = dense.shape
    fits = [name for name, ok in (("SAS", x == z), ("ASS", y == z)) if ok]
    if order is None:
        if len(fits) != 1 and dense.shape != (1, 1, 1):  # one number reads the same either way
            raise ModelError(
                f"transitions has shape {dense.shape}: "
                + ("both orders fit; say order='SAS' or order='ASS'" if fits else "expected (S, A, S) or (A, S, S)")
            )
        order = fits[0]
    if order not in ("SAS", "ASS"):
        raise ModelError(f"order must be 'SAS' or 'ASS', not {order!r}")
    if order not in fits:
        raise ModelError(f"transitions has shape {dense.shape}, which does not fit order={order!r}")
    if order == "ASS":
        dense = dense.transpose(1, 0, 2)
    state, action, target = (index.astype(np.int64) for index in np.nonzero(dense))
    return state, action, target, dense[state, action, target], (dense.shape[0], dense.shape[1])


def _cost_array(
    values: Any,
    num_states: int,
    num_actions: int,
    horizon: int,
    order: str | None,
    costs_order: str | None,
    sense: str,
) -> tuple[str, Floats]:
    """The cost array with its axes: one of "S", "SA", "SAS" (also for "ASS" input), "HSA"."""
    from scipy import sparse

    name = f"{sense}s"
    if isinstance(values, (list, tuple)) and values and any(sparse.issparse(m) for m in values):
        values = np.stack([m.toarray() if sparse.issparse(m) else np.asarray(m) for m in values])
        costs_order = costs_order or "ASS"
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name} must be a numeric array: {error}") from None
    shapes = {
        "S": (num_states,),
        "SA": (num_states, num_actions),
        "SAS": (num_states, num_actions, num_states),
        "ASS": (num_actions, num_states, num_states),
        "HSA": (horizon, num_states, num_actions),
    }
    fits = [kind for kind, shape in shapes.items() if array.shape == shape]
    if costs_order is not None:
        if costs_order not in shapes:
            raise ModelError(f"costs_order must be one of {', '.join(shapes)}, not {costs_order!r}")
        if costs_order not in fits:
            raise ModelError(
                f"{name} has shape {array.shape}, which does not fit costs_order={costs_order!r}: {shapes[costs_order]}"
            )
        kind = costs_order
    elif len(fits) == 1:
        kind = fits[0]
    elif (fits == ["SAS", "ASS"] and order != "ASS") or (fits and array.shape == (1, 1, 1)):
        kind = "SAS"
    elif fits:
        raise ModelError(
            f"{name} has shape {array.shape}, which fits {' and '.join(fits)}; say which with costs_order="
        )
    else:
        raise ModelError(
            f"{name} has shape {array.shape}; expected "
            + ", ".join(f"({', '.join(kind)}) = {shape}" for kind, shape in shapes.items())
        )
    if kind == "ASS":
        return "SAS", array.transpose(1, 0, 2)
    return kind, array


def pick(costs: Any, rewards: Any) -> tuple[Sense, Any]:
    """Return the sense and the one array that was given."""
    if (costs is None) == (rewards is None):
        raise ModelError("give either costs or rewards, " + ("not both" if costs is not None else "neither was given"))
    return ("cost", costs) if costs is not None else ("reward", rewards)


def terminal(costs: ArrayLike | None, rewards: ArrayLike | None, num_states: int) -> Floats:
    """Terminal costs, shape (S,); zeros where none are given."""
    if costs is None and rewards is None:
        return np.zeros(num_states)
    sense, values = pick(costs, rewards)
    array = _floats(values, f"terminal_{sense}s").copy()
    if array.size != num_states:
        raise ModelError(f"terminal_{sense}s has {array.size} entries, expected one per state: {num_states}")
    return array if sense == "cost" else 0.0 - array


def check_horizon(horizon: Any) -> int:
    """Return ``horizon`` as an int from 1 to 10,000,000, or raise ``ModelError``."""
    try:
        steps = integer(horizon, "horizon", low=1, hint="it is the number of decisions")
    except OptionError as error:
        raise ModelError(str(error)) from None
    if steps > _LONGEST:
        raise ModelError(f"horizon must be at most {_LONGEST}, not {steps}; there are no endless episodes")
    return steps


def check_discount(discount: Any) -> float:
    """Return ``discount`` as a float in (0, 1], or raise ``ModelError``."""
    try:
        return real(discount, "discount", low=0.0, high=1.0, low_open=True)
    except OptionError as error:
        raise ModelError(str(error)) from None


def find_start(start: Any, num_states: int, names: Sequence[str]) -> int:
    """Return the index of the state ``start``, given as an index or a label."""
    if isinstance(start, str):
        if start in names:
            return list(names).index(start)
        is_index = start.isascii() and start.isdigit()
        if not is_index or any(name.isdigit() for name in names):  # where labels are numbers, only they count
            known = (
                f"labels are {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else "it has no labels"
            )
            raise ModelError(f"start {start!r} is not in the table; states are 0..{num_states - 1}, {known}")
        start = int(start)
    if isinstance(start, bool) or not isinstance(start, (int, np.integer)) or not 0 <= start < num_states:
        raise ModelError(f"start {start!r} is not in the table; states are 0..{num_states - 1}")
    return int(start)


def labels(names: Sequence[str], expected: int, what: str) -> tuple[str, ...]:
    """Return labels as a tuple; there must be none, or one per item, all different."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ModelError(f"{what} must be a sequence of names, not {names!r}")
    given = tuple(str(name) for name in names)
    if given and len(given) < expected:
        raise ModelError(f"{what} has {len(given)} names for {expected} items; give one per item, or none")
    if len(set(given)) != len(given):
        twice = next(name for name in given if given.count(name) > 1)
        raise ModelError(f"{what} holds {twice!r} more than once; labels must differ")
    return given


def count_actions(parts: Parts) -> int:
    """Largest action id plus 1."""
    return int(parts.action_ids.max(initial=-1)) + 1


def _rescale(chance: Floats, offsets: Ints) -> Floats:
    """Probabilities whose rows sum to 1 within rounding of the source, rescaled to sum to 1."""
    sums = np.add.reduceat(chance, offsets[:-1])
    miss = np.abs(sums - 1.0)
    repair = (miss > _EXACT) & (miss <= _SUM_TOLERANCE)
    if not repair.any():
        return chance.copy()
    return np.asarray(chance / np.repeat(np.where(repair, sums, 1.0), np.diff(offsets)))


def _indices(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values).reshape(-1)
    if array.dtype.kind not in "iu":
        whole = array.astype(np.float64) if array.dtype.kind in "fb" else None
        if whole is None or not np.isfinite(whole).all() or (whole != np.floor(whole)).any():
            raise ModelError(f"{name} must be whole numbers, not {array.dtype}")
    result = array.astype(np.int64)
    if (result < 0).any():
        raise ModelError(f"{name}[{int(np.flatnonzero(result < 0)[0])}] is negative; indices start at 0")
    return result


def _floats(values: Any, name: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name} must be numbers: {error}") from None
