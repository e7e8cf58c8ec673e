"""From the columns of a transition list to a table: the one path of CSV, Arrow, Parquet, data frames and other lists.

Where ids count from, what alternatives are and where episodes end is on the page of formats; duplicates are kept apart.
"""

from __future__ import annotations

import difflib
import math
import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tailwise._arrays import Bools, Floats, Ints, marked, runs
from tailwise._validate import integer
from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.formats.list_columns import Columns
from tailwise.formats.metadata import Metadata, find_info
from tailwise.formats.options import ListOptions, settled
from tailwise.models import Alternatives, TabularMDP
from tailwise.models.tabular_build import find_start

_SPARE_IDS = 1000  # ids may leave this many gaps, and 4 per entry more, before a list is refused
_EXACT = 1e-9  # sums this close to 1 are those of full precision
_MOST_PAIRS = 20_000  # of names that are compared letter by letter
_SIX_DIGITS = 0.5e-6  # largest error of a number rounded to six digits


def table_of_list(
    columns: Columns,
    options: ListOptions,
    *,
    path: Path | None = None,
    metadata: Metadata | None = None,
    name: str = "",
) -> TabularMDP | Alternatives:
    """Build the table that the columns of a list describe."""
    info = find_info(path) if path is not None and metadata is None else None
    name = (name or (columns.source if path is None else path.name)) if metadata is None else metadata.name
    if columns.size == 0:
        raise FormatError(f"{columns.source}, line 1: no transitions follow; expected at least one")
    _check_entries(columns, options)
    notes = [*(metadata.notes if metadata is not None else ()), *columns.notes]
    state_base, action_base = _bases(columns, options, metadata, notes)
    origins, actions, targets = (
        columns.origins - state_base,
        columns.actions - action_base,
        columns.targets - state_base,
    )
    num_states = int(max(origins.max(), targets.max())) + 1
    num_actions = int(actions.max()) + 1
    if metadata is not None:
        _check_metadata(columns, options, metadata)
        num_states = _declared_states(columns, metadata, num_states)
        state_labels, action_labels = metadata.state_labels, metadata.action_labels
    else:
        state_labels = columns.state_names or (tuple(map(str, range(1, num_states + 1))) if state_base else ())
        action_labels = columns.action_names or (tuple(map(str, range(1, num_actions + 1))) if action_base else ())
    models = _resolve_outcomes(columns, origins * num_actions + actions, options, notes)
    can_start = marked(num_states, origins)
    done = _ends(columns, targets, can_start, notes)
    if options.start is not None:
        start = _given_start(columns, options.start, state_labels, can_start, metadata is not None)
    elif metadata is not None:
        start = metadata.start
    elif info is not None:
        leaves = marked(num_states, origins[origins != targets])
        start, reading = info.start_index(state_base, can_start, leaves)
        notes.append(f"start {info.start} from {Path(info.where).name} ({reading})")
    else:
        start = int(origins.min())
        shown = state_labels[start] if state_labels else start
        word = "first" if columns.state_names else "smallest"
        notes.append(f"the file gives no start state; its {word}, {shown}, is assumed; say start=")
    discount, horizon = options.discount, options.horizon
    if metadata is not None:
        discount, horizon = discount or metadata.discount, horizon or metadata.horizon
    elif discount is None and info is not None:
        discount = info.discount
        notes.append(f"discount {discount:g} from {Path(info.where).name}")
    if discount is None:
        discount = 1.0
        notes.append("the file gives no discount; 1 is assumed; say discount=")
    if metadata is None:
        horizon, discount = settled(horizon, discount, notes)
    terminal = metadata.terminal_values if metadata is not None and metadata.terminal_values else None
    tables = []
    try:
        for kept, probabilities in models:
            values: dict[str, Any] = {f"{columns.sense}s": columns.values[kept], f"terminal_{columns.sense}s": terminal}
            tables.append(TabularMDP.from_outcomes(
                origins[kept], actions[kept], targets[kept], probabilities, **values,
                done=done[kept], num_states=num_states, horizon=horizon, discount=discount, start=start,
                state_labels=state_labels, action_labels=action_labels,
                name=name, notes=notes,
            ))  # fmt: skip
        return tables[0] if len(tables) == 1 else Alternatives.of(tables)
    except ModelError as error:
        raise FormatError(f"{columns.source}, line 1 and on: {error}") from None


