"""MDP toolbox arrays: ``P`` and ``R`` as the MDP toolboxes for MATLAB, R and Python take them.

``P`` has one S x S matrix per action, dense or sparse. ``R`` holds rewards in one of three shapes: (S,),
(S, A), or one S x S matrix per action. No library is needed to read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import ModelError
from tailwise.models import TabularMDP

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def from_mdptoolbox(
    transitions: Any,
    rewards: Any,
    *,
    horizon: int,
    discount: float = 1.0,
    start: int | str = 0,
    state_labels: Sequence[str] = (),
    action_labels: Sequence[str] = (),
    name: str = "mdptoolbox",
) -> TabularMDP:
    """Build a table from the arrays of an MDP toolbox.

    Parameters
    ----------
    transitions : array_like of float, shape (A, S, S), or sequence of A matrices (S, S)
        Probabilities ``P[a][s, t]``; each matrix may be a NumPy array or a scipy sparse matrix.
    rewards : array_like of float, shape (S,), (S, A) or (A, S, S), or sequence of A matrices (S, S)
        ``R[s]``, ``R[s, a]`` or ``R[a][s, t]``. The number of dimensions decides, as in the toolboxes.
    horizon : int
        Number of decisions, at least 1.
    discount : float in (0, 1], default 1.0
        Factor per step.
    start : int or str, default 0
        Initial state: an index, or a label.
    state_labels, action_labels : sequence of str
        Names.
    name : str
        Name of the problem, for display.

    Returns
    -------
    TabularMDP
        With ``sense="reward"``. Sparse matrices stay sparse: O(entries) memory.

    Raises
    ------
    ModelError
        If shapes do not fit, or the probabilities of a state and action do not sum to 1.

    Examples
    --------
    >>> from tailwise.formats import from_mdptoolbox
    >>> transitions = [[[0.5, 0.5], [0.8, 0.2]], [[0.0, 1.0], [0.1, 0.9]]]
    >>> mdp = from_mdptoolbox(transitions, [[5.0, 10.0], [-1.0, 2.0]], horizon=3, discount=0.9)
    >>> mdp.num_states, mdp.num_actions, mdp.outcomes(0, 1)
    (2, 2, [Outcome(probability=1.0, next_state=1, cost=10.0, done=False)])
    """
    matrices = _matrices(transitions, "transitions")
    size = matrices[0].shape[0]
    for action, matrix in enumerate(matrices):
        if matrix.shape != (size, size):
            raise ModelError(f"transitions[{action}] has shape {matrix.shape}, expected ({size}, {size})")
    look_up = _Rewards(rewards, size, len(matrices))
    columns: list[tuple[Ints, Ints, Ints, Floats, Floats]] = []
    for action, matrix in enumerate(matrices):
        origins, targets, chances = _entries(matrix)
        missing = np.flatnonzero(np.bincount(origins, minlength=size) == 0)
        if missing.size:
            raise ModelError(f"all probabilities are 0 for state {missing[0]}, action {action}; rows must sum to 1")
        actions = np.full(origins.size, action, dtype=np.int64)
        columns.append((origins, actions, targets, chances, look_up(action, origins, targets)))
    origins, actions, targets, chances, values = (np.concatenate(column) for column in zip(*columns, strict=True))
    return TabularMDP.from_outcomes(
        origins, actions, targets, chances, rewards=values, num_states=size, horizon=horizon,
        discount=discount, start=start, state_labels=state_labels, action_labels=action_labels, name=name,
    )  # fmt: skip


def _matrices(values: Any, name: str) -> list[Any]:
    """Return the matrices of all actions: float arrays, or sparse matrices in CSR form."""
    from scipy import sparse

    try:
        if sparse.issparse(values):
            raise ModelError(f"{name} is one sparse matrix; expected one (S, S) matrix per action")
        matrices = [sparse.csr_array(m) if sparse.issparse(m) else np.asarray(m, dtype=np.float64) for m in values]
    except (TypeError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{name} must hold one numeric (S, S) matrix per action: {error}") from None
    if not matrices or any(matrix.ndim != 2 for matrix in matrices):
        raise ModelError(f"{name} must hold one (S, S) matrix per action, at least one")
    return matrices


def _entries(matrix: Any) -> tuple[Ints, Ints, Floats]:
    """Row, column and value of the entries that are not 0."""
    from scipy import sparse

    if sparse.issparse(matrix):
        entry = matrix.tocoo()
        entry.sum_duplicates()
        rows, columns = entry.coords
        kept = entry.data != 0
        return (
            rows[kept].astype(np.int64),
            columns[kept].astype(np.int64),
            entry.data[kept].astype(np.float64),
        )
    rows, columns = np.nonzero(matrix)
    return rows.astype(np.int64), columns.astype(np.int64), matrix[rows, columns]


class _Rewards:
    """Rewards by (action, states, next states), whatever shape they were given in."""

    def __init__(self, values: Any, size: int, num_actions: int) -> None:
        from scipy import sparse

        self._per_state: Floats | None = None
        self._per_action: list[Any] = []
        plain = None
        if sparse.issparse(values):
            plain = values.toarray()  # (S, A)
        elif not (isinstance(values, (list, tuple)) and any(map(sparse.issparse, values))):
            try:
                plain = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):  # an object array of sparse matrices, or ragged: try one by one
                plain = None
        if plain is not None and plain.ndim < 3:
            shapes = {1: (size,), 2: (size, num_actions)}
            if plain.shape != shapes.get(plain.ndim):
                raise ModelError(
                    f"rewards has shape {plain.shape}; expected (S,) = ({size},), (S, A) = ({size}, "
                    f"{num_actions}) or (A, S, S) = ({num_actions}, {size}, {size})"
                )
            self._per_state = plain if plain.ndim == 2 else np.repeat(plain[:, None], num_actions, axis=1)
            return
        self._per_action = _matrices(values, "rewards")
        shapes_found = [matrix.shape for matrix in self._per_action]
        if shapes_found != [(size, size)] * num_actions:
            raise ModelError(
                f"rewards holds {len(shapes_found)} matrices, the first of shape {shapes_found[0]}; expected "
                f"{num_actions} of shape ({size}, {size})"
            )

    def __call__(self, action: int, origins: Ints, targets: Ints) -> Floats:
        if self._per_state is not None:
            chosen: Floats = self._per_state[origins, action]
            return chosen
        found = self._per_action[action][origins, targets]
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64).reshape(-1)
