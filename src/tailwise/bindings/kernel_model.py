"""What the compiled search asks of a model: four functions, chosen by the type of its data.

A model reaches the kernel as a NamedTuple. Inside the tree a state is one integer: a table's state
index, or a simulator's handle of an interned state. Each kind of model registers

    count_actions(model, state) -> n                 (0 or less: error)
    take_step(model, state, action, h, stream) -> (next_state, cost, status)
    end_cost(model, state) -> cost                   (charged when step H is reached)
    roll_out(model, state, h, horizon, discount, stream) -> (cost_to_go, steps, status)

and, where it takes a ``rollout_policy``, policy_action(model, state, h) -> (action, status); where it takes
``bounds``, value_bounds(model, state, h) -> (low, high, status).
``action`` is the position 0..n-1 among the state's actions; costs are costs (never rewards);
``status`` is GO_ON, DONE, or an error below 0. The kernel is written once; numba compiles it
once per kind, and caches both on disk. Uncompiled, the same functions dispatch on the type. What a search asks of a
bound model beside is :class:`ModelInterface`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import ChosenByKind, Kernel, inlined
from tailwise._random import next_double
from tailwise._values import is_same
from tailwise.errors import StateError

GO_ON, DONE, FAILED, FULL = 0, 1, -1, -2


@ChosenByKind
def count_actions(model, state):  # type: ignore[no-untyped-def]
    """Number of actions in ``state``."""
    raise NotImplementedError


@ChosenByKind
def take_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    """Draw the outcome of an action."""
    raise NotImplementedError


@ChosenByKind
def end_cost(model, state):  # type: ignore[no-untyped-def]
    """Terminal cost of ``state``."""
    raise NotImplementedError


@ChosenByKind
def roll_out(model, state, h, horizon, discount, stream):  # type: ignore[no-untyped-def]
    """Cost-to-go of a default policy, followed from step ``h`` to the horizon."""
    raise NotImplementedError


@ChosenByKind
def policy_action(model, state, h):  # type: ignore[no-untyped-def]
    """Action that the user's ``rollout_policy`` takes, of models that can ask it."""
    return np.int64(0), np.int64(FAILED)


@ChosenByKind
def value_bounds(model, state, h):  # type: ignore[no-untyped-def]
    """Bounds of the least risk-to-go that the user's ``bounds`` says, of models that can ask it, and a status."""
    return -math.inf, math.inf, np.int64(FAILED)


def register_kernel_model(kind: type, counts: Kernel, steps: Kernel, ends: Kernel, rolls: Kernel) -> None:
    """Make models whose data is a ``kind`` (a NamedTuple class) known to the search."""
    for function, body in ((count_actions, counts), (take_step, steps), (end_cost, ends), (roll_out, rolls)):
        function.register(kind, body)


@inlined
def draw_index(stream, size):  # type: ignore[no-untyped-def]
    """Uniform draw from 0..size-1; draws nothing when there is no choice."""
    if size == 1:
        return 0
    return int(next_double(stream) * size)


_NOTHING: AbstractContextManager[None] = nullcontext()


class BudgetSpentError(Exception):
    """Raised inside the library where states or outcomes would take more memory than the search may use."""


class ModelInterface:
    """A model bound to the kernel. A *handle* is the integer that stands for a state in the tree.

    Attributes
    ----------
    data : NamedTuple
        What the kernel reads, of a class registered with :func:`tailwise.bindings.kernel_model.register_kernel_model`.
    first_chunk : int
        Iterations to begin with: few for models whose steps may be slow.
    draws : bool
        Whether the model draws from the generator that it was bound with.
    budget : float
        Bytes that states and outcomes may take; the search keeps it up to date.
    forgets : bool
        Whether :meth:`retain` has anything to do.
    is_parallel : bool
        Whether searches of the model can run side by side in threads: it runs no Python code.
    weighs : bool
        Whether steps charge likelihood ratios beside their costs (:mod:`tailwise.bindings.options`).
    """

    data: Any
    first_chunk = 64
    draws = False
    budget = math.inf
    forgets = False
    is_parallel = True
    weighs = False

    def handle(self, state: Any) -> int:
        """Return the handle of a user's state, or raise ``StateError``."""
        raise NotImplementedError

    def state(self, handle: int) -> Hashable:
        """Return the user's state of a handle."""
        raise NotImplementedError

    def actions(self, handle: int) -> list[object]:
        """Return the user's actions in a state, in the kernel's order."""
        raise NotImplementedError

    def action_name(self, action: Any, handle: int) -> str:
        """Return the name to show for an action in a state."""
        raise NotImplementedError

    def state_name(self, state: Any) -> str:
        """Return the name to show for a state."""
        raise NotImplementedError

    def fail(self, handle: int, position: int, step: int) -> NoReturn:
        """Raise the error behind a failed iteration; position -1: no action was involved."""
        raise NotImplementedError

    def try_out(self, handle: int, step: int) -> None:
        """Run the user's functions once from here, and keep nothing of it: asked before kernels are compiled."""

    def running(self) -> AbstractContextManager[None]:
        """Return a context manager to hold around every call of the kernel."""
        return _NOTHING

    def make_room(self) -> bool:
        """Enlarge whatever the model's own storage ran out of; False if nothing did.

        Raises
        ------
        BudgetSpentError
            If that would take more than ``budget``.
        """
        return False

    def _spend(self, more: int) -> None:
        """Raise unless ``more`` bytes are within the budget."""
        if self.num_bytes + more > self.budget:
            raise BudgetSpentError

    def retain(self, handles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget all states but these; return their new handles. What was known before is replaced, not changed."""
        return handles

    def state_dict(self) -> dict[str, object]:
        """Return what the search's handles mean: plain values for :mod:`tailwise._values`, and copies of arrays."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Know what another interface of the same model knew, with its handles: what :meth:`state_dict` returned."""

    def require_portable(self) -> None:
        """Raise ``SimulatorError`` if a file cannot hold one of the states."""

    @property
    def num_bytes(self) -> int:
        """Memory that grows with the search: of states and of outcomes."""
        return 0


def position_of(binding: ModelInterface, handle: int, action: Any) -> int:
    """Return the kernel's position of a user's action, or raise ``StateError``."""
    allowed = binding.actions(handle)
    for position, candidate in enumerate(allowed):
        is_label = isinstance(action, str)
        if is_same(candidate, action) or (is_label and binding.action_name(candidate, handle) == action):
            return position
    names = ", ".join(binding.action_name(candidate, handle) for candidate in allowed)
    raise StateError(
        f"action {action!r} is not allowed in state {binding.state_name(binding.state(handle))}; allowed: {names}"
    )
