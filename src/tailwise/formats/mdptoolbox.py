"""MDP toolbox arrays: ``P`` and ``R`` as the MDP toolboxes for MATLAB, R and Python take them.

``P`` has one S x S matrix per action, dense or sparse. ``R`` holds rewards in one of three shapes: (S,),
(S, A), or one S x S matrix per action. No library is needed to read them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailwise.errors import ModelError
from tailwise.models import TabularMDP


def from_mdptoolbox(
    transitions: Any, rewards: Any, *, horizon: int, name: str = "mdptoolbox", **options: Any
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
    name : str
        Name of the problem, for display.
    **options
        ``discount``, ``start``, ``state_labels`` and ``action_labels`` of :meth:`tailwise.TabularMDP.from_arrays`.

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
    from scipy import sparse

    def given(values: Any, what: str) -> Any:
        if sparse.issparse(values):
            if what == "transitions":
                raise ModelError("transitions is one sparse matrix; expected one (S, S) matrix per action")
            return values.toarray()  # rewards (S, A)
        if isinstance(values, np.ndarray) and values.dtype.kind != "O":
            return values
        try:
            listed = list(values)
            return listed if any(map(sparse.issparse, listed)) else np.asarray(listed, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{what} must hold one numeric (S, S) matrix per action: {error}") from None

    chances, earned = given(transitions, "transitions"), given(rewards, "rewards")
    kind = "ASS" if isinstance(earned, list) else {1: "S", 2: "SA", 3: "ASS"}.get(earned.ndim)
    return TabularMDP.from_arrays(
        chances, rewards=earned, order="ASS", costs_order=kind, horizon=horizon, name=name, **options
    )
