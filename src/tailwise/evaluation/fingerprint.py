"""Which model a sample was played in: what tells two samples that must not be compared.

Two samples are pairs only if their random numbers *and* their models were the same; see
:mod:`tailwise.models.fingerprint` for what tells two models.
"""

from __future__ import annotations

from typing import Any

from tailwise._random import Seed, seed_sequence
from tailwise.evaluation.streams import run_key
from tailwise.models.fingerprint import fingerprint


def world_name(seed: Seed, model: Any) -> tuple[int, ...]:
    """Return what identifies the random numbers of a seed and the model that they were used in: three ints."""
    return (*(int(word) for word in run_key(seed_sequence(seed))), int.from_bytes(fingerprint(model, 8), "big"))
