"""Find a way to save and restore a Gymnasium environment: make a private one, and try the ways out in turn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tailwise.errors import ModelError
from tailwise.models.copying import Copier
from tailwise.models.gymnasium_actions import FiniteActions
from tailwise.models.gymnasium_changes import find_change
from tailwise.models.gymnasium_foresight import Foresight, find_foresight
from tailwise.models.gymnasium_machine import Machine, UnsuitableError, lift_limits, strip
from tailwise.models.gymnasium_saving import Attributes, Copies, OwnFunctions, Replay, Way
from tailwise.models.gymnasium_table import make_environment
from tailwise.models.gymnasium_trial import find_fault
from tailwise.models.mujoco_saving import MujocoData, MujocoState
from tailwise.models.simulator import short

_CHANGED = "what was changed after it was made"


def find_way(
    env: Any, own: OwnFunctions | None, actions: FiniteActions, name: str, *, is_users: bool
) -> tuple[Machine, Way, Foresight]:
    """Return a private environment, the way to save it, and whether its saved states tell the future.

    Raises
    ------
    ModelError
        If no way works, with the reason for each.
    """
    reasons = []
    for source, made in _private_environments(env, is_users):
        try:
            machine = Machine(lift_limits(made()), actions)
            change = find_change(strip(env), machine) if is_users else ""
            if change:
                reasons.append(f"{source}: {_CHANGED} is lost: {change}")
                continue
            machine.reset(0)
            machine.has_generators = bool(machine.generators)
            ways = _ways(machine, own)
        except Exception as error:  # environments raise anything when they are broken
            reasons.append(f"{source}: {_reason(error, name)}")
            continue
        for kind, build in ways:
            try:
                way = build()
                fault = find_fault(machine, way)
                told = None if fault else find_foresight(machine, way)
            except Exception as error:
                fault, told = _reason(error, name), None
            if told is not None:
                machine.is_masked = actions.has_mask
                return machine, way, told
            reasons.append(f"{kind} ({source}): {fault}")
    listed = "\n  ".join(dict.fromkeys(reasons))
    fix = f"; {_CHANGED} belongs into its constructor, or its __deepcopy__ must keep it" if _CHANGED in listed else ""
    raise ModelError(
        f"{name} cannot be planned on: no way to save and restore it works.\n  {listed}\n"
        f"Give your own save= and restore=, or write the problem as a Simulator{fix}"
    )


def _reason(error: Exception, name: str) -> str:
    """What went wrong; what is wrong with the environment itself, whatever way it is saved, is passed on."""
    if isinstance(error, UnsuitableError):
        raise UnsuitableError(f"{name} cannot be planned on: {error}") from None
    return f"{type(error).__name__}: {short(str(error))}"


def _private_environments(env: Any, is_users: bool) -> list[tuple[str, Callable[[], Any]]]:
    """Where the planner's own environment can come from, in order of preference."""
    stripped = strip(env)
    if not is_users:
        return [("made from its id", lambda: stripped)]
    sources: list[tuple[str, Callable[[], Any]]] = [("a copy of the given one", lambda: _copied(stripped))]
    if getattr(env, "spec", None) is not None:  # with its wrappers, or not at all
        sources.append(("made from its spec", lambda: strip(make_environment(env.spec))))
    return sources


def _copied(env: Any) -> Any:
    copier = Copier()
    try:
        return copier.thaw(copier.freeze(env))[0]
    except Exception:  # its own __deepcopy__ may know better
        return copy.deepcopy(env)


def _ways(machine: Machine, own: OwnFunctions | None) -> list[tuple[str, Callable[[], Way]]]:
    if own is not None:
        return [(own.name, lambda: own)]
    replay = (Replay.name, lambda: Replay(machine))
    if type(getattr(machine.core, "data", None)).__name__ == "MjData":
        return [
            (MujocoState.name, lambda: MujocoState(Attributes(machine))),
            (MujocoData.name, lambda: MujocoData(Attributes(machine))),
            replay,
        ]
    return [(Attributes.name, lambda: Attributes(machine)), (Copies.name, Copies), replay]
