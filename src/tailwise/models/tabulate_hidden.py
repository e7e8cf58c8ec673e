"""From a partly observed simulator that lists what may happen to a table, for exact planning."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from tailwise.errors import ModelError
from tailwise.models.contract import SUM_TOLERANCE
from tailwise.models.partly_observed import hidden_actions, require_hidden
from tailwise.models.pomdp_table import PomdpTable
from tailwise.models.simulator import model_name
from tailwise.models.tabulate import ask, ask_terminal_cost

_LISTS = ("starts", "outcomes", "observations")


def lists_hidden(model: Any) -> bool:
    """Return whether a model whose state is not seen can be tabulated: it says all that may happen."""
    return isinstance(model, PomdpTable) or all(callable(getattr(model, name, None)) for name in _LISTS)


def tabulate_hidden(model: Any, *, max_states: int = 100_000) -> PomdpTable:
    """Build the table of a partly observed simulator that lists what may happen; a table is its own.

    Parameters
    ----------
    model : PartlyObserved
        With ``starts()``, ``outcomes(state, action)`` and ``observations(state, action, next_state)``.
    max_states : int, default 100,000
        Give up beyond this number of states.

    Returns
    -------
    PomdpTable
        ``observation_values`` are the simulator's own observations; action k is the k-th of ``actions()``.

    Raises
    ------
    ModelError
        If a list is missing or wrong, or there are too many states.
    """
    if isinstance(model, PomdpTable):
        return model
    require_hidden(model)
    name = model_name(model)
    for method in _LISTS:
        if not callable(getattr(model, method, None)):
            raise ModelError(
                f"{name} has no {method}(); an exact solution needs starts(), outcomes(state, action) and "
                "observations(state, action, next_state). Without them there is make_planner(model, beta)"
            )
    listed, index, seen = hidden_actions(model), dict[Hashable, int](), dict[Hashable, int]()
    begun = [(float(p), s) for p, s in model.starts()]
    for _, state in begun:
        index.setdefault(state, len(index))
    rows: list[tuple[int, int, int, int, float, float, bool]] = []
    order = list(index)
    for state in order:  # it grows
        for k, action in enumerate(listed):
            for chance, target, cost, done in ask(model, "outcomes", state, action):
                if done:
                    rows.append((index[state], k, index[state], 0, float(chance), float(cost), True))
                    continue
                if target not in index:
                    index[target] = len(index)
                    order.append(target)
                    if len(index) > max_states:
                        raise ModelError(f"{name} reaches over {max_states} states; raise max_states, or search")
                shown = [(float(p), o) for p, o in model.observations(state, action, target)]
                total = sum(p for p, _ in shown)
                if not abs(total - 1.0) <= SUM_TOLERANCE or any(not p >= 0.0 for p, _ in shown):
                    raise ModelError(
                        f"observations({state!r}, {action!r}, {target!r}) of {name}: probabilities sum to {total:.9g}; "
                        "they must be positive and sum to 1"
                    )
                for part, value in shown:
                    at = seen.setdefault(value, len(seen))
                    rows.append((index[state], k, index[target], at, float(chance) * part, float(cost), False))
    columns: list[Any] = list(map(np.array, zip(*rows, strict=True)))
    belief = np.zeros(len(index))
    for chance, state in begun:
        belief[index[state]] += chance
    sense = "costs" if model.sense == "cost" else "rewards"
    terminals: Any = np.array([ask_terminal_cost(model, state) for state in index])
    label = getattr(model, "action_name", str)
    names = [str(label(action)) for action in listed]
    return PomdpTable.from_outcomes(
        *columns[:5], **{sense: columns[5], f"terminal_{sense}": terminals}, done=columns[6], num_states=len(index),
        num_observations=max(1, len(seen)), horizon=int(model.horizon), discount=float(model.discount), start=belief,
        cost_seen=bool(getattr(model, "cost_seen", False)), state_labels=_unique(index), action_labels=_unique(names),
        observation_labels=_unique(seen) or ("-",), observation_values=tuple(seen), name=name,
    )  # fmt: skip


def _unique(values: Any) -> tuple[str, ...]:
    texts = tuple(str(value) for value in values)
    return texts if len(set(texts)) == len(texts) else tuple(f"{k}: {text}" for k, text in enumerate(texts))
