"""The check that a plan cannot foresee: restored steps must follow the law of independently seeded episodes.

A saved environment may carry its future with it: in a random generator that the planner does not reach, or in what
it drew beforehand (a deck, the next card, a map, a series of prices). The planner would then try an action, see
what chance holds, and promise what nobody can achieve. Nothing is looked for inside the environment; what it *does*
is compared.

From a *place* (some steps into an episode), three samples of what the next eight steps show, under the same actions:

restored
    the snapshot, restored again and again, each time with fresh draws: what the planner sees.
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
import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise.models.contract import short
from tailwise.models.gymnasium.copying import freeze
from tailwise.models.gymnasium.private_env import PrivateEnv, seeded
from tailwise.models.gymnasium.snapshots import Transition, difference, walk

ALPHA = 1e-4
_DEPTHS = (0, 0, 0, 2, 5)
_AHEAD = 8
_FEW, _MANY = 8, 40  # repetitions: at first, and where anything varies
_TRIES = 2  # fresh episodes begun for each one that is wanted
_STARTS = (12, 40, 240)  # seeds tried if all start alike; if none do; if some do
_FEWEST = 2
_MOST_PARTS = 48
_SHUFFLES = (199, 9_999)  # at first, and where few are as far
_PINNING = threading.Lock()

Trace = dict[str, tuple[Hashable, ...]]  # part of what is shown: its values, step by step


class Leak(NamedTuple):
    """The verdict: ``fault`` if a plan would foresee, and ``note`` for the user."""

    fault: str
    note: str


class _Place(NamedTuple):
    ahead: list[Any]
    restored: list[Trace]
    same_start: list[Trace]
    fresh: list[Trace]


def find_leak(private: PrivateEnv, seed: int = 0) -> Leak:
    """Compare restored steps with independently seeded episodes."""
    groups = _starts_alike(private, seed)
    for size in (_FEW, _MANY):
        places = [_sample(private, _share(groups, k), k, seed, size) for k in range(len(_DEPTHS))]
        leak = _judge(places, is_plain=private.method.is_plain)
        traces = [[*each.restored, *each.same_start, *each.fresh] for each in places]
        if leak.fault or all(trace == tried[0] for tried in traces for trace in tried):
            break
    return leak


def _share(groups: list[list[int]], k: int) -> list[int]:
    """The seeds of place ``k``: no two places share an episode, as their chances are multiplied."""
    sharing = -(-len(_DEPTHS) // len(groups))
    group = groups[k % len(groups)]
    return group[k // len(groups) :: sharing] or group


def _starts_alike(private: PrivateEnv, seed: int) -> list[list[int]]:
    """Seeds whose episodes start alike, the largest groups first; single seeds if there are no such groups."""
    groups: dict[Hashable, list[int]] = {}
    for begun in range(_STARTS[2]):
        if (begun == _STARTS[0] and len(groups) == 1) or (begun == _STARTS[1] and len(groups) == begun):
            break
        groups.setdefault(freeze(private.reset(seed + begun)), []).append(seed + begun)
    if len(groups) == 1:
        return [list(range(seed, seed + len(_DEPTHS) * _TRIES * _MANY))]
    ordered = sorted(groups.values(), key=len, reverse=True)
    return [group for group in ordered[: len(_DEPTHS)] if len(group) >= _FEWEST] or ordered[: len(_DEPTHS)]


def _sample(private: PrivateEnv, alike: list[int], k: int, seed: int, size: int) -> _Place:
    """Lead an episode to a place, and collect what comes next in the three ways."""
    picks = np.random.default_rng([seed, k])
    start = freeze(private.reset(alike[0]))
    taken = walk(private, _DEPTHS[k] + _AHEAD, picks)
    at = min(_DEPTHS[k], len(taken) - 1)
    before, snapshot, ahead = taken[:at], taken[at].snapshot, [each.action for each in taken[at:]]
    while len(ahead) < _AHEAD:  # the episode ended early; others may not
        ahead.append(private.actions.natives[int(picks.integers(len(private.actions.natives)))])
    place = _Place(ahead, [], [], [])
    for i in range(size):
        private.restore(snapshot)
        place.restored.append(_follow(private, ahead, seeded(seed, k, 0, i)))
    for i in range(size):
        with _pinned(alike[0]):
            is_led = freeze(private.reset(alike[0] if i % 2 == 0 else 10_000 + seed + i)) == start
        if is_led and _is_led(private, before, is_own=False):
            place.same_start.append(_follow(private, ahead, seeded(seed, k, 1, i)))
    for other in alike[1 : _TRIES * size]:
        if len(place.fresh) == size:
            break
        if freeze(private.reset(other)) == start and _is_led(private, before, is_own=True):
            place.fresh.append(_follow(private, ahead, None))
    return place


def _is_led(private: PrivateEnv, before: list[Transition], *, is_own: bool) -> bool:
    """Lead an episode to the place, by its own draws or by the recorded ones; whether it looks the same so far."""
    try:
        for each in before:
            result = private.go_on(each.action) if is_own else private.step(each.action, seeded(each.draws))
            if difference(each.shown, result):
                return False
    except Exception:  # an action that is illegal here
        return False
    return True


@contextmanager
def _pinned(seed: int) -> Iterator[None]:
    """Within it each ``np_random`` that this thread makes has ``seed``, whatever ``reset`` is given."""
    from gymnasium.utils import seeding

    thread = threading.get_ident()
    with _PINNING:
        original = seeding.np_random

        def pinned(given: int | None = None) -> tuple[np.random.Generator, int]:
            return original(seed if threading.get_ident() == thread else given)

        seeding.np_random = pinned  # type: ignore[assignment]
        try:
            yield
        finally:
            seeding.np_random = original


def _follow(private: PrivateEnv, actions: list[Any], rng: np.random.Generator | None) -> Trace:
    """Take the actions, with draws from ``rng`` or from whatever the environment draws from; to the end at most."""
    seen: dict[str, list[Hashable]] = {}
    for action in actions:
        if private.allowed is not None and not any(action is each for each in private.legal()):
            break
        try:
            result = private.go_on(action) if rng is None else private.step(action, rng)
        except Exception as error:  # an illegal action here, if it was legal in the episode that leads
            seen.setdefault("error", []).append(type(error).__name__)
            break
        paid: list[tuple[str, Hashable]] = [("reward", freeze(result.reward)), ("end", result.is_end)]
        shown = itertools.chain(paid, _flat("observation", result.observation))
        for part, value in itertools.islice(shown, _MOST_PARTS):
            seen.setdefault(part, []).append(value)
        if result.is_end:
            break
    return {part: tuple(values) for part, values in seen.items()}


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


def _judge(places: list[_Place], *, is_plain: bool) -> Leak:
    if not any(each.same_start or each.fresh for each in places):
        return Leak("its reset starts differently each time, even with one seed: there is nothing to compare with", "")
    foreseen = _foreseen(places, "same_start") or _other_law(places, "same_start")
    if foreseen:
        return Leak(
            f"it draws from a generator out of the planner's reach, whose future a saved state tells: {foreseen}", ""
        )
    foreseen = _foreseen(places, "fresh")
    if foreseen:
        return Leak(
            "its future is fixed beforehand, and a saved state tells it (a generator out of reach, or a "
            f"shuffled deck, a map, a series of prices that the player does not see): {foreseen}",
            "",
        )
    more = _other_law(places, "fresh")
    if more and not is_plain:
        return Leak(f"a saved state tells more of the future than a player knows: {more}", "")
    return Leak("", f"the plan may know more than a player sees: {more}" if more else _summary(places))


def _summary(places: list[_Place]) -> str:
    fresh, again = sum(len(each.fresh) for each in places), sum(len(each.same_start) for each in places)
    is_random = any(trace != each.restored[0] for each in places for trace in each.restored)
    others = (
        f"{fresh} independently seeded episodes" if fresh else f"{again} restarted episodes (no two seeds start alike)"
    )
    if is_random:
        return f"restored steps follow the law of {others}"
    return f"no step was random in {others}: the plan is that of one who knows all that the environment holds"


def _foreseen(places: list[_Place], kind: str) -> str:
    """Name a part that never varies among restored steps, or their first ones, where it varies among the others."""
    names = dict.fromkeys(name for each in places for trace in (*each.restored, *getattr(each, kind)) for name in trace)
    for name, ahead in itertools.product(names, (_AHEAD, 1)):
        chance, worst = 0.0, (0, "")
        for each in places:
            restored = [trace.get(name, ())[:ahead] for trace in each.restored]
            seen = [trace.get(name, ())[:ahead] for trace in getattr(each, kind)]
            if not seen or len({*restored, *seen}) == 1:
                continue
            if len(set(restored)) > 1:
                break
            deviating = sum(other != restored[0] for other in seen)
            chance += math.log(math.comb(len(seen), deviating) / math.comb(len(seen) + len(restored), deviating))
            worst = max(worst, (deviating, _described(each, name, restored[0], seen)))
        else:
            if chance < math.log(ALPHA / 6 / len(names)):
                return worst[1]
    return ""


def _described(place: _Place, name: str, value: Any, seen: list[Any]) -> str:
    common = ", ".join(f"{count} times {short(other, 60)}" for other, count in Counter(seen).most_common(2))
    actions = ", ".join(short(action, 20) for action in place.ahead)
    return (
        f"under the actions {actions} the {name} is {short(value, 60)} in {len(place.restored)} restored episodes, "
        f"and in {len(seen)} others {common}"
    )


def _other_law(places: list[_Place], kind: str) -> str:
    """Name a part that has another law among restored steps, by a permutation test at each place."""
    names = dict.fromkeys(name for each in places for trace in each.restored for name in trace)
    for name in names:
        logs, worst = [], (1.0, "")
        for each in places:
            scores = _scores(each, name, kind)
            if scores.size:
                chance = _permuted(scores, len(each.restored))
                logs.append(math.log(chance))
                mode = Counter(trace.get(name) for trace in each.restored).most_common(1)[0][0]
                seen = [trace.get(name) for trace in getattr(each, kind)]
                worst = min(worst, (chance, _described(each, name, mode, seen)))
        half = -sum(logs)  # Fisher: twice that is chi-square with two degrees of freedom for each place
        if math.exp(-half) * sum(half**i / math.factorial(i) for i in range(len(logs))) < ALPHA / 6 / len(names):
            return worst[1]
    return ""


def _scores(place: _Place, name: str, kind: str) -> NDArray[np.float64]:
    """One row for each trace, and a standardised column of ranks for each step at which anything varies."""
    columns = []
    others: list[Trace] = getattr(place, kind)
    for step in range(_AHEAD if others else 0):
        values = [
            trace[name][step] if len(trace.get(name, ())) > step else None for trace in (*place.restored, *others)
        ]
        # restored steps that are more random than fresh ones foresee nothing
        if len({*values}) == 1 or (kind == "fresh" and len({*values[len(place.restored) :]}) == 1):
            continue
        is_numeric = all(isinstance(value, (int, float)) for value in values)
        ordered: list[Any] = sorted({*values}, key=None if is_numeric else repr)
        rank = {value: at for at, value in enumerate(ordered)}
        ranks = np.array([rank[value] for value in values], dtype=np.float64)
        columns.append((ranks - ranks.mean()) / ranks.std())
    return np.array(columns).T


def _permuted(scores: NDArray[np.float64], count: int) -> float:
    """Chance that a random choice of ``count`` rows has sums as far from zero as the first ones."""
    chance = 1.0
    for shuffles in _SHUFFLES:
        if chance <= 0.02 or shuffles == _SHUFFLES[0]:
            chosen = np.zeros((shuffles + 1, len(scores)))
            chosen[:, :count] = 1.0
            chosen[1:] = np.random.default_rng(len(scores)).permuted(chosen[1:], axis=1)
            far = ((chosen @ scores) ** 2).sum(axis=1)
            chance = float((far >= far[0] * (1 - 1e-12)).mean())
    return chance
