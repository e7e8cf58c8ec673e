"""How the entries of a transition list are read: ids, probabilities and alternatives.

- **Base.** A file that names state 0 counts from 0; a file whose smallest state and action ids are
  both 1 counts from 1. Anything else is ambiguous and needs ``base=``. In a file that counts from 1, state
  1 has index 0 here, and keeps "1" as its label: ids given by the user are always the file's own.
- **Outcomes.** ``idoutcome`` either numbers the outcomes of an action (all of them together sum to 1), or
  it numbers *alternatives*, each of which sums to 1. Alternatives have no probabilities in the file:
  they are mixed uniformly, with a note, or one is picked with ``outcomes=``.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from tailwise._validate import integer
from tailwise.errors import FormatError, OptionError
from tailwise.formats.columns import Bools, Columns, Floats, Ints
from tailwise.formats.metadata import Metadata
from tailwise.formats.settings import Settings

_TOLERANCE = 1e-6  # rows that miss 1 by less are rounding of the source
SPARE_IDS = 1000  # ids may leave this many gaps, and 4 per entry more, before a file is refused


def check_entries(columns: Columns) -> None:
    """Every entry by itself: ids, probabilities and costs in range."""
    limit = 4 * columns.size + SPARE_IDS
    ids = [
        ("idstatefrom", columns.origins),
        ("idaction", columns.actions),
        ("idstateto", columns.targets),
    ]
    if columns.alternatives is not None:
        ids.append(("idoutcome", columns.alternatives))
    for label, array in ids:
        if array.min() < 0:
            columns.fail(int(np.argmin(array)), f"{label} is {array.min()}; ids start at 0 or 1")
        if array.max() > limit:
            columns.fail(
                int(np.argmax(array)),
                f"{label} is {array.max()}, in a file of {columns.size} transitions; ids must be (nearly) "
                f"consecutive, at most {limit} here: renumber them",
            )
    chance = columns.probabilities
    wrong = ~((chance >= 0.0) & (chance <= 1.0 + _TOLERANCE))
    if wrong.any():
        entry = int(np.argmax(wrong))
        columns.fail(entry, f"probability is {chance[entry]:g}; it must lie in [0, 1]")
    wrong = ~np.isfinite(columns.values)
    if wrong.any():
        entry = int(np.argmax(wrong))
        columns.fail(entry, f"{columns.sense} is {columns.values[entry]:g}; it must be a finite number")


def bases(columns: Columns, settings: Settings, metadata: Metadata | None, notes: list[str]) -> tuple[int, int]:
    """Return where the file's state ids and action ids start: 0 or 1 each."""
    if metadata is not None:
        return 0, 0
    states, actions = columns.origins, columns.actions
    low_state, low_action = int(min(states.min(), columns.targets.min())), int(actions.min())
    base, action_base = settings.base, settings.action_base
    if base is None:
        if low_state > 1 or (low_state == 1 and low_action == 0 and action_base is None):
            raise FormatError(
                f"{columns.place(int(np.argmin(states)))}: the smallest state id is {low_state}, the "
                f"smallest action id {low_action}: the ids may count from 0 or from 1; say base=0 or base=1"
            )
        base = low_state
    elif low_state < base:
        lowest = states if states.min() <= columns.targets.min() else columns.targets
        columns.fail(int(np.argmin(lowest)), f"state id 0 in a file said to count from 1 (base={base})")
    if action_base is None:
        action_base = min(base, low_action)
    elif low_action < action_base:
        columns.fail(int(np.argmin(actions)), f"action id 0 in a file said to count from 1 ({action_base=})")
    if base:
        notes.append("ids in the file count from 1: its state 1 has index 0 here; labels and start= are the file's ids")
    elif action_base == 0 and low_action > 0 and settings.base is None:
        notes.append(f"states count from 0, but the smallest action id is {low_action}; action ids are kept")
    return base, action_base


def resolve_outcomes(
    columns: Columns,
    origins: Ints,
    actions: Ints,
    num_actions: int,
    settings: Settings,
    notes: list[str],
) -> tuple[Bools | slice, Floats]:
    """Entries to keep, and their probabilities, once ``idoutcome`` is understood."""
    pairs = origins * num_actions + actions
    chance, everything = columns.probabilities, slice(None)
    wrong_pair = _first_wrong_sum(pairs, chance)
    chosen = settings.outcomes
    if columns.alternatives is None:
        if wrong_pair is not None:
            _fail_sum(columns, pairs, wrong_pair, "")
        if chosen is not None:
            raise OptionError(f"outcomes={chosen!r} needs a column idoutcome, which {columns.source} does not have")
        return everything, chance
    if wrong_pair is None and chosen is None:
        notes.append("idoutcome only numbers the outcomes: the probabilities of each action sum to 1 without it")
        return everything, chance
    count = int(columns.alternatives.max()) + 1
    triples = pairs * count + columns.alternatives
    wrong_triple = _first_wrong_sum(triples, chance)
    if wrong_triple is not None:
        _fail_sum(columns, triples, wrong_triple, f", outcome {int(columns.alternatives[wrong_triple])}")
    if chosen is None or chosen == "uniform":
        distinct = np.unique(triples)
        per_pair = np.bincount(np.searchsorted(np.unique(pairs), distinct // count))
        share = per_pair[np.searchsorted(np.unique(pairs), pairs)]
        notes.append(
            f"idoutcome numbers {int(per_pair.max())} alternatives without probabilities; "
            "they are mixed uniformly (outcomes='uniform'); pick one with outcomes=ID"
        )
        return everything, chance / share
    wanted = integer(chosen, "outcomes", low=0, hint="it is an id in the column idoutcome, or 'uniform'")
    kept = columns.alternatives == wanted
    lacking = ~np.isin(pairs, pairs[kept])
    if lacking.any():
        columns.fail(int(np.argmax(lacking)), f"this state and action have no outcome {wanted} (outcomes=)")
    notes.append(f"only the alternative idoutcome={wanted} is used")
    return kept, chance[kept]


def _first_wrong_sum(groups: Ints, chance: Floats) -> int | None:
    """First entry of a group whose probabilities do not sum to 1, or None."""
    if groups.size < 2 or (groups[1:] >= groups[:-1]).all():
        order, ordered = None, groups
    else:
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sums = np.add.reduceat(chance if order is None else chance[order], first)
    wrong = first[~(np.abs(sums - 1.0) <= _TOLERANCE)]
    if not wrong.size:
        return None
    return int(wrong.min()) if order is None else int(order[wrong].min())


def _fail_sum(columns: Columns, groups: Ints, entry: int, alternative: str) -> NoReturn:
    total = float(columns.probabilities[groups == groups[entry]].sum())
    columns.fail(
        entry,
        f"the probabilities of state {columns.origins[entry]}, action {columns.actions[entry]}{alternative} "
        f"sum to {total:.9g}; they must sum to 1",
    )
