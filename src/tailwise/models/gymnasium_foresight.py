"""The check that a plan cannot foresee: restored steps must follow the law of independently seeded episodes.

A saved environment may carry its future with it: in a random generator that the planner does not reach, or in what
it drew beforehand (a deck, the next card, a map, a series of prices). The planner would then try an action, see
what chance holds, and promise what nobody can achieve. Nothing is looked for inside the environment; what it *does*
is compared.

From a *place* (some steps into an episode), three samples of what the next eight steps show, under the same actions:

restored
    the saved state, restored again and again, each time with fresh draws: what the planner sees.
same start
    reset as that episode was, led to the place with the same draws, and on with fresh ones. Every second time
    ``reset`` gets another seed, while Gymnasium's ``np_random`` is pinned to the old one: a generator of its own
    then differs.
fresh
    independently seeded episodes, with the environment's own draws, that have looked the same up to the place: what
    happens to a player. There are some only where differently seeded episodes can look alike.

Two exact tests, each at an error rate of ALPHA over all that is compared. *Foreseen*: a part of what is shown (the
reward, the end, a number of the observation) never varies among restored steps, or among the first ones after
restoring, at any place where it varies among the others; if both had one law, the chance that all of the m
deviating ones of n + N fell among the n others is C(n, m) / C(n + N, m) at each place. *Another law*: the ranks of
one part at each step are summed over the restored episodes and compared with what 9,999 random choices of as many
episodes give, place by place, and the places are put together by Fisher's rule. The samples have fixed sizes and
seeds: the verdict on an environment is always the same.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.models.gymnasium_machine import Machine, Outcome, freeze, seeded
from tailwise.models.gymnasium_saving import Way, restore
from tailwise.models.gymnasium_trial import Leg, difference, walk
from tailwise.models.simulator import short

ALPHA = 1e-4
_DEPTHS = (0, 0, 0, 2, 5)
_AHEAD = 8
_FEW, _MANY = 8, 40  # repetitions: at first, and where anything varies
_TRIES = 2  # fresh episodes begun for each one that is wanted
_STARTS = (12, 40, 240)  # seeds tried if all start alike; if none do; if some do
_FEWEST = 2
_MOST_PARTS = 48
_SHUFFLES = (199, 9_999)  # at first, and where few are as far

Trace = dict[str, tuple[Hashable, ...]]  # part of what is shown: its values, step by step


class Foresight(NamedTuple):
    """The verdict: ``fault`` if the plan would foresee, and ``note`` for the user."""

    fault: str
    note: str


class _Samples(NamedTuple):
    ahead: list[Any]
    restored: list[Trace]
    same_start: list[Trace]
    fresh: list[Trace]


def find_foresight(machine: Machine, way: Way, seed: int = 0) -> Foresight:
    """Compare restored steps with independently seeded episodes."""
    groups = _starts_alike(machine, seed)
    for size in (_FEW, _MANY):
        samples = [_sample(machine, way, _share(groups, k), k, seed, size) for k in range(len(_DEPTHS))]
        told = _judge(samples, way)
        traces = [[*each.restored, *each.same_start, *each.fresh] for each in samples]
        if told.fault or all(trace == tried[0] for tried in traces for trace in tried):
            break
    return told


def _share(groups: list[list[int]], k: int) -> list[int]:
    """The seeds of place ``k``: no two places share an episode, as their chances are multiplied."""
    sharing = -(-len(_DEPTHS) // len(groups))
    group = groups[k % len(groups)]
    return group[k // len(groups) :: sharing] or group


def _starts_alike(machine: Machine, seed: int) -> list[list[int]]:
    """Seeds whose episodes start alike, the largest groups first; single seeds if there are no such groups."""
    groups: dict[Hashable, list[int]] = {}
    for begun in range(_STARTS[2]):
        if (begun == _STARTS[0] and len(groups) == 1) or (begun == _STARTS[1] and len(groups) == begun):
            break
        groups.setdefault(freeze(machine.reset(seed + begun)), []).append(seed + begun)
    if len(groups) == 1:
        return [list(range(seed, seed + len(_DEPTHS) * _TRIES * _MANY))]
    ordered = sorted(groups.values(), key=len, reverse=True)
    return [group for group in ordered[: len(_DEPTHS)] if len(group) >= _FEWEST] or ordered[: len(_DEPTHS)]


def _sample(machine: Machine, way: Way, alike: list[int], k: int, seed: int, size: int) -> _Samples:
    """Lead an episode to a place, and collect what comes next in the three ways."""
    picks = np.random.default_rng([seed, k])
    start = freeze(machine.reset(alike[0]))
    legs = walk(machine, way, _DEPTHS[k] + _AHEAD, picks)
    at = min(_DEPTHS[k], len(legs) - 1)
    before, saved, ahead = legs[:at], legs[at].saved, [leg.action for leg in legs[at:]]
    while len(ahead) < _AHEAD:  # the episode ended early; others may not
        ahead.append(machine.actions.natives[int(picks.integers(len(machine.actions.natives)))])
    samples = _Samples(ahead, [], [], [])
    for i in range(size):
        restore(machine, way, saved)
        samples.restored.append(_follow(machine, ahead, _draws(seed, k, 0, i)))
    for i in range(size):
        with _pinned(alike[0]):
            is_led = freeze(machine.reset(alike[0] if i % 2 == 0 else 10_000 + seed + i)) == start
        if is_led and _led(machine, before, is_own=False):
            samples.same_start.append(_follow(machine, ahead, _draws(seed, k, 1, i)))
    for other in alike[1 : _TRIES * size]:
        if len(samples.fresh) == size:
            break
        if freeze(machine.reset(other)) == start and _led(machine, before, is_own=True):
            samples.fresh.append(_follow(machine, ahead, None))
    return samples


def _led(machine: Machine, before: list[Leg], *, is_own: bool) -> bool:
    """Lead an episode to the place, by its own draws or by the recorded ones; whether it looks the same so far."""
    try:
        for leg in before:
            outcome = machine.go_on(leg.action) if is_own else machine.step(leg.action, seeded(leg.draws))
            if difference(leg.shown, outcome):
                return False
    except Exception:  # an action that is illegal here
        return False
    return True


def _draws(*key: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(key))


@contextmanager
def _pinned(seed: int) -> Iterator[None]:
    """Within it every environment's ``np_random`` is seeded with ``seed``, whatever ``reset`` is given."""
    from gymnasium.utils import seeding

    original = seeding.np_random

    def pinned(seed: int | None = None, *, _seed: int = seed) -> Any:
        return original(_seed)

    seeding.np_random = pinned
    try:
        yield
    finally:
        seeding.np_random = original


