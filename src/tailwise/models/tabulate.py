"""From simulators that list what may happen, seen or partly observed, to tables, for exact planning."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

import numpy as np

from tailwise._progress import Progress, Tick, followed, untold
from tailwise._validate import integer
from tailwise.errors import ModelError
from tailwise.models.contract import SUM_TOLERANCE, State, cost_fault, listed_actions, outcome_fault, short
from tailwise.models.partly_observed import hidden_actions, require_hidden
from tailwise.models.pomdp_table import PomdpTable
from tailwise.models.simulator import action_label, model_name, own_method, state_label, validate_simulator
from tailwise.models.tabular import TabularMDP


def tabulate(simulator: Any, *, max_states: int = 100_000, progress: Progress = None) -> TabularMDP:
    """Build the table of a simulator that has ``outcomes``, from the states its start can reach; a table is its own.

    Parameters
    ----------
    simulator : Simulator or object with its methods, or TabularMDP
        It must define ``outcomes(state, action) -> list of (probability, next_state, cost, done)``.
    max_states : int, default 100_000
        Give up beyond this number of states.
    progress : bool or callable, optional
        True shows a bar; a function is called with (states listed, None).

    Returns
    -------
    TabularMDP
        Its labels are the states' texts; action k is the k-th of ``actions(state)``, and has its name where all
        states call the k-th the same. State 0 is the start.
        States that are reached only at the horizon have the one action 0, which is never taken.

    Raises
    ------
    ModelError
        If the simulator has no ``outcomes``, an outcome is malformed, or there are too many states.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.models import tabulate
    >>> tabulate(domains.make("machine-maintenance")).num_states
    12
    """
    most = integer(max_states, "max_states", low=1)
    with followed(progress, "listing states", None) as tick:
        if isinstance(simulator, TabularMDP):
            return simulator
        return tabulate_states(simulator, max_states=most, tick=tick)[0]


def tabulated_within(simulator: Any, max_states: int) -> TabularMDP | None:
    """Build the same table, or return None where there are more states than ``max_states``."""
    found = _listed(simulator, max_states, untold)
    return None if found is None else found[0]


def tabulate_states(
    simulator: Any, *, max_states: int = 100_000, tick: Tick = untold
) -> tuple[TabularMDP, dict[State, tuple[int, int]]]:
    """Build the same table; return it with (index, first step at which it can be reached) of each state."""
    found = _listed(simulator, integer(max_states, "max_states", low=1), tick)
    if found is None:
        name = model_name(simulator)
        raise ModelError(f"{name} reaches over {max_states} states; raise max_states, or search")
    return found


def _listed(simulator: Any, max_states: int, tick: Tick) -> tuple[TabularMDP, dict[Any, tuple[int, int]]] | None:
    validate_simulator(simulator, endless=True)
    name = model_name(simulator)
    if own_method(simulator, "outcomes") is None:
        raise ModelError(f"{name} has no outcomes(state, action); a table needs every outcome")
    canonical = getattr(simulator, "canonical", None)
    start = simulator.start if canonical is None else canonical(simulator.start)
    index: dict[Any, tuple[int, int]] = {start: (0, 0)}
    pending = deque([(start, 0)])
    rows: list[tuple[int, int, int, float, float, bool]] = []
    numbered, most = True, 1
    while pending:
        state, depth = pending.popleft()
        here = index[state][0]
        tick(here + 1)
        if depth == simulator.horizon:
            rows.append((here, 0, here, 1.0, 0.0, False))
            continue
        listed = ask(simulator, "actions", state)
        most = max(most, len(listed))
        numbered = numbered and listed == list(range(len(listed)))
        for k, action in enumerate(listed):
            for probability, target, cost, done in ask(simulator, "outcomes", state, action):
                if not done and canonical is not None:
                    target = canonical(target)
                if target not in index and not done:
                    index[target] = len(index), depth + 1
                    pending.append((target, depth + 1))
                    if len(index) > max_states:
                        return None
                rows.append((here, k, here if done else index[target][0], float(probability), float(cost), bool(done)))
    states, actions, targets, chances, costs, ends = map(np.array, zip(*rows, strict=True))
    steps = None if simulator.horizon is None else int(simulator.horizon)
    terminals = None if steps is None else _terminals(simulator, list(index))
    in_costs = simulator.sense == "cost"
    table = TabularMDP.from_outcomes(
        states, actions, targets, chances, costs if in_costs else None, rewards=None if in_costs else costs,
        terminal_costs=terminals if in_costs else None, terminal_rewards=None if in_costs else terminals,
        done=ends, num_states=len(index), horizon=steps, discount=float(simulator.discount), start=0,
        state_labels=_labels(simulator, list(index)), name=name,
        action_labels=_action_labels(simulator, most) if numbered else _labels_by_place(simulator, index),
    )  # fmt: skip
    return table, index


def ask(simulator: Any, method: str, *arguments: Any) -> list[Any]:
    """Call ``actions`` or ``outcomes``; return a list of the right form, or raise an error that says where."""
    try:
        answer = getattr(simulator, method)(*arguments)
        if method == "actions":
            listed, fault = listed_actions(answer)
        else:
            listed = list(answer)
            fault = "" if listed else "it returned nothing"
        outcomes: list[Any] = listed if method == "outcomes" else []
        for probability, *result in outcomes:
            if not isinstance(probability, (int, float, np.integer, np.floating)):
                fault = fault or f"the probability {short(probability)} is no number"
            fault = fault or outcome_fault(tuple(result))
    except Exception as error:  # whatever a user's code raises, or cannot be unpacked
        fault = f"{type(error).__name__}: {error}"
    if fault:
        where = f"{method}({', '.join(map(short, arguments))}) of {model_name(simulator)}"
        expected = "; expected a list of (probability, next_state, cost, done)" if method == "outcomes" else ""
        raise ModelError(f"{where}: {fault}{expected}")
    return listed


def ask_terminal_cost(simulator: Any, state: Any) -> float:
    """Return the terminal cost of a state in the simulator's sense, 0 where it has none, or raise ``ModelError``."""
    end = own_method(simulator, "terminal_cost")
    if end is None:
        return 0.0
    where = f"terminal_cost({short(state)}) of {model_name(simulator)}"
    try:
        value = end(state)
        fault = cost_fault(value)
    except Exception as error:
        raise ModelError(f"{where} raised {type(error).__name__}: {error}") from error
    if fault:
        raise ModelError(f"{where}: its value {fault}")
    return float(value)


