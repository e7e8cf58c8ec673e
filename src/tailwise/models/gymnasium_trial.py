"""The check that every way of saving an environment must pass: a restored state behaves as it did the first time.

Nothing is looked for inside the environment. Episodes are played, saved before every step, and repeated from their
saved states: in one go, step by step with detours between, and in any order, each time with the same draws.
Whatever the environment shows must come out the same, bit for bit; and two states that the way takes for the same
one must go on alike. The check is made when the simulator is made (:func:`find_fault`), by ``check_simulator``, and
in the middle of a search at every 256th step, on up to eight steps that the search itself has taken
(:class:`SpotCheck`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tailwise.errors import ModelError
from tailwise.models.copying import global_states
from tailwise.models.gymnasium_machine import Machine, Outcome, freeze, seeded
from tailwise.models.gymnasium_saving import Saved, Way, restore, save
from tailwise.models.simulator import short

_WALKS, _STEPS, _ORIGINS, _REPEATED = 4, 24, 4, 8
_FIRST_GAP, _GAP = 8, 256


class Leg(NamedTuple):
    """One step of an episode: the state it was taken from, the action, the seed of its draws, and what it showed."""

    saved: Saved
    action: Any
    draws: int
    shown: Outcome


def walk(machine: Machine, way: Way, steps: int, picks: np.random.Generator) -> list[Leg]:
    """Go on at random from where the environment stands, saved before each step."""
    legs: list[Leg] = []
    while len(legs) < steps and not (legs and legs[-1].shown.is_end):
        saved, draws = save(machine, way), int(picks.integers(2**31))
        action, outcome = machine.try_step(picks, seeded(draws))
        legs.append(Leg(saved, action, draws, shown(outcome)))
    return legs


def shown(outcome: Outcome) -> Outcome:
    """Return an outcome that stays as it is when the environment goes on."""
    return outcome._replace(observation=freeze(outcome.observation))


def find_fault(machine: Machine, way: Way, seed: int = 0) -> str:
    """Try a way out on random episodes; return what is wrong with it, or "" if it can be trusted."""
    picks = np.random.default_rng(seed)
    for episode in range(_WALKS):
        machine.reset(seed + episode)
        outside = global_states()
        legs = walk(machine, way, _STEPS, picks)
        if global_states() != outside:
            return "its step draws from NumPy's or Python's global generator; it must draw from self.np_random"
        machine.reset(seed + 1000 + episode)
        walk(machine, way, 3, picks)
        for origin in picks.permutation(len(legs))[:_ORIGINS].tolist():
            restore(machine, way, legs[origin].saved)
            fault = repeat(machine, legs[origin : origin + _REPEATED])
            if fault:
                return f"after restoring, {fault}"
        fault = _with_detours(machine, way, legs[:_REPEATED], picks) or _mistaken(machine, way, legs)
        if fault:
            return fault
    return ""


def _with_detours(machine: Machine, way: Way, legs: list[Leg], picks: np.random.Generator) -> str:
    """Repeat an episode as a search does: restore, step, save, and go elsewhere in between."""
    saved = legs[0].saved
    for leg in legs:
        restore(machine, way, legs[int(picks.integers(len(legs)))].saved)
        machine.try_step(picks, seeded(int(picks.integers(2**31))))
        restore(machine, way, saved)
        fault = repeat(machine, [leg])
        if fault:
            return f"after restoring between other states, {fault}"
        if not leg.shown.is_end:
            saved = save(machine, way)
    return ""


def _mistaken(machine: Machine, way: Way, legs: list[Leg]) -> str:
    """Whether states of equal keys go on alike."""
    first: dict[Any, int] = {}
    for later, leg in enumerate(legs):
        earlier = first.setdefault(leg.saved.key, later)
        if earlier != later:
            restore(machine, way, legs[earlier].saved)
            fault = repeat(machine, legs[later : later + _REPEATED])
            if fault:
                return f"it takes two states for one: {fault}"
    return ""


def repeat(machine: Machine, legs: list[Leg]) -> str:
    """Take the steps again with the same draws; return what differs, or ""."""
    for h, leg in enumerate(legs):
        again = machine.step(leg.action, seeded(leg.draws))
        fault = difference(leg.shown, again)
        if fault:
            return f"the same draws gave another {fault} at step {h + 1}"
    return ""


def difference(once: Outcome, again: Outcome) -> str:
    """Say where an outcome differs from what was shown before; empty if nowhere."""
    if freeze(again.reward) != freeze(once.reward):
        return f"reward ({once.reward!r}, then {again.reward!r})"
    if again.is_end != once.is_end:
        return f"end ({once.is_end}, then {again.is_end})"
    if again.allowed != once.allowed:
        return f"mask ({once.allowed}, then {again.allowed})"
    return "" if freeze(again.observation) == once.observation else f"observation ({short(again.observation, 60)})"


class SpotCheck:
    """Records a few steps of the search now and then, and repeats them much later.

    Attributes
    ----------
    due : int
        Number of the step of the search from which it wants to see the steps.
    is_open : bool
        Whether it is in the middle of recording.
    """

    def __init__(self, machine: Machine, way: Way, name: str) -> None:
        self._machine, self._way, self._name = machine, way, name
        self._start: Any = None
        self._last: Any = None
        self._steps: list[tuple[Any, Any, Outcome]] = []
        self.is_open = False
        self._gap = self.due = _FIRST_GAP

    def wants(self, count: int, state: Any) -> bool:
        """Whether the step from ``state`` is to be recorded; what was recorded long ago is repeated first.

        Raises
        ------
        ModelError
            If the environment does not do what it did.
        """
        if self.is_open:
            if state == self._last and len(self._steps) < _REPEATED:
                return True
            self.is_open = False
            self.due, self._gap = count + self._gap, min(2 * self._gap, _GAP)
            return False
        self._repeat()
        self._start, self._steps, self.is_open = state, [], True
        return True

    def record(self, draws: Any, action: Any, outcome: Outcome, state: Any) -> None:
        """Keep what a step with ``draws`` (the state of a generator's bits) showed."""
        self._steps.append((draws, action, shown(outcome)))
        self._last = state

    def _repeat(self) -> None:
        if not self._steps:
            return
        restore(self._machine, self._way, self._start.saved)
        for h, (draws, action, once) in enumerate(self._steps):
            kind: Any = getattr(np.random, draws["bit_generator"])
            bits = kind(0)
            bits.state = draws
            fault = difference(once, self._machine.step(action, np.random.Generator(bits)))
            if fault:
                taken = ", ".join(short(each[1], 40) for each in self._steps[: h + 1])
                raise ModelError(
                    f"{self._name} did not repeat itself: from the state {short(self._start)} the action {taken} gave, "
                    f"with the same draws, another {fault}; something that its step depends on is neither saved nor "
                    f"restored by {self._way.name}. Give your own save= and restore=, or write a Simulator"
                )
