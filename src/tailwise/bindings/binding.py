"""From a model to what the kernel runs on, and back to the user's states and actions."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NoReturn, Protocol

import numpy as np
from numba import config

from tailwise.bindings.options import SimulationOptions
from tailwise.errors import ModelError, SimulatorError, StateError
from tailwise.models import AccruedTable, CompiledSimulator, TabularMDP


class Binding(Protocol):
    """A model bound to the kernel. A *handle* is the integer that stands for a state in the tree.

    The driver uses two more members where a binding has them: ``first_chunk``, the iterations to begin with (for models
    whose steps may be slow), and ``running()``, a context manager around every call of the kernel.
    """

    data: Any
    """NamedTuple registered with :func:`tailwise.bindings.world.register_world`."""

    def handle(self, state: Any) -> int:
        """Return the handle of a user's state, or raise ``StateError``."""
        ...

    def state(self, handle: int) -> Any:
        """Return the user's state of a handle."""
        ...

    def actions(self, handle: int) -> list[Any]:
        """Return the user's actions in a state, in the kernel's order."""
        ...

    def action_name(self, action: Any) -> str:
        """Return the name to show for an action."""
        ...

    def state_name(self, state: Any) -> str:
        """Return the name to show for a state."""
        ...

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise the error behind a failed iteration; position -1: no action was involved."""
        ...

    def make_room(self) -> bool:
        """Enlarge whatever the model's own storage ran out of; False if nothing did."""
        ...

    def retain(self, handles: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """Forget all states but these; return their new handles, or None if handles never change."""
        ...


class TableBinding:
    """A table: handles are state indices."""

    def __init__(self, mdp: TabularMDP) -> None:
        mdp.require_sound()
        self.mdp = mdp
        self.data = mdp.data

    def handle(self, state: Any) -> int:
        """Return the state's index."""
        return self.mdp.find_state(state)

    def state(self, handle: int) -> int:
        """Return the state's index."""
        return int(handle)

    def actions(self, handle: int) -> list[Any]:
        """Return the ids of the actions allowed in a state."""
        return [int(action) for action in self.mdp.actions(handle)]

    def action_name(self, action: Any) -> str:
        """Return the action's label or id."""
        return self.mdp.action_name(action)

    def state_name(self, state: Any) -> str:
        """Return the state's label or index."""
        return self.mdp.state_name(state)

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise: a checked table fails only where a state has no action."""
        raise SimulatorError(f"no action is allowed in state {self.mdp.state_name(handle)}, reached at step {step}")

    def make_room(self) -> bool:
        """Tables never run out of room."""
        return False

    def retain(self, handles: np.ndarray[Any, Any]) -> None:
        """Table handles never change."""


@singledispatch
def bind(model: Any, rng: np.random.Generator, options: SimulationOptions) -> Binding:
    """Bind ``model`` to the kernel; ``rng`` is the search's own stream, shared with simulators.

    A model class with a binding of its own registers it: ``bind.register``, as :func:`functools.singledispatch` has it.

    Raises
    ------
    ModelError
        If ``model`` is neither a table nor a simulator: names every method that is missing or wrong.
    """
    evaluates = options.widening or options.rollout_policy or options.leaf_value  # asks for a simulator
    if isinstance(model, TabularMDP) and not evaluates:
        return TableBinding(model)
    if isinstance(model, AccruedTable):
        from tailwise.bindings.accrued import AccruedBinding

        return AccruedBinding(model)
    if isinstance(model, CompiledSimulator) and not config.DISABLE_JIT:
        from tailwise.bindings.compiled import CompiledBinding

        try:
            return CompiledBinding(model, rng, options)
        except ModelError:
            if not model.fallback:
                raise
    from tailwise.bindings.python import SimulatorBinding

    return SimulatorBinding(model, rng, options)


def position_of(binding: Binding, handle: int, action: Any) -> int:
    """Return the kernel's position of a user's action, or raise ``StateError``."""
    allowed = binding.actions(handle)
    for position, candidate in enumerate(allowed):
        is_array = isinstance(candidate, np.ndarray)
        same = np.array_equal(candidate, action) if is_array else bool(candidate == action)
        if same or (isinstance(action, str) and binding.action_name(candidate) == action):
            return position
    names = ", ".join(map(binding.action_name, allowed))
    raise StateError(
        f"action {action!r} is not allowed in state {binding.state_name(binding.state(handle))}; allowed: {names}"
    )
