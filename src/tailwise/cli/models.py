"""From what was given to a model, a state of it, and a planner."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailwise.errors import ModelError

if TYPE_CHECKING:
    from tailwise.cli.options import Model
    from tailwise.models import Simulator, TabularMDP
    from tailwise.models.contract import State
    from tailwise.planners.protocol import FullPlanner
    from tailwise.risk.objectives import Objective


def load_solvable(given: Model, beta: float | None = None, loaded: Any = None) -> TabularMDP | Simulator:
    """Load a model for an exact method, if it is not loaded yet: a table, or a simulator that lists its outcomes."""
    from tailwise.models.simulator import lists_outcomes, refuse_hidden

    model: Any = given.load() if loaded is None else loaded
    refuse_hidden(model)
    if not lists_outcomes(model):
        raise ModelError(
            f"{given.model} is a simulator that does not list its outcomes, which cannot be solved exactly; use "
            f"'tailwise plan {given.model}'"
        )
    return with_horizon(model, given, beta)


def with_horizon(model: TabularMDP | Simulator, given: Model, beta: float | None = None) -> TabularMDP | Simulator:
    """Return a model as it is, but a discounted table that came without a horizon with one.

    It is long enough for ``beta`` (for any risk measure if that is None), with an error of at most a millionth of the
    range of its totals.
    """
    import numpy as np

    from tailwise.exact import truncate
    from tailwise.models import TabularMDP

    said = tuple(note for note in getattr(model, "notes", ()) if "gives no horizon" not in note)
    if isinstance(model, TabularMDP) and given.horizon is None and model.discount < 1.0 and said != model.notes:
        range_ = float(np.ptp(np.append(model.losses, 0.0))) / (1.0 - model.discount)
        return truncate(replace(model, notes=said), 1e-6 * range_ or 1.0, beta=beta, progress=True)
    return model


def begun_in(model: Any, state: str | None) -> TabularMDP | Simulator:
    """Return a model that begins in the state of ``--state``, or as it is."""
    begun: Any = model
    if state is not None:
        start = find_state(model, state)
        if hasattr(model, "with_options"):
            begun = model.with_options(start=start)
        else:
            begun = copy.copy(model)
            begun.start = start
    found: TabularMDP | Simulator = begun
    return found


def build_planner(
    model: Any, objective: Objective, kind: str, *, seed: int | None = None, **options: float | None
) -> FullPlanner:
    """Build the planner of ``--planner``, with those of its options, as ``bonus``, that are not None."""
    from tailwise.planners import make_planner

    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return make_planner(model, objective, kind=kind, seed=seed, **given)


def find_state(model: Any, text: str | None) -> State:
    """Turn the text of ``--state`` into a state of the model; None stays None (the start)."""
    from tailwise.models.simulator import read_state

    return None if text is None else read_state(model, text)
