"""The check that every snapshot method must pass: a restored state behaves as it did the first time.

Nothing is looked for inside the environment. Episodes are played, saved before every step, and repeated from their
snapshots: in one go, step by step with detours between, and in any order, each time with the same draws.
Whatever the environment shows must come out the same, bit for bit; and two states that the method takes for the same
one must go on alike. The check is made when the simulator is made (:func:`verify_snapshot`), by ``check_simulator``,
and in the middle of a search at every 256th step, on up to eight steps that the search itself has taken
(:class:`SpotCheck`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tailwise.errors import ModelError
from tailwise.models.gymnasium.copying import freeze, global_states
from tailwise.models.gymnasium.private_env import PrivateEnv, StepResult, seeded
from tailwise.models.gymnasium.snapshots import Snapshot, SnapshotMethod, restore, save
from tailwise.models.simulator import short

_WALKS, _STEPS, _ORIGINS, _REPEATED = 4, 24, 4, 8
_FIRST_GAP, _GAP = 8, 256


class Transition(NamedTuple):
    """One step of an episode: the state it was taken from, the action, the seed of its draws, and what it showed."""

    snapshot: Snapshot
    action: Any
    draws: int
    shown: StepResult


def walk(private: PrivateEnv, method: SnapshotMethod, steps: int, picks: np.random.Generator) -> list[Transition]:
    """Go on at random from where the environment stands, saved before each step."""
    taken: list[Transition] = []
    while len(taken) < steps and not (taken and taken[-1].shown.is_end):
        snapshot, draws = save(private, method), int(picks.integers(2**31))
        action, result = private.try_step(picks, seeded(draws))
        taken.append(Transition(snapshot, action, draws, _kept(result)))
    return taken


def _kept(result: StepResult) -> StepResult:
    """What a step showed, as it stays when the environment goes on."""
    return result._replace(observation=freeze(result.observation))


def verify_snapshot(private: PrivateEnv, method: SnapshotMethod, seed: int = 0) -> str:
    """Try a method out on random episodes; return what is wrong with it, or "" if it can be trusted."""
    picks = np.random.default_rng(seed)
    for episode in range(_WALKS):
        private.reset(seed + episode)
        outside = global_states()
        taken = walk(private, method, _STEPS, picks)
        if global_states() != outside:
            return "its step draws from NumPy's or Python's global generator; it must draw from self.np_random"
        private.reset(seed + 1000 + episode)
        walk(private, method, 3, picks)
        for origin in picks.permutation(len(taken))[:_ORIGINS].tolist():
            restore(private, method, taken[origin].snapshot)
            fault = _repeat(private, taken[origin : origin + _REPEATED])
            if fault:
                return f"after restoring, {fault}"
        fault = _with_detours(private, method, taken[:_REPEATED], picks) or _mistaken(private, method, taken)
        if fault:
            return fault
    return ""


def _with_detours(
    private: PrivateEnv, method: SnapshotMethod, taken: list[Transition], picks: np.random.Generator
) -> str:
    """Repeat an episode as a search does: restore, step, save, and go elsewhere in between."""
    snapshot = taken[0].snapshot
    for each in taken:
        restore(private, method, taken[int(picks.integers(len(taken)))].snapshot)
        private.try_step(picks, seeded(int(picks.integers(2**31))))
        restore(private, method, snapshot)
        fault = _repeat(private, [each])
        if fault:
            return f"after restoring between other states, {fault}"
        if not each.shown.is_end:
            snapshot = save(private, method)
    return ""


def _mistaken(private: PrivateEnv, method: SnapshotMethod, taken: list[Transition]) -> str:
    """Whether states of equal keys go on alike."""
    first: dict[Any, int] = {}
    for later, each in enumerate(taken):
        earlier = first.setdefault(each.snapshot.key, later)
        if earlier != later:
            restore(private, method, taken[earlier].snapshot)
            fault = _repeat(private, taken[later : later + _REPEATED])
            if fault:
                return f"it takes two states for one: {fault}"
    return ""


def _repeat(private: PrivateEnv, taken: list[Transition]) -> str:
    """Take the steps again with the same draws; return what differs, or ""."""
    for h, each in enumerate(taken):
        fault = difference(each.shown, private.step(each.action, seeded(each.draws)))
        if fault:
            return f"the same draws gave another {fault} at step {h + 1}"
    return ""


def difference(once: StepResult, again: StepResult) -> str:
    """Say where a step differs from what was shown before; empty if nowhere."""
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

    def __init__(self, private: PrivateEnv, method: SnapshotMethod, name: str) -> None:
        self._private, self._method, self._name = private, method, name
        self._start: Any = None
        self._last: Any = None
        self._steps: list[tuple[Any, Any, StepResult]] = []
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

    def record(self, draws: Any, action: Any, result: StepResult, state: Any) -> None:
        """Keep what a step with ``draws`` (the state of a generator's bits) showed."""
        self._steps.append((draws, action, _kept(result)))
        self._last = state

    def _repeat(self) -> None:
        if not self._steps:
            return
        restore(self._private, self._method, self._start.snapshot)
        for h, (draws, action, once) in enumerate(self._steps):
            kind: Any = getattr(np.random, draws["bit_generator"])
            bits = kind(0)
            bits.state = draws
            fault = difference(once, self._private.step(action, np.random.Generator(bits)))
            if fault:
                taken = ", ".join(short(each[1], 40) for each in self._steps[: h + 1])
                raise ModelError(
                    f"{self._name} did not repeat itself: from the state {short(self._start)} the action {taken} gave, "
                    f"with the same draws, another {fault}; something that its step depends on is neither saved nor "
                    f"restored by {self._method.name}. Give your own save= and restore=, or write a Simulator"
                )
