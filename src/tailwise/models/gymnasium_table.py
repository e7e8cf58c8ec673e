"""Read the transition table ``P`` of a Gymnasium environment.

``P[s][a]`` is a list of ``(probability, next_state, reward, terminated)``. The flag counts, not
the state: CliffWalking's and Taxi's terminal states have ordinary outgoing rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import ModelError, UnknownNameError, require


class Table(NamedTuple):
    """The columns of the table, one entry per outcome."""

    columns: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
    rewards: NDArray[np.float64]
    done: NDArray[np.bool_]
    num_states: int
    horizon: int
    start: int
    name: str
    notes: tuple[str, ...]
    action_labels: tuple[str, ...]


def make_environment(env_or_id: Any, **options: Any) -> Any:
    """Return the environment itself, or make it from its id.

    Raises
    ------
    UnknownNameError
        If Gymnasium knows no such id.
    ModelError
        If Gymnasium cannot make it, or ``env_or_id`` is neither an id nor an environment.
    """
    if not isinstance(env_or_id, str):
        if not hasattr(env_or_id, "unwrapped") or not hasattr(env_or_id, "step"):
            raise ModelError(f"expected a Gymnasium environment or its id, not {type(env_or_id).__name__}")
        return env_or_id
    gymnasium = require("gymnasium", "gym", f"the environment {env_or_id!r}")
    try:
        return gymnasium.make(env_or_id, **options)
    except (
        gymnasium.error.NameNotFound,
        gymnasium.error.NamespaceNotFound,
        gymnasium.error.VersionNotFound,
    ) as error:
        raise UnknownNameError(f"Gymnasium has no environment {env_or_id!r}: {error}") from None
    except Exception as error:  # Gymnasium raises many types here: missing extras, bad options
        raise ModelError(f"Gymnasium cannot make {env_or_id!r}: {type(error).__name__}: {error}") from None


def time_limit(env: Any) -> int | None:
    """Return the environment's own time limit, if it has one."""
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return int(limit) if limit else None


def read_table(env_or_id: Any, *, horizon: int | None = None, start: int | None = None) -> Table:
    """Read ``P`` of an environment; see ``TabularMDP.from_gymnasium``."""
    env = make_environment(env_or_id)
    inner = env.unwrapped
    name = getattr(getattr(env, "spec", None), "id", None) or type(inner).__name__
    source = getattr(inner, "P", None)
    if source is None:
        raise ModelError(f"{name} has no transition table P; plan on it as a simulator, with GymnasiumSimulator")
    steps = horizon if horizon is not None else time_limit(env)
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
    return Table(
        (state, action, target, chance),
        reward,
        terminated,
        len(source),
        steps,
        first,
        f"gym:{name}",
        notes,
        _KNOWN_LABELS.get(name.partition("-")[0], ()),
    )


def _items(table: Any) -> Iterable[tuple[Any, Any]]:
    """Pairs of a dict, or of a list by its indices."""
    return table.items() if isinstance(table, Mapping) else enumerate(table)


_KNOWN_LABELS = {
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
