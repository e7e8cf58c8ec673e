"""From a MODEL argument to a model."""

from __future__ import annotations

import ast
from typing import Any

from tailwise.errors import StateError


def load_model(spec: str, *, horizon: int | None = None, discount: float | None = None) -> Any:
    """Load a MODEL argument, with the horizon and discount of the command line where given."""
    from tailwise.formats import load

    options: dict[str, Any] = {}
    if horizon is not None:
        options["horizon"] = horizon
    if discount is not None:
        options["discount"] = discount
    return load(spec, **options)


def build_planner(model: Any, beta: float, kind: str, *, bonus: float | None = None, seed: int | None = None) -> Any:
    """Build the planner or policy of ``--planner``, with the constant of ``--bonus`` where given."""
    from tailwise.planners import make_planner

    options: dict[str, Any] = {} if bonus is None else {"bonus": bonus}
    return make_planner(model, beta, kind=kind, seed=seed, **options)


def find_state(model: Any, text: str | None) -> Any:
    """Turn the text of ``--state`` into a state of the model; None stays None (the start)."""
    if text is None:
        return None
    if hasattr(model, "find_state"):
        return model.find_state(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise StateError(f"state {text!r} is not a Python literal such as 3 or (0, 1.5)") from None


def state_text(model: Any, state: Any) -> str:
    """Return the model's own name of a state, or its text."""
    name = getattr(model, "state_name", None)
    return str(name(state)) if name is not None else repr(state)
