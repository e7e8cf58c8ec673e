"""What the known outcomes support: one backward induction before every answer.

    Q_h(s, a) = ERM_{beta_h}(cost + discount V_{h+1}(s')),   V_h(s) = min_a Q_h(s, a)

over the (step, state) pairs that known outcomes reach from the root, and over those outcomes after which something is
known. Exploring counts a state that was never acted in at the least that it could be; an answer does not count it at
all. How likely the best actions are to lead to one is said beside the values: the *unexplored* probability.

How sure the answer is: the induction is done again under weights drawn from the Dirichlet distribution that the counts
leave possible (Rubin's Bayesian bootstrap, 1981), with a prior weight on an outcome that was not seen. The least of
uncertain values is too low, in every one of these as in the answer itself; so others plan on one half of the draws and
value that plan by the other half, which is too high, if anything (van Hasselt's double estimator, 2010).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import borrowed, inlined, kernel
from tailwise._random import next_double
from tailwise.risk.accumulator import merge_values
from tailwise.search.learned.backups import (
    Ahead,
    between,
    cost_offset,
    leaf_of,
    pair_erm,
    pair_error,
    value_after,
    within_bounds,
)
from tailwise.search.learned.counts import DISMISSED, OUTCOMES, PAIRS, find_node, place_of


@inlined
def draw_normal(stream):  # type: ignore[no-untyped-def]
    """A standard normal draw (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - next_double(stream)))
    return radius * math.cos(2.0 * math.pi * next_double(stream))


@inlined
def draw_gamma(shape, stream):  # type: ignore[no-untyped-def]
    """A Gamma draw of ``shape`` >= 1 (Marsaglia and Tsang, 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = draw_normal(stream)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if math.log(1.0 - next_double(stream)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


MOST_PAIRS = 2**24  # (step, state) pairs of an answer
_UNSEEN = 0.5  # draws that an outcome never seen counts for, before there were any
SLIPS, SLIPS_FADE = 0.5, 0.25  # share of a later decision's value that slips cost at one draw an action; its power
_MOST_TILT = 300.0  # exponent
_SPLIT_ONE_BY_ONE = 64  # draws; more are split by the normal approximation


class Reached(NamedTuple):
    """The states that known outcomes reach from the root, step by step."""

    states: NDArray[np.int32]  # (P,) handles
    offsets: NDArray[np.int64]  # (H - h + 1,) where those of each step begin
    cut: int  # the step whose states are worth what the search holds them for: H, or less where time is short
    ends: NDArray[np.float64]  # what the end costs, by handle; (0,) where it costs nothing
    space: NDArray[np.float64]  # (6, S) to work in, by handle; infinite, but for the two rows in the middle


@inlined
def pair_of(known, horizon, state, a, h):  # type: ignore[no-untyped-def]
    """The pair of an action at step ``h``, 0 if nothing is known of it.

    The last step's costs hold the end's, so that they are counted apart; more draws of other steps serve instead.
    """
    place = place_of(known, horizon, state, h)
    pair = np.int64(known.first[place]) if place < known.first.size else 0
    if pair != 0:
        pair = pair + a if known.visits[pair + a] > 0 else 0
    if known.step_kinds == 2 and h + 1 == horizon and place - 1 < known.first.size:
        other = np.int64(known.first[place - 1])
        if other != 0 and known.draws[other + a] > (known.draws[pair] if pair != 0 else 0):
            return other + a
    return pair


@inlined
def num_actions_of(known, horizon, state, h):  # type: ignore[no-untyped-def]
    """Number of actions of a state, 0 where it was never acted in."""
    place, number = place_of(known, horizon, state, h), 0
    if place < known.first.size and known.first[place] != 0:
        number = known.arity[place]
    if known.step_kinds == 2 and h + 1 == horizon and place - 1 < known.first.size and known.first[place - 1] != 0:
        number = known.arity[place - 1]
    return number


@inlined
def largest(handles, count):  # type: ignore[no-untyped-def]
    """The largest of the first ``count`` handles; numba's own takes half a second to compile."""
    found = np.int64(-1)
    for k in range(count):
        found = max(found, np.int64(handles[k]))
    return found