def _check_entries(columns: Columns, options: ListOptions) -> None:
    """Every entry by itself: ids, probabilities and costs in range."""
    limit = 4 * columns.size + _SPARE_IDS
    ids = {"idstatefrom": columns.origins, "idaction": columns.actions, "idstateto": columns.targets}
    if columns.alternatives is not None:
        ids["idoutcome"] = columns.alternatives
    for label, array in ids.items():
        if array.min() < 0:
            columns.fail(int(np.argmin(array)), f"{label} is {array.min()}; ids start at 0 or 1")
        if array.max() > limit:
            columns.fail(
                int(np.argmax(array)),
                f"{label} is {array.max()}, in a file of {columns.size} transitions; ids must be (nearly) "
                f"consecutive, at most {limit} here: renumber them, or say ids=names",
            )
    chance = columns.probabilities
    wrong = ~((chance >= 0.0) & (chance <= 1.0 + max(options.tolerance or 0.0, 1e-6)))
    if wrong.any():
        entry = int(np.argmax(wrong))
        columns.fail(entry, f"probability is {chance[entry]:g}; it must lie in [0, 1]")
    wrong = ~np.isfinite(columns.values)
    if wrong.any():
        entry = int(np.argmax(wrong))
        columns.fail(entry, f"{columns.sense} is {columns.values[entry]:g}; it must be a finite number")


def _bases(columns: Columns, options: ListOptions, metadata: Metadata | None, notes: list[str]) -> tuple[int, int]:
    """Return where the list's state ids and action ids start: 0 or 1 each."""
    if metadata is not None:
        return 0, 0
    states, actions = columns.origins, columns.actions
    low_state, low_action = int(min(states.min(), columns.targets.min())), int(actions.min())
    base, action_base = options.base, options.action_base
    if columns.action_names:
        action_base = 0
    if base is None:
        is_clear = low_state == 0 or (low_state == 1 and (low_action > 0 or action_base is not None))
        if not is_clear:
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
    elif action_base == 0 and low_action > 0 and options.base is None:
        notes.append(f"states count from 0, but the smallest action id is {low_action}; action ids are kept")
    return base, action_base


def _check_metadata(columns: Columns, options: ListOptions, metadata: Metadata) -> None:
    """Whether the metadata is that of this list, and not of one that it replaced."""
    if metadata.list_sha256 not in ("", columns.digest()) and options.metadata != "keep":
        raise FormatError(
            f"{columns.source}, line 1: the list was changed after tailwise saved it, so horizon, start and names in "
            f"{metadata.source} may be another model's; say metadata=ignore to read the list by itself (or delete "
            "the file with the metadata), or metadata=keep if they still hold"
        )
    if metadata.sense != columns.sense:
        raise FormatError(
            f"{columns.source}, line 1: the values are {columns.sense}s, but {metadata.source} says {metadata.sense}s"
        )


def _declared_states(columns: Columns, metadata: Metadata, found: int) -> int:
    """Check the declared number of states against the one found, and return it."""
    declared = metadata.num_states
    if declared < found:
        largest = int(np.argmax(np.maximum(columns.origins, columns.targets)))
        columns.fail(largest, f"state {found - 1} in a file that declares {declared} states")
    if declared > 4 * columns.size + _SPARE_IDS:
        raise FormatError(f"{columns.source}, line 1: {declared} states are declared for {columns.size} transitions")
    for what, labels, count in (
        ("state_labels", metadata.state_labels, declared),
        ("action_labels", metadata.action_labels, int(columns.actions.max()) + 1),
        ("terminal values", metadata.terminal_values, declared),
    ):
        if labels and len(labels) < count:
            raise FormatError(f"{metadata.source}, line 1: {what} has {len(labels)} entries for {count} items")
    return declared


def _ends(columns: Columns, targets: Ints, has_rows: Bools, notes: list[str]) -> Bools:
    """Which entries end the episode."""
    if columns.done is not None:
        return columns.done
    done: Bools = ~has_rows[targets]
    entered = np.unique(columns.targets[done])
    if entered.size:
        names = [columns.state_names[k] if columns.state_names else str(k) for k in entered[:5].tolist()]
        shown = ", ".join(names) + (", ..." if entered.size > 5 else "")
        _refuse_misspelt(columns, entered, done)
        states = "1 state has" if entered.size == 1 else f"{entered.size} states have"
        notes.append(f"{states} no outgoing transitions ({shown}): entering one ends the episode")
    return done


def _refuse_misspelt(columns: Columns, entered: Ints, done: Bools) -> None:
    """Raise where a state without actions is called almost as one that has some: an end of the episode, or a slip."""
    acting = [columns.state_names[k] for k in np.unique(columns.origins).tolist()] if columns.state_names else []
    bare = {_bare(name): name for name in acting}
    is_small = entered.size * len(acting) <= _MOST_PAIRS
    for state in entered.tolist() if acting else []:
        name = columns.state_names[state]
        twin = bare.get(_bare(name)) or next((other for other in acting if is_small and _is_near(name, other)), None)
        if twin is not None:
            columns.fail(
                int(np.argmax(done & (columns.targets == state))),
                f"the next state {name!r} has no actions, and reads like {twin!r}: write it as {twin!r}, or, if the "
                f"episode ends there, say so in a column done",
            )


