"""The columns of a transition list, as they stand in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError
from tailwise.models.contract import Sense

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Columns:
    """A transition list as it stands in a file: n entries, ids in the file's own base."""

    origins: Ints  # (n,)
    actions: Ints  # (n,)
    targets: Ints  # (n,)
    alternatives: Ints | None  # (n,) the column idoutcome
    probabilities: Floats  # (n,)
    values: Floats  # (n,) costs or rewards, as ``sense`` says
    done: Bools | None  # (n,)
    sense: Sense
    source: str  # the file, for messages
    place: Callable[[int], str]  # "file, line" of an entry, for messages

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(self.origins.size)

    def fail(self, entry: int, problem: str) -> NoReturn:
        """Raise ``FormatError`` about one entry."""
        raise FormatError(f"{self.place(entry)}: {problem}")