@kernel
def reach(known, horizon, root, depth, most):  # type: ignore[no-untyped-def]
    """Return states, offsets and cut of :class:`Reached`: from ``root`` at step ``depth``.

    After the root it is cut once ``most`` outcomes were looked at; an answer looks at no more of them.
    """
    known = borrowed(known)
    states, offsets, cut = np.empty(256, np.int32), np.zeros(horizon - depth + 1, np.int64), horizon
    latest = np.full(max(largest(known.targets, known.used[OUTCOMES]), root) + 1, -1, np.int32)
    states[0], used = root, 1
    for h in range(depth, horizon):
        begin, end = offsets[h - depth], used
        for k in range(h - depth + 1, offsets.size):
            offsets[k] = end
        for k in range(begin, end):
            place = place_of(known, horizon, np.int64(states[k]), h)
            if place >= known.first.size or known.first[place] == 0:
                continue
            if most < 0 and h > depth:
                cut = h
                break
            for pair in range(known.first[place], known.first[place] + known.arity[place]):
                most -= np.int64(known.widths[pair])
                outcome = np.int64(known.heads[pair]) if h + 1 < horizon else 0
                while outcome != 0:
                    target = known.targets[outcome]
                    outcome = np.int64(known.links[outcome])
                    if target < 0 or latest[target] == h or used == MOST_PAIRS:
                        continue
                    if used == states.size:
                        states = np.concatenate((states, np.empty(used, np.int32)))
                    latest[target], states[used] = h, target
                    used += 1
        if cut < horizon:
            used = end
            break
    return states[:used].copy(), offsets, cut


@kernel
def untried(known, horizon, depth, reached):  # type: ignore[no-untyped-def]
    """Greatest probability with which known outcomes lead from the root to an action, or to a state, never tried."""
    known, reached = borrowed(known), borrowed(reached)
    last = max(largest(known.targets, known.used[OUTCOMES]), largest(reached.states, reached.states.size))
    chances = np.zeros((2, last + 1))
    for h in range(horizon - 1, depth - 1, -1):
        here, after = h % 2, 1 - h % 2
        for k in range(reached.offsets[h - depth], reached.offsets[h - depth + 1]):
            state = np.int64(reached.states[k])
            num_actions = num_actions_of(known, horizon, state, h)
            best = 0.0 if num_actions > 0 else 1.0
            for a in range(num_actions):
                pair = pair_of(known, horizon, state, a, h)
                if pair == 0:
                    best = 1.0
                    break
                outcome, chance = np.int64(known.heads[pair]), 0.0
                while outcome != 0:
                    if known.targets[outcome] >= 0 and h + 1 < horizon:
                        chance += known.counts[outcome] * chances[after, known.targets[outcome]]
                    outcome = np.int64(known.links[outcome])
                best = max(best, chance / known.draws[pair])
            chances[here, state] = best
    return chances[depth % 2, reached.states[0]]


@inlined
def unexplored_after(known, ahead, unexplored, weights, rules, pair, h):  # type: ignore[no-untyped-def]
    """Probability of coming from ``pair`` to a state in which nothing was tried; 1 if nothing has weight."""
    outcome, total, lost = known.heads[pair], 0.0, 0.0
    while outcome != 0:
        target = np.int64(known.targets[outcome])
        total += weights[outcome]
        if target >= 0 and h + 1 < rules.horizon:
            lost += weights[outcome] * (unexplored[target] if ahead.values[target] < math.inf else 1.0)
        outcome = known.links[outcome]
    return lost / total if total > 0.0 else 1.0


@inlined
def rests_on_single(known, ahead, single, weights, rules, scratch, pair, h, value, tally):  # type: ignore[no-untyped-def]
    """Share of the risk ``value`` of a pair that rests on outcomes seen once, there or later.

    Probabilities are those under which the ERM is an expectation, less what they are worth (its dual form). About so
    much of it is still unseen (Good, 1953). Where costs alone differ, all of them may: there it is of what one draw
    has beyond an equal share the part that it would be drawn again. ``tally`` is room to count in: 0 by target.
    """
    outcome, total, share, alone = known.heads[pair], 0.0, 0.0, 0.0
    while outcome != 0:
        tally[max(np.int64(-1), np.int64(known.targets[outcome]))] += known.counts[outcome]
        outcome = known.links[outcome]
    outcome = known.heads[pair]
    while outcome != 0:
        target, weight = np.int64(known.targets[outcome]), weights[outcome]
        x = known.costs[outcome] + rules.discount * value_after(ahead, rules, scratch, target, h + 1)
        if x < math.inf and weight > 0.0:
            weight *= math.exp(min(_MOST_TILT, rules.betas[h] * (x - value)))
            total += weight
            if tally[max(np.int64(-1), target)] == 1:
                share += weight
            else:
                if known.counts[outcome] == 1:
                    alone = max(alone, weight)
                if target >= 0 and h + 1 < rules.horizon:
                    share += weight * single[target]
        outcome = known.links[outcome]
    outcome = known.heads[pair]
    while outcome != 0:
        tally[max(np.int64(-1), np.int64(known.targets[outcome]))] = 0
        outcome = known.links[outcome]
    if total == 0.0:
        return 1.0
    return min(1.0, (share + alone * max(0.0, alone / total - 1.0 / known.draws[pair])) / total)