def _terminals(simulator: Any, states: list[Any]) -> Any:
    if own_method(simulator, "terminal_cost") is None:
        return None
    return np.array([ask_terminal_cost(simulator, state) for state in states], dtype=np.float64)


def _action_labels(simulator: Any, count: int) -> list[str]:
    name = getattr(simulator, "action_name", None)
    names = [str(name(action)) for action in range(count)] if name is not None else []
    return names if len(set(names)) == len(names) and names != list(map(str, range(count))) else []


def _labels_by_place(simulator: Any, index: dict[Any, tuple[int, int]]) -> list[str]:
    """Return the name of the k-th action of a state, where all states call it the same."""
    named: dict[int, set[str]] = {}
    for state, (_, depth) in index.items():
        for k, action in enumerate(ask(simulator, "actions", state) if depth != simulator.horizon else ()):
            named.setdefault(k, set()).add(action_label(simulator, action, state))
    names = [named[k].pop() if len(named[k]) == 1 else f"action {k}" for k in sorted(named)]
    return names if len(set(names)) == len(names) else []


def _labels(simulator: Any, states: list[Any]) -> list[str]:
    names = [state_label(simulator, state) for state in states]
    return names if len(set(names)) == len(names) else [f"{k}: {name}" for k, name in enumerate(names)]


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
    integer(max_states, "max_states", low=1)
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
