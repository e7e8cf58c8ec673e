"""What the risk-to-go of any state can be at most and at least: where the bounds of trials begin.

An ERM lies between the least and the greatest total that can occur, at every beta. With ``[l, g]`` the
range of a step's cost among outcomes that go on and ``[l', g']`` among those that end the episode,

    low[H] = least terminal cost,    low[h] = min(l', l + discount low[h + 1])

and the same with greatest and max.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise._validate import real
from tailwise.errors import OptionError
from tailwise.models import TabularMDP
from tailwise.models.simulator import model_name, own_method, short
from tailwise.planners.bounded_kernels import OutcomeTable
from tailwise.planners.bounded_outcomes import Listing, SimulatorListing, TableListing

Floats = NDArray[np.float64]
Range: TypeAlias = tuple[float, float]
Bounds: TypeAlias = Range | Callable[[Any, int], Range]

_ANY: Range = (-math.inf, math.inf)


class Start(NamedTuple):
    """Bounds of the risk-to-go of any state, by step."""

    low: Floats  # (H + 1,), or (0,) where they are asked for, or not known yet
    high: Floats
    scale: float  # the largest cost of a step


def starting_point(model: Any, bounds: Bounds | None, terminal_bounds: Range | None) -> tuple[Listing, Start]:
    """Return the listing of a model and the bounds to begin with; see :class:`tailwise.BoundedRtdp`."""
    horizon, discount = model.horizon, model.discount
    asked = Start(np.empty(0), np.empty(0), 0.0)
    if isinstance(model, TabularMDP):
        if bounds is not None and not callable(bounds):
            raise OptionError("the costs of a table are known: leave bounds out, or give a function of (state, h)")
        table = TableListing(model)
        return table, asked if bounds is not None else ranges_of(table.table, horizon, discount)
    if bounds is None or callable(bounds):
        return SimulatorListing(model, _ANY, _ANY), asked
    step = cost_range(bounds, "bounds", model.sense)
    terminal = 0.0, 0.0
    if own_method(model, "terminal_cost") is not None:
        if terminal_bounds is None:
            raise OptionError(f"{model_name(model)} has terminal costs: give terminal_bounds=(least, greatest) too")
        terminal = cost_range(terminal_bounds, "terminal_bounds", model.sense)
    return SimulatorListing(model, step, terminal), ranges_from(step, terminal, horizon, discount)


def cost_range(given: Any, name: str, sense: str) -> Range:
    """Return a pair (low, high) in the model's sense as a range of costs, or raise ``OptionError``."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise OptionError(f"{name} is {short(given)}; expected a pair (low, high)")
    low, high = real(given[0], f"{name}[0]"), real(given[1], f"{name}[1]")
    if low > high:
        raise OptionError(f"{name} is ({low:g}, {high:g}); the first must not exceed the second")
    return (low, high) if sense == "cost" else (0.0 - high, 0.0 - low)


def ranges_of(table: OutcomeTable, horizon: int, discount: float) -> Start:
    """Bounds from all outcomes of a table."""
    terminal = float(table.terminal_losses.min()), float(table.terminal_losses.max())
    if not table.step_losses.size:
        ranges = [_step_ranges(table, 0)] * horizon
    else:
        ranges = [_step_ranges(table, h) for h in range(horizon)]
    return _to_go([found[:2] for found in ranges], [found[2:] for found in ranges], terminal, discount)


@kernel
def _step_ranges(table, h):  # type: ignore[no-untyped-def]
    """Range of the cost at step ``h`` of outcomes that go on, and of those that end the episode."""
    least, greatest, least_end, greatest_end = math.inf, -math.inf, math.inf, -math.inf
    for row in range(table.offsets.size - 1):
        added = table.step_losses[h, row] if table.step_losses.size else 0.0
        for k in range(table.offsets[row], table.offsets[row + 1]):
            cost = table.losses[k] + added
            if table.done[k]:
                least_end, greatest_end = min(least_end, cost), max(greatest_end, cost)
            else:
                least, greatest = min(least, cost), max(greatest, cost)
    return least, greatest, least_end, greatest_end


def ranges_from(step: Range, terminal: Range, horizon: int, discount: float) -> Start:
    """Bounds from the range of a step's cost; any outcome may end the episode."""
    return _to_go([step] * horizon, [step] * horizon, terminal, discount)


def _to_go(going: list[Range], ending: list[Range], terminal: Range, discount: float) -> Start:
    low, high = np.empty(len(going) + 1), np.empty(len(going) + 1)
    low[-1], high[-1] = terminal
    for h in range(len(going) - 1, -1, -1):
        low[h] = min(ending[h][0], going[h][0] + discount * low[h + 1])
        high[h] = max(ending[h][1], going[h][1] + discount * high[h + 1])
    margin = 4.0 * np.finfo(np.float64).eps * len(going) * np.maximum(np.abs(low), np.abs(high)).max()
    scale = max(abs(cost) for pair in (*going, *ending) for cost in pair if math.isfinite(cost))
    return Start(low - margin, high + margin, scale)
