"""Read the transition table ``P`` of a Gymnasium environment.

``P[s][a]`` is a list of ``(probability, next_state, reward, terminated)``. The flag counts, not
the state: CliffWalking's and Taxi's terminal states have ordinary outgoing rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tailwise.errors import ModelError
from tailwise.models.gymnasium.copying import Copier
from tailwise.models.gymnasium.private_env import (
    made_private,
    make_environment,
    require_fixed_scales,
    strip,
    time_limits,
    wrappers,
)

_TRIED_PAIRS, _DRAWS = 200, 10
TableParts: TypeAlias = dict[str, Any]


def read_table(env_or_id: Any, *, horizon: int | None, start: int | None, **options: Any) -> TableParts:
    """Return what ``TabularMDP.from_outcomes`` takes, from an environment's ``P``."""
    env = make_environment(env_or_id, **options)
    require_fixed_scales(env)
    inner = env.unwrapped
    name = getattr(getattr(env, "spec", None), "id", None) or type(inner).__name__
    source = getattr(inner, "P", None)
    if source is None:
        raise ModelError(f"{name} has no transition table P; plan on it as a simulator, with GymnasiumSimulator")
    steps = horizon if horizon is not None else min((each.limit for each in time_limits(env) if each), default=None)
    if steps is None:
        raise ModelError(f"{name} has no time limit of its own; give horizon=")
    try:
        entries = [
            (int(state), int(action), int(target), float(chance), float(reward), bool(terminated))
            for state, by_action in _items(source)
            for action, outcomes in _items(by_action)
            for chance, target, reward, terminated in outcomes
        ]
        state, action, target, chance, reward, terminated = (np.array(column) for column in zip(*entries, strict=True))
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"the table P of {name} cannot be read ({error}); expected P[state][action] to be a list of "
            "(probability, next_state, reward, terminated), with states and actions counted from 0"
        ) from None
    first, notes = _start(inner, start)
    _try_out(env, inner, entries, name)
    return {
        "states": state, "actions": action, "next_states": target, "probabilities": chance, "rewards": reward,
        "done": terminated, "num_states": len(source), "horizon": steps, "start": first, "name": f"gym:{name}",
        "notes": notes, "action_labels": KNOWN_LABELS.get(name.partition("-")[0], ()),
    }  # fmt: skip


def _try_out(env: Any, inner: Any, entries: list[tuple[int, int, int, float, float, bool]], name: str) -> None:
    """Step a copy of the environment, with its wrappers, from states of the table; refuse one that does not hold."""
    listed: dict[tuple[int, int], set[tuple[int, float, bool]]] = {}
    for state, action, target, chance, reward, terminated in entries:
        if chance > 0:
            listed.setdefault((state, action), set()).add((target, reward, terminated))
    first = {outcome[1:]: pair for pair, outcomes in listed.items() for outcome in outcomes}  # a pair for every reward
    pairs = [
        *first.values(),
        *(list(listed)[i] for i in np.random.default_rng(0).permutation(len(listed))[:_TRIED_PAIRS]),
    ]
    is_wrapped = strip(env) is not inner
    try:
        copier = Copier()
        tried: Any = made_private(copier.thaw(copier.freeze(env))[0])
        core = tried.unwrapped
        is_end = True
        for trial, (state, action) in enumerate(pairs * _DRAWS):
            if is_end:
                tried.reset(seed=trial)
            core.s = state
            _, reward, terminated, truncated, _ = tried.step(action)
            is_end = bool(terminated or truncated)
            seen = int(core.s), float(reward), is_end
            if seen not in listed[state, action]:
                fault = (
                    f"step({action}) from state {state} gave (next state, reward, end) = {seen}; its table P does not"
                )
                break
        else:
            return
    except Exception as error:  # an environment that cannot be put into a state, or not be copied
        if not is_wrapped:
            return
        fault = f"its table cannot be tried out under its wrappers ({type(error).__name__}: {error})"
    chain = " over ".join(type(each).__name__ for each in wrappers(env))
    raise ModelError(
        f"{name} ({chain}): {fault}. A wrapper, or a step of its own, changes what the table says; "
        "plan on it as a simulator, with GymnasiumSimulator, or give env.unwrapped and a horizon for the table alone"
    )


def _items(table: Any) -> Iterable[tuple[Any, Any]]:
    """Pairs of a dict, or of a list by its indices."""
    return table.items() if isinstance(table, Mapping) else enumerate(table)


KNOWN_LABELS = {
    "FrozenLake": ("left", "down", "right", "up"),
    "FrozenLake8x8": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "CliffWalkingSlippery": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
}


def _start(inner: Any, start: int | None) -> tuple[int, tuple[str, ...]]:
    if start is not None:
        return start, ()
    distribution = getattr(inner, "initial_state_distrib", None)
    if distribution is not None and np.count_nonzero(distribution) == 1:
        return int(np.flatnonzero(distribution)[0]), ()
    observation, _ = inner.reset(seed=0)
    note = f"the environment starts at random; planning from state {int(observation)}, its state after reset(seed=0)"
    return int(observation), (note,)
