"""The states of a Python simulator that a search has met: handles are their positions in a list."""

from __future__ import annotations

import copy
from typing import Any, Self

from tailwise.bindings.binding import BudgetSpentError
from tailwise.bindings.portable import require_portable
from tailwise.bindings.sizes import RunningSize

_RECORD = 200  # bytes of a state in the lists and the index


class KnownStates:
    """States by handle, with what is looked up often.

    Attributes
    ----------
    states : list of object
        Each as the simulator gave it first.
    hashes : list of int
        Theirs, by which a state that was changed in place is found out.
    actions : list
        The actions allowed in each; None where nobody has asked yet.
    index : dict of object to int
        The handle of each state.
    """

    def __init__(self) -> None:
        self.states: list[Any] = []
        self.hashes: list[int] = []
        self.actions: list[list[Any] | None] = []
        self.index: dict[Any, int] = {}
        self._size = RunningSize()
        self._portable = 0  # so many of the states are known to fit into a file

    @property
    def num_bytes(self) -> int:
        """Memory that they take, estimated."""
        return int(self._size.total) + _RECORD * len(self.states)

    def add(self, state: Any, budget: float) -> int:
        """Return the handle of a new state.

        Raises
        ------
        BudgetSpentError
            If all known states would then take more than ``budget`` bytes; nothing has changed but estimates of sizes.
        """
        before = self._size.total
        self._size.add(state)
        if self.num_bytes > budget:
            self._size.total = before
            raise BudgetSpentError
        handle = self.index[state] = len(self.states)
        self.states.append(state)
        self.hashes.append(hash(state))
        self.actions.append(None)
        return handle

    def retain(self, kept: list[int]) -> None:
        """Forget all states but those with the handles ``kept``, whose positions there are their new handles."""
        self.states = [self.states[handle] for handle in kept]
        self.hashes = [self.hashes[handle] for handle in kept]
        self.actions = [self.actions[handle] for handle in kept]
        self.index = {state: handle for handle, state in enumerate(self.states)}
        self._portable = 0
        self._size = RunningSize()
        for state in self.states:
            self._size.add(state)

    def copy(self) -> Self:
        """Return an independent copy; the states themselves are shared."""
        other = copy.copy(self)
        other.states, other.hashes, other.actions = list(self.states), list(self.hashes), list(self.actions)
        other.index, other._size = dict(self.index), copy.copy(self._size)
        return other

    def memory(self, model: Any) -> dict[str, Any]:
        """Return what a file keeps of the states of a model.

        Raises
        ------
        SimulatorError
            If a file cannot hold one of them; names it.
        """
        require_portable(self.states, self._portable, model)
        self._portable = len(self.states)
        return {"states": self.states, "size": vars(self._size)}

    def recall(self, memory: dict[str, Any]) -> None:
        """Know the states of a file: what :meth:`memory` returned."""
        self.states = memory["states"]
        self.hashes = [hash(state) for state in self.states]
        self.actions = [None] * len(self.states)
        self.index = {state: handle for handle, state in enumerate(self.states)}
        self._size = RunningSize()
        vars(self._size).update(memory["size"])
        self._portable = len(self.states)
