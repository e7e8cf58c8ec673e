"""States that the kernel keeps as words: what accrued costs and compiled simulators share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.bindings.interface import ModelInterface
from tailwise.bindings.intern import (
    InternStore,
    grown,
    intern_rows,
    recalled_store,
    retained,
    store_memory,
)


class WordStates(ModelInterface):
    """A model whose handles are rows of ``data.store``."""

    forgets = True

    def _replace_store(self, store: InternStore) -> None:
        self.data = self.data._replace(store=store)

    def _handle_of(self, words: list[int]) -> int:
        if int(self.data.store.used[0]) == self.data.store.words.shape[0]:
            self.make_room()
        return int(intern_rows(self.data.store, np.array([words], dtype=np.int64))[0])

    def make_room(self) -> bool:
        """Double the store if it is full, and enlarge what else ran out."""
        has_more, store = super().make_room(), self.data.store
        if int(store.used[0]) < store.words.shape[0]:
            return has_more
        self._spend(store.num_bytes)  # it doubles
        self._replace_store(grown(store))
        return True

    def retain(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget all states but these; return their new handles."""
        store, fresh = retained(self.data.store, handles)
        self._replace_store(store)
        return fresh

    def state_dict(self) -> dict[str, object]:
        """Return the states met so far, and what else is remembered."""
        return {**super().state_dict(), "store": store_memory(self.data.store)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know what another interface knew."""
        super().load_state_dict(state)
        self._replace_store(recalled_store(state["store"]))
