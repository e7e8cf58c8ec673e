"""Draws that are weighed: rare outcomes that are known, and simulators that say a likelihood ratio.

Where a step was drawn from another law than the true one, and w is the ratio of their probabilities, the true risk is

    E[exp(beta X)] = E'[w exp(beta X)] = E'[exp(beta (X + ln(w) / beta))]:

the ratio of a step is a cost of ``ln(w) / beta_h`` more. So the entropic risk of every policy, and every value on the
way, is that of a simulator whose steps cost as much more, and no search need know. Totals are no longer costs alone:
plans leave out what is said of their distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tailwise.bindings.options import RareOutcomes
from tailwise.errors import OptionError, SimulatorError
from tailwise.models.simulator import outcome_fault, short

WEIGHED = "draws are weighed by likelihood ratios: nothing is said of the totals beside their risk"
_SHARE = 0.1  # of the draws of an action, for its rare outcomes together
_MOST = 0.5  # that their probabilities may add up to
_REDRAWS = 10_000


def weighs(model: Any, rare_outcomes: RareOutcomes | None) -> bool:
    """Return whether draws of a model are weighed."""
    return rare_outcomes is not None or bool(getattr(model, "likelihood_ratios", False))


def weighed_step(
    model: Any, step: Callable[..., Any], rare_outcomes: RareOutcomes | None, beta: float
) -> Callable[..., tuple[Hashable, float, bool]]:
    """Return ``step(state, action, rng, h) -> (next_state, cost, done)`` that charges the ratios of what it draws."""
    if beta == 0.0:
        raise OptionError(
            "rare_outcomes, and simulators with likelihood_ratios, are for the ERM of plain costs at a beta other than "
            "0: a ratio w is charged as a cost of ln(w) / beta"
        )
    if rare_outcomes is not None and getattr(model, "likelihood_ratios", False):
        raise OptionError("give rare_outcomes, or a simulator with likelihood_ratios that weighs its own, not both")
    if np.size(getattr(model, "step_losses", ())):
        raise OptionError("rare_outcomes are costs of a state and an action alone: this table has costs per step")
    draw = step if rare_outcomes is None else _Proposal(step, rare_outcomes)
    discount, sign = float(model.discount), 1.0 if model.sense == "cost" else -1.0

    def charged(state: Any, action: Any, rng: np.random.Generator, h: int) -> tuple[Hashable, float, bool]:
        result = draw(state, action, rng, h)
        if not isinstance(result, tuple) or len(result) != 4:
            raise SimulatorError(f"it returned {short(result)}; expected (next_state, cost, done, likelihood ratio)")
        target, cost, done, ratio = result
        if not 0.0 < ratio < math.inf:
            raise SimulatorError(f"the likelihood ratio is {short(ratio)}; it must be a finite number above 0")
        return target, cost + sign * math.log(ratio) / (beta * discount**h), done

    return charged


class _Proposal:
    """A step that draws the rare outcomes of an action in a tenth of its draws, the rest as the simulator does."""

    def __init__(self, step: Callable[..., Any], rare_outcomes: RareOutcomes) -> None:
        self._step, self._rare = step, rare_outcomes
        self._found, self._expected = 0, 0.0  # among the simulator's own draws

    def __call__(self, state: Any, action: Any, rng: np.random.Generator, h: int) -> tuple[Any, ...]:
        rare = self._checked(state, action)
        if not rare:
            return (*self._step(state, action, rng, h), 1.0)
        left, proposed, chance = rng.random(), 0.0, math.fsum(p for p, *_ in rare)
        for p, target, cost, done in rare:
            often = max(p, _SHARE / len(rare))
            proposed += often
            if left < proposed:
                return target, cost, done, p / often
        for _ in range(_REDRAWS):
            result = self._step(state, action, rng, h)
            self._expected += chance
            if outcome_fault(result) or not any(_is_same(result, one) for one in rare):
                return (*result, (1.0 - chance) / (1.0 - proposed))
            self._found += 1
            if self._found > 12.0 + self._expected + 6.0 * math.sqrt(self._expected):  # by chance: below 1e-8
                raise SimulatorError(
                    f"its draws contradict rare_outcomes: {self._found} of them were listed, and {self._expected:.3g} "
                    "would be by their probabilities; an outcome that is listed needs its whole probability"
                )
        raise SimulatorError(f"{_REDRAWS} draws were all of those in rare_outcomes: list what is rare alone")

    def _checked(self, state: Any, action: Any) -> list[Any]:
        listed = list(self._rare(state, action))
        for one in listed:
            fault = "" if isinstance(one, (tuple, list)) and len(one) == 4 else "it is no such tuple"
            fault = fault or outcome_fault(one[1:])
            if not fault and not 0.0 < one[0] < 1.0:
                fault = "its probability must be above 0 and below 1"
            if fault:
                raise SimulatorError(
                    f"rare_outcomes lists {short(one)}, expected (probability, next_state, cost, done): {fault}"
                )
        total = math.fsum(one[0] for one in listed)
        if total > _MOST:
            raise SimulatorError(f"the probabilities of rare_outcomes add up to {total:.3g}; at most {_MOST} is rare")
        return listed


def _is_same(result: Any, listed: Any) -> bool:
    target, cost, done = result
    _, other, charged, ends = listed
    return bool(done) == bool(ends) and (bool(done) or target == other) and math.isclose(cost, charged, abs_tol=1e-12)
