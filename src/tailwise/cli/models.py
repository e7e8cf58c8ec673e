"""From a MODEL argument to a model."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailwise._progress import activity
from tailwise.errors import ModelError, OptionError, StateError

if TYPE_CHECKING:
    from tailwise.models import TabularMDP


def load_model(spec: str, *, horizon: int | None = None, discount: float | None = None) -> Any:
    """Load a MODEL argument, with the horizon and discount of the command line where given."""
    from tailwise.formats import load

    options: dict[str, Any] = {}
    if horizon is not None:
        options["horizon"] = horizon
    if discount is not None:
        options["discount"] = discount
    with activity(f"reading {spec}"):
        return load(spec, **options)


def load_solvable(
    spec: str, *, horizon: int | None = None, discount: float | None = None, beta: float | None = None
) -> Any:
    """Load a MODEL argument for an exact method: a table, or a simulator that lists its outcomes.

    A discounted table that comes without a horizon gets one, long enough for ``beta`` (for any risk measure if that is
    None), with an error of at most a millionth of the range of its totals.
    """
    import numpy as np

    from tailwise.exact import truncate
    from tailwise.models import TabularMDP
    from tailwise.models.simulator import lists_outcomes

    model = load_model(spec, horizon=horizon, discount=discount)
    if not lists_outcomes(model):
        raise ModelError(
            f"{spec} is a simulator that does not list its outcomes, which cannot be solved exactly; use "
            f"'tailwise plan {spec}'"
        )
    said = tuple(note for note in getattr(model, "notes", ()) if "gives no horizon" not in note)
    if isinstance(model, TabularMDP) and horizon is None and model.discount < 1.0 and said != model.notes:
        range_ = float(np.ptp(np.append(model.losses, 0.0))) / (1.0 - model.discount)
        return truncate(replace(model, notes=said), 1e-6 * range_ or 1.0, beta=beta, progress=True)
    return model


def load_table(
    spec: str, *, horizon: int | None = None, discount: float | None = None, state: str | None = None
) -> TabularMDP:
    """Load a MODEL argument as a table that starts in ``state``."""
    from tailwise.models import TabularMDP, tabulate

    model = load_solvable(spec, horizon=horizon, discount=discount)
    if not isinstance(model, TabularMDP):
        if state is not None:  # the table holds what can be reached from there
            model.start = find_state(model, state)
        return tabulate(model, progress=True)
    return model if state is None else model.with_options(start=model.find_state(state))


def settle_aim(beta: float | None, kind: str, level: float | None) -> tuple[float, str]:
    """Return the beta and the planner's name from --beta, --planner and --level: a tail mean needs no beta."""
    from tailwise.planners import find_planner
    from tailwise.risk.objectives import ERM, CVaR

    if kind == "auto" and level is not None:
        if beta is not None:
            raise OptionError(
                f"--beta {beta:g} (least ERM) and --level {level:g} (least CVaR) are two aims; give one, or name "
                "the planner with --planner"
            )
        return 0.0, kind
    if beta is not None:
        return beta, kind
    if kind != "auto":
        found = find_planner(kind)
        if found.pursues(CVaR(0.95)) and (level is not None or not found.pursues(ERM(0.0))):
            return 0.0, kind
    raise OptionError(
        "--beta is missing: how much risk weighs, per unit of cost (> 0 averse, 0 the mean, < 0 seeking); "
        "'tailwise beta' finds one. Or give --level: 0.95 for the least mean of the worst 5 %"
    )


def build_planner(
    model: Any,
    beta: float,
    kind: str,
    *,
    bonus: float | None = None,
    level: float | None = None,
    seed: int | None = None,
) -> Any:
    """Build the planner or policy of ``--planner``, with ``--bonus`` and ``--level`` where given."""
    from tailwise.planners import find_planner, make_planner
    from tailwise.risk.objectives import ERM, CVaR

    objective: Any = beta if level is None else CVaR(level)
    if level is None and kind != "auto" and not find_planner(kind).pursues(ERM(beta)):
        objective = CVaR(0.95)
    options = {} if bonus is None else {"bonus": bonus}
    return make_planner(model, objective, kind=kind, seed=seed, **options)


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
