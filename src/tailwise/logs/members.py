"""What a file keeps of a learned table beside the table: counts, prior and the steps of the log."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tailwise.formats.kinds.npz import write_npz
from tailwise.logs.priors import TablePrior

ARRAYS = ("counts", "pseudo", "tried", "pool", "pool_counts", "pool_states", "within", "guessed", "weights")
STEPS = ("first", "states", "actions", "next_states", "losses", "done")
_WORDS = ("sense", "num_states", "num_actions", "state_labels", "action_labels", "source", "notes")
LEARNED = "learned_"


def learned_members(table: Any) -> dict[str, object]:
    """Return what a file keeps of a learned table beside the table."""
    found, log = table.evidence, table.evidence.episodes
    prior: Any = table.evidence.prior
    members = {name: getattr(found, name) for name in ARRAYS} | {name: getattr(log, name) for name in STEPS}
    said = {part.name: getattr(prior, part.name) for part in fields(prior) if part.name != "table"}
    words = {"prior": {"kind": type(prior).__name__, **said}, "log": {name: getattr(log, name) for name in _WORDS}}
    members["words"] = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)
    if isinstance(prior, TablePrior):
        with TemporaryDirectory(prefix="tailwise-") as folder:
            write_npz(prior.table, Path(folder) / "prior.npz")
            members["prior"] = np.frombuffer((Path(folder) / "prior.npz").read_bytes(), dtype=np.uint8)
    return {LEARNED + name: np.ascontiguousarray(array) for name, array in members.items()}