@inlined
def induct(  # type: ignore[no-untyped-def]
    model, known, nodes, rules, scratch, depth, reached, weights, held_out, unseen, likeness, slips, tally, out
):
    """Backward induction under ``weights``: fill ``out`` (3, A): the root's Q, what it leaves unexplored, held-out Q.

    The last is that of the plan that is optimal under ``weights``, valued under the weights ``held_out`` (if there are
    any). After the root a state is worth a part of what its actions are on average, if a share ``slips`` is above 0;
    what rests on single draws then takes the place of what is unexplored.
    The rows of ``reached.space`` are values at steps of even and of odd number, what is unexplored from there, and
    held-out values. Return the number of outcomes looked at.
    """
    looked, work = 0, reached.space
    for h in range(min(reached.cut, rules.horizon - 1), depth - 1, -1):
        here, after = h % 2, 1 - h % 2
        if h + 2 < rules.horizon:  # forget the step after the next
            for k in range(reached.offsets[h + 2 - depth], reached.offsets[h + 3 - depth]):
                work[here, reached.states[k]], work[4 + here, reached.states[k]] = math.inf, math.inf
        ahead, held_ahead = Ahead(work[after], reached.ends), Ahead(work[4 + after], reached.ends)
        for k in range(reached.offsets[h - depth], reached.offsets[h - depth + 1]):
            state = np.int64(reached.states[k])
            if h == reached.cut:
                best = nodes.values[find_node(nodes, h, state)]
                work[here, state], work[2 + here, state], work[4 + here, state] = best, 0.0, best
                continue
            best, taken, risk, low, high = math.inf, 0, math.inf, math.inf, math.inf
            chosen = np.int64(0)  # a literal would have numba compile what takes it for the literal, too
            tried, drawn, mean = 0, 0, 0.0
            node = find_node(nodes, h, state) if (rules.leaves or rules.bounded) and h > depth else 0
            leaf = leaf_of(nodes, node) if node != 0 and nodes.used[DISMISSED] == 0 else math.inf
            for a in range(num_actions_of(known, rules.horizon, state, h)):
                pair = pair_of(known, rules.horizon, state, a, h)
                if pair == 0:
                    low = -math.inf
                    continue
                q = pair_erm(known, ahead, weights, rules, scratch, pair, h)
                if unseen[pair] > 0.0 and q < math.inf:
                    like = likeness[pair]
                    target = np.int64(known.targets[like])
                    x = known.costs[like] + rules.discount * value_after(ahead, rules, scratch, target, h + 1)
                    if x < math.inf:
                        q = merge_values(q, x, unseen[pair], rules.betas[h])
                erm = q
                error = pair_error(known, ahead, weights, rules, scratch, pair, h, q) if leaf < math.inf > q else 0.0
                q += cost_offset(model, state, a, h)
                low, high = min(low, q - error if q < math.inf else -math.inf), min(high, q + error)
                looked += known.widths[pair]
                if h == depth:
                    out[0, a] = q
                    if slips > 0.0:
                        out[1, a] = rests_on_single(
                            known, ahead, work[2 + after], weights, rules, scratch, pair, h, erm, tally
                        )
                    else:
                        out[1, a] = unexplored_after(known, ahead, work[2 + after], weights, rules, pair, h)
                    if held_out.size > 0:
                        held = pair_erm(known, held_ahead, held_out, rules, scratch, pair, h)
                        out[2, a] = held + cost_offset(model, state, a, h) if held < math.inf else q
                if slips > 0.0 and q < math.inf:
                    tried, drawn = tried + 1, drawn + known.draws[pair]
                    mean += (q - mean) * known.draws[pair] / drawn
                if q < best:
                    best, chosen, taken, risk = q, pair, a, erm
            work[2 + here, state] = 0.0
            if chosen != 0 and slips > 0.0:
                work[2 + here, state] = rests_on_single(
                    known, ahead, work[2 + after], weights, rules, scratch, chosen, h, risk, tally
                )
            elif chosen != 0:
                work[2 + here, state] = unexplored_after(known, ahead, work[2 + after], weights, rules, chosen, h)
            elif leaf < math.inf:
                best = nodes.values[node]
            if chosen != 0 and leaf < math.inf:
                best = between(leaf, low, high)
                if best == leaf:
                    chosen = np.int64(0)
            elif tried > 1 and h > depth:
                best += min(1.0, slips * (tried / drawn) ** SLIPS_FADE) * (mean - best)
            if best < math.inf:
                best = within_bounds(nodes, node, best)
            elif node != 0 and rules.bounded and nodes.used[DISMISSED] == 0:  # nothing was tried: it is no worse
                best = nodes.most[node]
            work[here, state], work[4 + here, state] = best, best
            if held_out.size > 0 and chosen != 0:
                held = pair_erm(known, held_ahead, held_out, rules, scratch, chosen, h)
                if held < math.inf:
                    work[4 + here, state] = held + cost_offset(model, state, taken, h)
    for state in reached.states[: reached.offsets[min(2, reached.offsets.size - 1)]]:
        for row in (0, 1, 4, 5):
            work[row, state] = math.inf
    return looked


