"""From a table to the columns of a transition list: what writing CSV and Arrow files shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError
from tailwise.models import TabularMDP


def check_listable(mdp: TabularMDP, path: Path) -> None:
    """Raise ``FormatError`` if a transition list cannot hold the table."""
    if mdp.step_losses.size:
        raise FormatError(
            f"{path}: the table has {mdp.sense}s that depend on the step, which a transition list cannot "
            "hold; save it as .npz"
        )
    if mdp.num_states > 4 * mdp.num_outcomes:
        raise FormatError(
            f"{path}: {mdp.num_states} states with only {mdp.num_outcomes} outcomes; a transition list names "
            "states by their transitions: save it as .npz"
        )


def rows_of(mdp: TabularMDP) -> dict[str, NDArray[Any]]:
    """Return the outcomes as columns, by name, ids from 0; ``done`` only where some outcome needs it."""
    per_row = np.diff(mdp.outcome_offsets)
    columns: dict[str, NDArray[Any]] = {
        "idstatefrom": np.repeat(mdp.row_states, per_row),
        "idaction": np.repeat(mdp.action_ids, per_row),
        "idstateto": mdp.next_states.astype(np.int64),
        "probability": mdp.probabilities,
        mdp.sense: mdp.signed(mdp.losses),
    }
    without_actions = np.diff(mdp.action_offsets) == 0
    if mdp.done.any() or without_actions[mdp.next_states].any():
        columns["done"] = mdp.done
    return columns
