"""The states of a Python simulator that a search has met: handles are their positions in a list."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any, Self

from tailwise.bindings.interface import BudgetSpentError
from tailwise.bindings.portable import require_portable
from tailwise.bindings.sizes import RunningSize

_RECORD = 200  # bytes of a state in the lists and the index


class KnownStates:
    """States by handle, with what is looked up often. It grows; to forget is to make another, so that old views last.

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
        self.states: list[Hashable] = []
        self.hashes: list[int] = []
        self.actions: list[list[object] | None] = []
        self.index: dict[Hashable, int] = {}
        self._size = RunningSize()
        self._portable = 0  # so many of the states are known to fit into a file

    @property
    def num_bytes(self) -> int:
        """Memory that they take, estimated."""
        return int(self._size.total) + _RECORD * len(self.states)

    def add(self, state: Hashable, budget: float) -> int:
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

    def retained(self, kept: list[int]) -> KnownStates:
        """Return the states with the handles ``kept`` alone, whose positions there are their new handles."""
        return KnownStates._of(
            [self.states[handle] for handle in kept],
            [self.hashes[handle] for handle in kept],
            [self.actions[handle] for handle in kept],
        )

    def copy(self) -> Self:
        """Return an independent copy; the states themselves are shared."""
        other = copy.copy(self)
        other.states, other.hashes, other.actions = list(self.states), list(self.hashes), list(self.actions)
        other.index, other._size = dict(self.index), copy.copy(self._size)
        return other

    def require_portable(self, model: Any) -> None:
        """Raise ``SimulatorError`` if a file cannot hold one of the states of a model; names it."""
        require_portable(self.states, self._portable, model)
        self._portable = len(self.states)

    def state_dict(self) -> dict[str, object]:
        """Return all that makes them: the states themselves are shared."""
        return {"states": list(self.states), "size": dict(vars(self._size))}

    @classmethod
    def loaded(cls, state: dict[str, Any]) -> KnownStates:
        """Return the states that :meth:`state_dict` described."""
        states = state["states"]
        return cls._of(states, [hash(one) for one in states], [None] * len(states), state["size"])

    @classmethod
    def _of(
        cls,
        states: list[Hashable],
        hashes: list[int],
        actions: list[list[object] | None],
        size: dict[str, Any] | None = None,
    ) -> KnownStates:
        known = cls()
        known.states, known.hashes, known.actions = states, hashes, actions
        known.index = {state: handle for handle, state in enumerate(states)}
        if size is not None:
            vars(known._size).update(size)
        else:
            for state in states:
                known._size.add(state)
        return known