@inlined
def outcomes_before_the_end(known, horizon):  # type: ignore[no-untyped-def]
    """Which pairs are of the last step, and the outcomes of the others: at an earlier step it would end the episode."""
    last = 1 if known.step_kinds == 2 else horizon - 1
    is_last = np.zeros(known.used[PAIRS], np.bool_)
    for place in range(last, known.first.size, known.step_kinds):
        if known.first[place] != 0:
            for pair in range(known.first[place], known.first[place] + known.arity[place]):
                is_last[pair] = True
    found = np.empty(known.used[OUTCOMES], np.int64)
    count = 0
    for outcome in range(1, known.used[OUTCOMES]):
        if not is_last[known.pairs[outcome]]:
            found[count] = outcome
            count += 1
    return is_last, found[:count]


@inlined
def draw_weights(known, stream, weights, unseen, likeness, is_last, earlier):  # type: ignore[no-untyped-def]
    """Draw the weights of all outcomes from what the counts leave possible, and those of one more for each action.

    That one was not seen: ``unseen`` is its share, ``likeness`` an outcome seen anywhere that it is like; before the
    last step, one of the ``earlier``.
    """
    outcomes = known.used[OUTCOMES]
    unseen[:] = 0.0
    for k in range(1, outcomes):
        weights[k] = draw_gamma(float(known.counts[k]), stream)
        unseen[known.pairs[k]] += weights[k]
    for pair in range(1, unseen.size):
        if unseen[pair] > 0.0:
            weight = draw_gamma(1.0 + _UNSEEN, stream) * next_double(stream) ** (1.0 / _UNSEEN)
            unseen[pair] = weight / (weight + unseen[pair])
            pick = next_double(stream)
            if is_last[pair] or earlier.size == 0:
                likeness[pair] = 1 + int(pick * (outcomes - 1))
            else:
                likeness[pair] = earlier[int(pick * earlier.size)]


@inlined
def split_weights(known, stream, weights, held_out):  # type: ignore[no-untyped-def]
    """Split the draws at random in two halves, and draw weights from what each leaves possible."""
    for k in range(1, known.used[OUTCOMES]):
        count = known.counts[k]
        first = 0
        if count > _SPLIT_ONE_BY_ONE:
            first = min(count, max(0, int(0.5 * (count + math.sqrt(float(count)) * draw_normal(stream) + 1.0))))
        else:
            for _ in range(count):
                if next_double(stream) < 0.5:
                    first += 1
        weights[k] = draw_gamma(float(first), stream) if first > 0 else 0.0
        held_out[k] = draw_gamma(float(count - first), stream) if first < count else 0.0


def answer(model, parts, depth, reached, stream, splits, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (B, 3, A) by B inductions: under the counts (no ``stream``), or under weights drawn from them.

    Under the counts a second one lets later decisions slip; under weights every other one has outcomes that were not
    seen, and the last ``splits`` hold one half of the draws out. Return the number of outcomes that one looks at.
    """
    known, nodes, rules, scratch = parts
    weights = np.empty(known.used[OUTCOMES])
    held_out, none = np.empty(known.used[OUTCOMES]), np.empty(0)
    unseen, likeness = np.zeros(known.used[PAIRS]), np.zeros(known.used[PAIRS], np.int64)
    model, known, nodes, rules = borrowed(model), borrowed(known), borrowed(nodes), borrowed(rules)
    scratch, reached, out = borrowed(scratch), borrowed(reached), borrowed(out)
    looked, is_last, earlier = 0, np.empty(0, np.bool_), np.empty(0, np.int64)
    tally = np.zeros(reached.space.shape[1] + 1 if stream.size == 0 else 0, np.int64)  # the last for those that end
    if stream.size > 0:
        is_last, earlier = outcomes_before_the_end(known, rules.horizon)
    for k in range(1, known.used[OUTCOMES]):
        weights[k] = known.counts[k]
    for b in range(out.shape[0]):
        held, slips = none, SLIPS if b == 1 and stream.size == 0 else 0.0
        if b >= out.shape[0] - splits:
            split_weights(known, stream, weights, held_out)
            unseen[:] = 0.0
            held = held_out
        elif stream.size > 0:
            draw_weights(known, stream, weights, unseen, likeness, is_last, earlier)
            if b % 2 == 1:
                unseen[:] = 0.0
        looked = induct(
            model, known, nodes, rules, scratch, depth, reached, weights, held, unseen, likeness, slips, tally, out[b]
        )
    return looked
