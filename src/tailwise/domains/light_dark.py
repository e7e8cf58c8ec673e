"""Light and dark: a continuous place that is seen well only where there is light.

Source: Platt, Tedrake, Kaelbling & Lozano-Perez, "Belief space planning assuming maximum likelihood observations",
2010; on a line, with the actions of Sunberg & Kochenderfer, "Online algorithms for POMDPs with continuous state,
action, and observation spaces", 2018.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise.domains.registry import register
from tailwise.models import PartlyObserved


class LightDark(PartlyObserved):
    """A place on a line, the light at 5; see :func:`light_dark`."""

    name = "light-dark"

    def __init__(self, horizon: int, discount: float, light: float) -> None:
        self.horizon, self.discount, self._light = horizon, discount, light

    def sample_start(self, rng: np.random.Generator) -> float:
        """Draw a place about 2."""
        return 2.0 + 2.0 * float(rng.standard_normal())

    def actions(self) -> tuple[int, ...]:
        """Return the steps that can be taken; 0 is to stop."""
        return (-5, -1, 0, 1, 5)

    def step(self, state: float, action: int, rng: np.random.Generator) -> tuple[float, float, bool]:
        """Move, or stop: -10 within 1 of the origin, 10 elsewhere."""
        if action == 0:
            return state, -10.0 if abs(state) < 1.0 else 10.0, True
        return state + action, 1.0, False

    def observe(self, state: float, action: int, next_state: float, rng: np.random.Generator) -> float:
        """See the place, the worse the farther from the light."""
        return next_state + self._blur(next_state) * float(rng.standard_normal())

    def likelihood(self, state: float, action: int, next_state: float, observation: float) -> float:
        """Return the density of an observation."""
        blur = self._blur(next_state)
        return math.exp(-0.5 * ((observation - next_state) / blur) ** 2) / blur

    def action_name(self, action: int) -> str:
        """Return the step as text."""
        return "stop" if action == 0 else f"{action:+d}"

    def _blur(self, place: float) -> float:
        return 0.1 + abs(place - self._light) / math.sqrt(2.0)


@register("light-dark", "hidden states")
def light_dark(horizon: int = 10, discount: float = 0.95, light: float = 5.0) -> LightDark:
    """Stop at the origin of a line on which one sees where one is only near the light.

    State: a place, not seen, that begins at 2 with a deviation of 2. Each step costs 1 and shows the place with a
    deviation that grows with the distance from ``light``; stopping pays 10 within 1 of the origin and costs 10
    elsewhere.
    """
    return LightDark(horizon, discount, light)