def _bare(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the letters and digits of a name, whatever their capitals, and the numbers in it."""
    return re.sub(r"[\W_]", "", name.casefold()) or name, tuple(re.findall(r"-?\d+(?:\.\d+)?", name))


def _is_near(one: str, other: str) -> bool:
    """Whether two long names differ by a letter or so, and not in their numbers."""
    (first, numbers), (second, others) = _bare(one), _bare(other)
    is_long = min(len(first), len(second)) >= 6
    return is_long and numbers == others and difflib.SequenceMatcher(None, first, second).ratio() >= 0.9


def _given_start(columns: Columns, start: int | str, labels: tuple[str, ...], can_start: Bools, is_saved: bool) -> int:
    """Index of the start state that the user named: a name before it is an index, saved or not."""
    try:
        index = find_start(str(start), can_start.size, labels)
    except ModelError:
        first = 1 if labels and labels[0] == "1" else 0
        ids = f"its ids are {first}..{can_start.size - 1 + first}"
        if labels and not all(map(str.isdigit, labels)):
            ids = f"its states are {', '.join(labels[:5])}{', ...' if len(labels) > 5 else ''}"
        raise OptionError(f"start: start state {start!r} is not in {columns.source}; {ids}") from None
    if not is_saved and not can_start[index]:
        raise OptionError(
            f"start: start state {start!r} has no transitions in {columns.source}; an episode must be able to start "
            "there"
        )
    return index


class _Sums:
    """Sums of probabilities by group; without a tolerance, one may miss 1 by what rounding to six digits explains."""

    def __init__(self, groups: Ints, chance: Floats, tolerance: float | None) -> None:
        order: Any = slice(None) if (groups[1:] >= groups[:-1]).all() else np.argsort(groups, kind="stable")
        first = runs(groups[order])
        self.totals = np.add.reduceat(chance[order], first)
        counts = np.diff(np.append(first, groups.size))
        limit = np.maximum(1e-6, _SIX_DIGITS * counts) + _EXACT if tolerance is None else max(tolerance, _EXACT)
        self.first, self.group_of = first, np.repeat(np.arange(first.size), counts)  # (groups,) first entries; (n,)
        if not isinstance(order, slice):
            self.first, self.group_of = order[first], self.group_of[np.argsort(order)]
        wrong = self.first[~(np.abs(self.totals - 1.0) <= limit)]
        self.wrong = int(wrong.min()) if wrong.size else None  # first entry of a group that misses 1 by too much

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


def _resolve_outcomes(
    columns: Columns, pairs: Ints, options: ListOptions, notes: list[str]
) -> list[tuple[Bools | slice, Floats]]:
    """Entries to keep, and their probabilities, of each model, once ``idoutcome`` is understood."""
    chance, everything, chosen = columns.probabilities, slice(None), options.outcomes
    by_pair = _Sums(pairs, chance, options.tolerance)
    if columns.alternatives is None or (by_pair.wrong is None and chosen is None):
        if by_pair.wrong is not None:
            _fail_sum(columns, pairs, by_pair.wrong, "")
        if chosen is not None:
            raise OptionError(f"outcomes={chosen!r} needs a column idoutcome, which {columns.source} does not have")
        if columns.alternatives is not None:
            notes.append("idoutcome only numbers the outcomes: the probabilities of each action sum to 1 without it")
        return [(everything, by_pair.rescaled(chance, notes))]
    triples = pairs * (int(columns.alternatives.max()) + 1) + columns.alternatives
    by_triple = _Sums(triples, chance, options.tolerance)
    if by_triple.wrong is not None:
        _fail_sum(columns, triples, by_triple.wrong, f", outcome {int(columns.alternatives[by_triple.wrong])}")
    chance = by_triple.rescaled(chance, notes)
    per_pair = np.bincount(by_pair.group_of[by_triple.first])[by_pair.group_of]
    if chosen == "uniform":
        notes.append(
            f"idoutcome numbers {int(per_pair.max())} alternatives without probabilities; one is drawn anew at each "
            "step (outcomes='uniform'), which hides most of the risk of not knowing which is true"
        )
        return [(everything, chance / per_pair)]
    varied = np.unique(columns.alternatives[per_pair > 1])
    if chosen is None:
        notes.append(
            f"idoutcome numbers {varied.size} alternatives without probabilities: models of which one is true, all "
            "equally likely; pick one with outcomes=ID, or draw one anew at each step with outcomes='uniform'"
        )
    else:
        varied = np.array(
            [integer(chosen, "outcomes", low=0, hint="it is an id in the column idoutcome, or 'uniform'")]
        )
        notes.append(f"only the alternative idoutcome={varied[0]} is used")
    found: list[tuple[Bools | slice, Floats]] = []
    for one in varied.tolist():  # what a pair has one alternative of is the same in all models
        kept = (columns.alternatives == one) | (per_pair == 1)
        lacking = np.bincount(by_pair.group_of[kept], minlength=by_pair.first.size)[by_pair.group_of] == 0
        if lacking.any():
            way = "; outcomes='uniform' mixes those that are there" if chosen is None else " (outcomes=)"
            columns.fail(int(np.argmax(lacking)), f"this state and action have no outcome {one}{way}")
        found.append((kept, chance[kept]))
    return found


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
