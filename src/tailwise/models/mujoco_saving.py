"""Ways to save and restore MuJoCo environments, whose state lives in C memory."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import numpy as np

from tailwise.models.gymnasium_machine import Machine
from tailwise.models.gymnasium_saving import Attributes, Saved


class MujocoState:
    """MuJoCo's integration state (with the warm start), the stale positions that rewards read, and the attributes."""

    name, is_plain, keeps_keys = "MuJoCo state", True, True

    def __init__(self, attributes: Attributes) -> None:
        self._mujoco: Any = importlib.import_module("mujoco")
        self._kind = self._mujoco.mjtState.mjSTATE_INTEGRATION
        self._attributes = attributes

    def save(self, machine: Machine) -> Saved:
        """Return MuJoCo's state vector and the attributes."""
        core = machine.core
        vector = np.empty(self._mujoco.mj_stateSize(core.model, self._kind))
        self._mujoco.mj_getState(core.model, core.data, vector, self._kind)
        derived = (core.data.xpos.copy(), core.data.xipos.copy())
        rest = self._attributes.save(machine)
        return Saved((vector.tobytes(), rest.key), (vector, derived, rest.payload))

    def restore(self, machine: Machine, payload: Any) -> None:
        """Set MuJoCo's state and the attributes."""
        vector, (xpos, xipos), rest = payload
        core = machine.core
        self._mujoco.mj_setState(core.model, core.data, vector, self._kind)
        core.data.xpos[:], core.data.xipos[:] = xpos, xipos
        self._attributes.restore(machine, rest)


class MujocoData:
    """A copy of all of MuJoCo's data: larger and slower than its state, for environments that read more."""

    name, is_plain, keeps_keys = "MuJoCo data", True, True

    def __init__(self, attributes: Attributes) -> None:
        self._mujoco: Any = importlib.import_module("mujoco")
        self._attributes = attributes

    def save(self, machine: Machine) -> Saved:
        """Return a copy of MuJoCo's data and the attributes."""
        core, rest = machine.core, self._attributes.save(machine)
        data = copy.copy(core.data)
        return Saved(
            (core.data.qpos.tobytes(), core.data.qvel.tobytes(), core.data.time, rest.key),
            (data, rest.payload),
        )

    def restore(self, machine: Machine, payload: Any) -> None:
        """Copy the data back."""
        data, rest = payload
        core = machine.core
        self._mujoco.mj_copyData(core.data, core.model, data)
        self._attributes.restore(machine, rest)
