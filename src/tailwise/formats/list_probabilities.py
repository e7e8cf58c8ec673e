"""What the probabilities of a transition list mean: sums, rounding, and the column ``idoutcome``.

``idoutcome`` either numbers the outcomes of an action (all of them together sum to 1), or it numbers
*alternatives*, each of which sums to 1. Alternatives have no probabilities in the list: they are mixed
uniformly, with a note, or one is picked with ``outcomes=``.
"""

from __future__ import annotations

import math
from typing import NamedTuple, NoReturn

import numpy as np

from tailwise._validate import integer
from tailwise.errors import OptionError
from tailwise.formats.list_columns import Bools, Columns, Floats, Ints
from tailwise.formats.list_options import ListOptions

_EXACT = 1e-9  # sums this close to 1 are those of full precision
_SIX_DIGITS = 0.5e-6  # largest error of a number rounded to six digits


class _Sums(NamedTuple):
    """Sums of probabilities by group."""

    first: Ints  # (groups,) the first entry of each
    totals: Floats  # (groups,)
    wrong: int | None  # first entry of a group that misses 1 by too much
    group_of: Ints  # (n,)

    def rescaled(self, chance: Floats, notes: list[str]) -> Floats:
        """Divide by the sums that are not quite 1, and note it."""
        gaps = np.abs(self.totals - 1.0)
        if gaps.max() <= _EXACT:
            return chance
        notes.append(
            f"the probabilities of {int((gaps > _EXACT).sum())} actions miss a sum of 1, by up to {gaps.max():.2g}; "
            "they are rescaled"
        )
        found: Floats = chance / np.where(gaps > _EXACT, self.totals, 1.0)[self.group_of]
        return found


def _sums(groups: Ints, chance: Floats, tolerance: float | None) -> _Sums:
    """Sum probabilities by group; without a tolerance, a sum may miss 1 by what rounding to six digits explains."""
    order = None if (groups[1:] >= groups[:-1]).all() else np.argsort(groups, kind="stable")
    ordered = groups if order is None else groups[order]
    starts = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    first = np.flatnonzero(starts)
    totals = np.add.reduceat(chance if order is None else chance[order], first)
    counts = np.diff(np.append(first, groups.size))
    limit = np.maximum(1e-6, _SIX_DIGITS * counts) + _EXACT if tolerance is None else max(tolerance, _EXACT)
    group_of = np.cumsum(starts) - 1
    if order is not None:
        first, unordered = order[first], np.empty_like(group_of)
        unordered[order] = group_of
        group_of = unordered
    wrong = first[~(np.abs(totals - 1.0) <= limit)]
    return _Sums(first, totals, int(wrong.min()) if wrong.size else None, group_of)


def resolve_outcomes(
    columns: Columns, pairs: Ints, options: ListOptions, notes: list[str]
) -> tuple[Bools | slice, Floats]:
    """Entries to keep, and their probabilities, once ``idoutcome`` is understood; ``pairs`` are (state, action)."""
    chance, everything, chosen = columns.probabilities, slice(None), options.outcomes
    by_pair = _sums(pairs, chance, options.tolerance)
    if columns.alternatives is None or (by_pair.wrong is None and chosen is None):
        if by_pair.wrong is not None:
            _fail_sum(columns, pairs, by_pair.wrong, "")
        if chosen is not None:
            raise OptionError(f"outcomes={chosen!r} needs a column idoutcome, which {columns.source} does not have")
        if columns.alternatives is not None:
            notes.append("idoutcome only numbers the outcomes: the probabilities of each action sum to 1 without it")
        return everything, by_pair.rescaled(chance, notes)
    triples = pairs * (int(columns.alternatives.max()) + 1) + columns.alternatives
    by_triple = _sums(triples, chance, options.tolerance)
    if by_triple.wrong is not None:
        _fail_sum(columns, triples, by_triple.wrong, f", outcome {int(columns.alternatives[by_triple.wrong])}")
    chance = by_triple.rescaled(chance, notes)
    if chosen is None or chosen == "uniform":
        per_pair = np.bincount(by_pair.group_of[by_triple.first])
        notes.append(
            f"idoutcome numbers {int(per_pair.max())} alternatives without probabilities; "
            "they are mixed uniformly (outcomes='uniform'); pick one with outcomes=ID"
        )
        return everything, chance / per_pair[by_pair.group_of]
    wanted = integer(chosen, "outcomes", low=0, hint="it is an id in the column idoutcome, or 'uniform'")
    kept = columns.alternatives == wanted
    lacking = np.bincount(by_pair.group_of[kept], minlength=by_pair.first.size)[by_pair.group_of] == 0
    if lacking.any():
        columns.fail(int(np.argmax(lacking)), f"this state and action have no outcome {wanted} (outcomes=)")
    notes.append(f"only the alternative idoutcome={wanted} is used")
    return kept, chance[kept]


def _fail_sum(columns: Columns, groups: Ints, entry: int, alternative: str) -> NoReturn:
    total = float(columns.probabilities[groups == groups[entry]].sum())
    state, action = int(columns.origins[entry]), int(columns.actions[entry])
    gap = abs(total - 1.0)
    hint = f"; say tolerance={10.0 ** math.ceil(math.log10(gap)):g} to rescale them" if gap <= 0.01 else ""
    columns.fail(
        entry,
        f"the probabilities of state {columns.state_names[state] if columns.state_names else state}, "
        f"action {columns.action_names[action] if columns.action_names else action}{alternative} "
        f"sum to {total:.9g}; they must sum to 1{hint}",
    )
