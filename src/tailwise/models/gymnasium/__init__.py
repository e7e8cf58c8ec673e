"""Gymnasium environments: as simulators (any), and as tables (those that have one)."""

from typing import TYPE_CHECKING

from tailwise._lazy import lazy

if TYPE_CHECKING:
    from tailwise.models.gymnasium.private_env import make_environment
    from tailwise.models.gymnasium.simulator import EnvironmentState, GymnasiumSimulator

__all__ = ["EnvironmentState", "GymnasiumSimulator", "make_environment"]

__getattr__ = lazy(__name__)
