"""From arrays of any accepted shape to the sparse parts of a :class:`TabularMDP`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailwise._arrays import Floats, Ints
from tailwise._validate import integer, numeric
from tailwise.errors import ModelError
from tailwise.models.contract import SUM_TOLERANCE, Sense

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


class Frame(NamedTuple):
    """What a table has beside its arrays, as it was given."""

    horizon: int | None
    discount: float
    start: int | str
    terminal_costs: ArrayLike | None
    terminal_rewards: ArrayLike | None
    state_labels: Sequence[str]
    action_labels: Sequence[str]
    name: str
    notes: Sequence[str] = ()


class _Outcomes(NamedTuple):
    """The outcomes of all rows, in order."""

    target: NDArray[Any]
    chance: Floats
    cost: Floats
    ends: NDArray[np.bool_] | None = None


def parts_from_outcomes(
    columns_given: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    values_given: tuple[Sense, Any],
    *,
    done: ArrayLike | None = None,
    num_states: int | None = None,
) -> Parts:
    """Sort entries (state, action, next state, probability) by (state, action), stably, and lay out the table."""
    states, actions, next_states, probabilities = columns_given
    sense, values = values_given
    origin, action, target = (
        _indices(v, n) for v, n in ((states, "states"), (actions, "actions"), (next_states, "next_states"))
    )
    chance, cost = _floats(probabilities, "probabilities"), _floats(values, f"{sense}s")
    ends = np.zeros(origin.size, dtype=np.bool_) if done is None else np.asarray(done, dtype=np.bool_).reshape(-1)
    columns = {"actions": action, "next_states": target, "probabilities": chance, f"{sense}s": cost, "done": ends}
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
    del origin, action, columns  # as large as the table, and not needed any more
    keep = chance != 0.0
    if not keep.all():
        impossible = np.setdiff1d(key, key[keep])
        if impossible.size:
            raise _without_outcomes(np.divmod(impossible, count), "leave the action out, or give it outcomes")
        key, target, chance, cost, ends = key[keep], target[keep], chance[keep], cost[keep], ends[keep]
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        key, target = key[order], target[order].astype(np.int32)
        chance, cost = chance[order], cost[order]
        ends = ends[order]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    outcomes = _Outcomes(target, chance, cost, ends)
    return _laid_out(key[first], (size, count), np.append(first, key.size), outcomes, sense)


def _laid_out(
    keys: Ints,
    sizes: tuple[int, int],
    outcome_offsets: Ints,
    outcomes: _Outcomes,
    sense: Sense,
    step_cost: Floats | None = None,
) -> Parts:
    """Put together a table from its rows, given by their ``keys`` (state * A + action), and their outcomes."""
    target, chance, cost, ends = outcomes
    states, ids = np.divmod(keys, sizes[1])
    action_offsets = np.zeros(sizes[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(states, minlength=sizes[0]), out=action_offsets[1:])
    steps = np.zeros((0, 0)) if step_cost is None else step_cost
    return Parts(
        action_offsets, ids, outcome_offsets, _rescale(chance, outcome_offsets), target.astype(np.int32, copy=False),
        cost if sense == "cost" else 0.0 - cost,
        np.zeros(target.size, np.bool_) if ends is None else ends,
        steps if sense == "cost" else 0.0 - steps,
        sense,
    )  # fmt: skip


def _without_outcomes(pairs: Any, way_out: str) -> ModelError:
    where = ", ".join(f"(state {s}, action {a})" for s, a in list(zip(*pairs, strict=True))[:5])
    return ModelError(f"all probabilities are 0 for {where}; {way_out}")


def parts_from_arrays(
    transitions: Any,
    costs: Any,
    rewards: Any,
    *,
    order: str | None,
    costs_order: str | None,
    mask: ArrayLike | None,
    horizon: int | None,
) -> tuple[Parts, int]:
    """Read transition and cost arrays in any accepted shape (see ``TabularMDP.from_arrays``); also return A."""
    sense, values = pick(costs, rewards)
    counts, target, chance = _transitions(transitions, order)
    num_states, num_actions = counts.shape
    kind, array = _cost_array(values, num_states, num_actions, horizon, order, costs_order, sense)
    illegal = math.inf if sense == "cost" else -math.inf
    allowed = np.ones(counts.shape, dtype=np.bool_)
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
    missing = allowed & (counts == 0)
    if missing.any():
        raise _without_outcomes(np.nonzero(missing), f"mark illegal actions with {illegal} costs or a mask")
    if not allowed.any():
        raise ModelError("the table has no outcomes; some action must be allowed")
    lengths = counts.reshape(-1)
    if not allowed.all():
        kept = np.repeat(allowed.reshape(-1), lengths)
        target, chance, lengths = target[kept], chance[kept], np.where(allowed.reshape(-1), lengths, 0)
    rows = np.flatnonzero(allowed)
    lengths = lengths[rows]
    step_cost = np.ascontiguousarray(array.reshape(array.shape[0], -1)[:, rows]) if kind == "HSA" else None
    if kind == "SAS":
        cost = _cost_of_outcomes(array, num_actions, np.repeat(rows, lengths), target)
    else:
        per_row = {"S": lambda: array[rows // num_actions], "SA": lambda: array.reshape(-1)[rows]}
        cost = np.repeat(per_row[kind](), lengths) if kind in per_row else np.zeros(target.size)
    offsets = np.append(0, np.cumsum(lengths))
    sizes = num_states, num_actions
    return _laid_out(rows, sizes, offsets, _Outcomes(target, chance, cost), sense, step_cost), num_actions


def _cost_of_outcomes(array: Any, num_actions: int, rows: Ints, target: NDArray[Any]) -> Floats:
    """Cost of each outcome, from an array (S, A, S) or a list of A sparse matrices (S, S)."""
    states, actions = np.divmod(rows, num_actions)
    if not isinstance(array, list):
        return np.asarray(array[states, actions, target])
    cost = np.empty(rows.size)
    for a, matrix in enumerate(array):
        mine = actions == a
        cost[mine] = np.asarray(matrix[states[mine], target[mine]]).reshape(-1)
    return cost


def _is_sparse_list(values: Any) -> bool:
    sparse: Any = sys.modules.get("scipy.sparse")  # slow to import; who has a sparse matrix has imported it
    return isinstance(values, (list, tuple)) and sparse is not None and any(map(sparse.issparse, values))


def _matrices(values: Sequence[Any], name: str, size: int) -> list[Any]:
    """A list of square matrices in compressed rows."""
    from scipy import sparse

    for a, matrix in enumerate(values):
        if np.shape(matrix) != (size, size):
            raise ModelError(f"{name}[{a}] has shape {np.shape(matrix)}, expected {(size, size)}")
    return [sparse.csr_array(matrix, dtype=np.float64) for matrix in values]


def _transitions(transitions: Any, order: str | None) -> tuple[Ints, NDArray[Any], Floats]:
    """Non-zero entries by state, then action: their number (S, A), targets and probabilities."""
    if _is_sparse_list(transitions):
        if order not in (None, "ASS"):
            raise ModelError(f"a list of sparse matrices has order 'ASS', not {order!r}")
        return _interleaved(_matrices(transitions, "transitions", np.shape(transitions[0])[0]))
    dense = numeric(transitions, "transitions", ModelError, "a numeric array or a list of sparse matrices")
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
    if not isinstance(order, str) or order not in ("SAS", "ASS"):
        raise ModelError(f"order must be 'SAS' or 'ASS', not {order!r}")
    if order not in fits:
        raise ModelError(f"transitions has shape {dense.shape}, which does not fit order={order!r}")
    if order == "ASS":
        dense = dense.transpose(1, 0, 2)
    found = dense != 0
    return found.sum(axis=2), np.nonzero(found)[2], dense[found]


def _interleaved(matrices: list[Any]) -> tuple[Ints, NDArray[Any], Floats]:
    """The rows of A matrices (S, S) put side by side, state by state."""
    for k, matrix in enumerate(matrices):
        if not matrix.data.all():
            matrices[k] = matrix.copy()
            matrices[k].eliminate_zeros()
    counts = np.column_stack([np.diff(matrix.indptr) for matrix in matrices]).astype(np.int64)
    starts = np.append(0, np.cumsum(counts))[:-1].reshape(counts.shape)
    target, chance = np.empty(counts.sum(), np.int32), np.empty(counts.sum())
    for a, matrix in enumerate(matrices):
        place = np.repeat(starts[:, a] - matrix.indptr[:-1], counts[:, a]) + np.arange(matrix.nnz)
        target[place], chance[place] = matrix.indices, matrix.data
    return counts, target, chance


def _cost_array(
    values: Any,
    num_states: int,
    num_actions: int,
    horizon: int | None,
    order: str | None,
    costs_order: str | None,
    sense: str,
) -> tuple[str, Any]:
    """The costs with their axes: one of "S", "SA", "SAS" (also for "ASS" input, and for A sparse matrices), "HSA"."""
    name = f"{sense}s"
    if _is_sparse_list(values):
        if costs_order not in (None, "ASS") or len(values) != num_actions:
            raise ModelError(f"{name} is a list of {len(values)} matrices; expected A = {num_actions}, in order 'ASS'")
        return "SAS", _matrices(values, name, num_states)
    array = numeric(values, name, ModelError, "a numeric array")
    shapes = {
        "S": (num_states,),
        "SA": (num_states, num_actions),
        "SAS": (num_states, num_actions, num_states),
        "ASS": (num_actions, num_states, num_states),
        "HSA": (0 if horizon is None else horizon, num_states, num_actions),
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


def pick(costs: Any, rewards: Any) -> tuple[Sense, ArrayLike]:
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


def find_start(start: Any, num_states: int, names: Sequence[str]) -> int:
    """Return the index of the state ``start``, given as an index or a label."""
    if isinstance(start, np.ndarray) and start.ndim == 0:  # of Gymnasium's spaces
        start = start.item()
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
    repair = (miss > _EXACT) & (miss <= SUM_TOLERANCE)
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
    return numeric(values, name, ModelError).reshape(-1)
