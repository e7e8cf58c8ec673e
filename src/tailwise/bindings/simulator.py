"""What Python and compiled simulators share once bound to the kernel: memory, names, widened outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.bindings import callback_model as shared
from tailwise.bindings import widening
from tailwise.bindings.callback_model import CallbackModel
from tailwise.bindings.interface import ModelInterface
from tailwise.bindings.intern import InternStore, recalled_store, store_memory
from tailwise.bindings.options import SimulationOptions
from tailwise.models.simulator import state_label


class SimulatorInterface(ModelInterface):
    """A simulator whose states are kept as integer handles; the functions that the kernel calls come from a subclass.

    Parameters
    ----------
    model : simulator
        The model.
    rng : Generator
        The search's own stream: the model draws from it too, so it must live as long as the interface.
    options : SimulationOptions
        Widening, rollout policy and leaf value.
    width : int
        Words of a state that the kernel interns; 0 where the interface interns for itself.
    """

    draws = True
    forgets = True

    def __init__(self, model: Any, rng: np.random.Generator, options: SimulationOptions, width: int) -> None:
        self.model = model
        self._rng = rng
        self._options = options
        self._integers = np.zeros(shared.INTEGERS_SIZE, np.int64)
        self._integers[shared.HORIZON] = int(model.horizon)
        self._numbers = np.zeros(shared.NUMBERS_SIZE)
        self._numbers[shared.DISCOUNT] = float(model.discount)
        self._scratch = np.zeros(width, np.int64)

    def _connect(self, functions: list[Any], store: InternStore) -> None:
        """Make what the kernel reads, from what it calls to count actions, to step and to roll out."""
        count, step, roll = functions
        self.data = CallbackModel(
            count,
            step,
            roll,
            self._integers.ctypes.data,
            self._integers,
            self._numbers,
            self._scratch,
            store,
            widening.new_widened(self._options.widening, int(self.model.horizon)),
        )

    def state_name(self, state: Any) -> str:
        """Return the simulator's own name for a state, or its text."""
        return state_label(self.model, state)

    def make_room(self) -> bool:
        """Enlarge the memory of outcomes, if it is what ran out; the iteration will be done again."""
        widening.undo(self.data.widened)
        larger = widening.enlarged(self.data.widened)
        if larger is not None:
            self._spend(larger.num_bytes - self.data.widened.num_bytes)
            self.data = self.data._replace(widened=larger)
        return larger is not None

    @property
    def num_bytes(self) -> int:
        """Memory of states and outcomes."""
        return int(self.data.widened.num_bytes + self.data.store.num_bytes)

    def _forget_outcomes(self, kept: NDArray[np.int64], fresh: NDArray[np.int64]) -> None:
        """Keep the outcomes whose states are all among the handles ``kept``, now called ``fresh``."""
        self.data = self.data._replace(widened=widening.pruned(self.data.widened, kept, fresh))

    def state_dict(self) -> dict[str, object]:
        """Return the outcomes remembered."""
        widened = self.data.widened
        own = {name: array.copy() for name, array in widened._asdict().items() if name not in ("limits", "pairs")}
        return {"pairs": store_memory(widened.pairs), "widened": own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember the outcomes that another binding remembered."""
        own = {"pairs": recalled_store(state["pairs"]), **state["widened"]}
        self.data = self.data._replace(widened=self.data.widened._replace(**own))
