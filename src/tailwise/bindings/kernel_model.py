"""What the compiled search asks of a model: four functions, chosen by the type of its data.

A model reaches the kernel as a NamedTuple. Inside the tree a state is one integer: a table's state
index, or a simulator's handle of an interned state. Each kind of model registers

    count_actions(model, state) -> n                 (0 or less: error)
    take_step(model, state, action, h, stream) -> (next_state, cost, status)
    end_cost(model, state) -> cost                   (charged when step H is reached)
    roll_out(model, state, h, horizon, discount, stream) -> (cost_to_go, steps, status)

``action`` is the position 0..n-1 among the state's actions; costs are costs (never rewards);
``status`` is GO_ON, DONE, or an error below 0. The kernel is written once; numba compiles it
once per kind, and caches both on disk. Uncompiled, the same functions dispatch on the type.
"""

from __future__ import annotations

from tailwise._jit import ChosenByKind, Kernel, inlined
from tailwise._random import next_double

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