def _follow(machine: Machine, actions: list[Any], rng: np.random.Generator | None) -> Trace:
    """Take the actions, with draws from ``rng`` or from whatever the environment draws from; to the end at most."""
    seen: dict[str, list[Hashable]] = {}
    for action in actions:
        if machine.allowed is not None and not any(action is each for each in machine.legal()):
            break
        try:
            outcome = machine.go_on(action) if rng is None else machine.step(action, rng)
        except Exception as error:  # an illegal action here, if it was legal in the episode that leads
            seen.setdefault("error", []).append(type(error).__name__)
            break
        for part, value in _parts(outcome):
            seen.setdefault(part, []).append(value)
        if outcome.is_end:
            break
    return {part: tuple(values) for part, values in seen.items()}


def _parts(outcome: Outcome) -> list[tuple[str, Hashable]]:
    parts = [("reward", freeze(outcome.reward)), ("end", outcome.is_end), *_flat("observation", outcome.observation)]
    return parts[:_MOST_PARTS]


def _flat(name: str, value: Any) -> Iterator[tuple[str, Hashable]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{name}[{key!r}]", item)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _flat(f"{name}[{index}]", item)
    elif isinstance(value, np.ndarray) and 1 < value.size <= _MOST_PARTS:
        yield from ((f"{name}[{index}]", freeze(item)) for index, item in enumerate(value.flat))
    else:
        yield name, freeze(value)


# --------------------------------------------------------------------- verdict


def _judge(samples: list[_Samples], way: Way) -> Foresight:
    if not any(each.same_start or each.fresh for each in samples):
        return Foresight(
            "its reset starts differently each time, even with one seed: there is nothing to compare with", ""
        )
    foreseen = _foreseen(samples, "same_start") or _other_law(samples, "same_start")
    if foreseen:
        return Foresight(
            f"it draws from a generator out of the planner's reach, whose future a saved state tells: {foreseen}", ""
        )
    foreseen = _foreseen(samples, "fresh")
    if foreseen:
        return Foresight(
            "its future is fixed beforehand, and a saved state tells it (a generator out of reach, or a "
            f"shuffled deck, a map, a series of prices that the player does not see): {foreseen}",
            "",
        )
    more = _other_law(samples, "fresh")
    if more and not way.is_plain:
        return Foresight(f"a saved state tells more of the future than a player knows: {more}", "")
    if more:
        return Foresight("", f"the plan may know more than a player sees: {more}")
    return Foresight("", _summary(samples))


def _summary(samples: list[_Samples]) -> str:
    fresh, again = (sum(len(getattr(each, kind)) for each in samples) for kind in ("fresh", "same_start"))
    is_random = any(len({*map(_key, each.restored)}) > 1 for each in samples)
    others = (
        f"{fresh} independently seeded episodes" if fresh else f"{again} restarted episodes (no two seeds start alike)"
    )
    if is_random:
        return f"restored steps follow the law of {others}"
    return f"no step was random in {others}: the plan is that of one who knows all that the environment holds"


def _key(trace: Trace) -> Hashable:
    return tuple(trace.items())


def _foreseen(samples: list[_Samples], others: str) -> str:
    """Name a part that never varies among restored steps, or their first ones, where it varies among the others."""
    names = dict.fromkeys(
        name for each in samples for trace in (*each.restored, *getattr(each, others)) for name in trace
    )
    for name, ahead in itertools.product(names, (_AHEAD, 1)):
        chance, worst = 0.0, (0, "")
        for each in samples:
            restored, seen = (
                [trace.get(name, ())[:ahead] for trace in traces] for traces in (each.restored, getattr(each, others))
            )
            if not seen or len({*restored, *seen}) == 1:
                continue
            if len(set(restored)) > 1:
                break
            deviating = sum(other != restored[0] for other in seen)
            chance += _log_choose(len(seen), deviating) - _log_choose(len(seen) + len(restored), deviating)
            worst = max(worst, (deviating, _described(each, name, restored[0], seen)))
        else:
            if chance < math.log(ALPHA / 6 / len(names)):
                return worst[1]
    return ""


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _described(each: _Samples, name: str, value: Any, seen: list[Any]) -> str:
    common = ", ".join(f"{count} times {short(other, 60)}" for other, count in Counter(seen).most_common(2))
    actions = ", ".join(short(action, 20) for action in each.ahead)
    return (
        f"under the actions {actions} the {name} is {short(value, 60)} in {len(each.restored)} restored episodes, "
        f"and in {len(seen)} others {common}"
    )


def _other_law(samples: list[_Samples], others: str) -> str:
    """Name a part that has another law among restored steps, by a permutation test at each place."""
    names = dict.fromkeys(name for each in samples for trace in each.restored for name in trace)
    for name in names:
        logs, worst = [], (1.0, "")
        for each in samples:
            scores = _scores(each.restored, getattr(each, others), name, others)
            if scores.size:
                chance = _shuffled(scores, len(each.restored))
                logs.append(math.log(chance))
                seen = [trace.get(name) for trace in getattr(each, others)]
                mode = Counter(trace.get(name) for trace in each.restored).most_common(1)[0][0]
                worst = min(worst, (chance, _described(each, name, mode, seen)))
        half = -sum(logs)  # Fisher: twice that is chi-square with two degrees of freedom for each place
        if math.exp(-half) * sum(half**i / math.factorial(i) for i in range(len(logs))) < ALPHA / 6 / len(names):
            return worst[1]
    return ""


def _scores(restored: list[Trace], seen: list[Trace], name: str, others: str) -> NDArray[np.float64]:
    """One row for each trace, and a standardised column for each step at which anything varies."""
    columns = []
    for step in range(_AHEAD if seen else 0):
        a, b = (
            [trace[name][step] if len(trace.get(name, ())) > step else None for trace in traces]
            for traces in (restored, seen)
        )
        values = {*a, *b}
        if len(values) == 1 or (
            others == "fresh" and len(set(b)) == 1
        ):  # restored steps that are more random foresee nothing
            continue
        is_numeric = all(isinstance(value, (int, float)) for value in values)
        ordered: list[Any] = sorted(values, key=None if is_numeric else repr)
        rank = {value: place for place, value in enumerate(ordered)}
        ranks = np.array([rank[value] for value in a + b], dtype=np.float64)
        columns.append((ranks - ranks.mean()) / ranks.std())
    return np.array(columns).T


def _shuffled(scores: NDArray[np.float64], count: int) -> float:
    """Chance that a random choice of ``count`` rows has sums as far from zero as the first ones."""
    chance = 1.0
    for shuffles in _SHUFFLES:
        if chance <= 0.02 or shuffles == _SHUFFLES[0]:
            far = ((_choices(shuffles, len(scores), count) @ scores) ** 2).sum(axis=1)
            chance = float((far >= far[0] * (1 - 1e-12)).mean())
    return chance


def _choices(shuffles: int, rows: int, count: int) -> NDArray[np.float64]:
    chosen = np.zeros((shuffles + 1, rows))
    chosen[:, :count] = 1.0
    chosen[1:] = np.random.default_rng(rows).permuted(chosen[1:], axis=1)
    return chosen
