"""From the columns of a transition list to a table: what CSV and Arrow files share.

Both hold one entry per outcome; :mod:`tailwise.formats.list_rules` says how ids and ``idoutcome`` are read.

- **Ends.** Where the file does not say which outcomes end the episode, those that lead to a state without
  entries do; a note says so.
- **Duplicates** are kept apart, always.
"""

from __future__ import annotations

import numpy as np

from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.formats.columns import Bools, Columns, Ints
from tailwise.formats.list_rules import SPARE_IDS, bases, check_entries, resolve_outcomes
from tailwise.formats.metadata import Metadata
from tailwise.formats.settings import DEFAULT_HORIZON, Settings
from tailwise.models import TabularMDP


def table_from_columns(columns: Columns, settings: Settings, metadata: Metadata | None, *, name: str) -> TabularMDP:
    """Build the table that ``columns`` describe.

    Parameters
    ----------
    columns : Columns
        The entries of the file.
    settings : Settings
        What the user asked for, and what a file beside this one says.
    metadata : Metadata or None
        What tailwise itself wrote with the file, if it wrote it.
    name : str
        Name of the problem, for display.

    Returns
    -------
    TabularMDP

    Raises
    ------
    FormatError
        Naming the file and the line (or row) of the first entry that is wrong.
    """
    if columns.size == 0:
        raise FormatError(f"{columns.source}, line 1: no transitions follow; expected at least one")
    check_entries(columns)
    notes = [] if metadata is None else list(metadata.notes)
    state_base, action_base = bases(columns, settings, metadata, notes)
    origins, actions, targets = (
        columns.origins - state_base,
        columns.actions - action_base,
        columns.targets - state_base,
    )
    num_states = int(max(origins.max(), targets.max())) + 1
    num_actions = int(actions.max()) + 1
    if metadata is not None:
        num_states = _declared_states(columns, metadata, num_states)
    kept, probabilities = resolve_outcomes(columns, origins, actions, num_actions, settings, notes)
    done = _ends(columns, origins, targets, num_states, notes)
    start = _start(columns, settings, metadata, state_base, num_states, notes)
    if metadata is None:
        state_labels = tuple(map(str, range(1, num_states + 1))) if state_base else ()
        action_labels = tuple(map(str, range(1, num_actions + 1))) if action_base else ()
    else:
        state_labels, action_labels = metadata.state_labels, metadata.action_labels
    horizon, discount = settings.horizon, settings.discount
    if metadata is not None:
        horizon, discount = horizon or metadata.horizon, discount or metadata.discount
    if horizon is None:
        horizon = DEFAULT_HORIZON
        notes.append(f"the file gives no horizon; {DEFAULT_HORIZON} is assumed; say horizon=")
    terminal = None if metadata is None or not metadata.terminal_values else metadata.terminal_values
    is_cost = columns.sense == "cost"
    values = columns.values[kept]
    try:
        return TabularMDP.from_outcomes(
            origins[kept], actions[kept], targets[kept], probabilities,
            costs=values if is_cost else None, rewards=None if is_cost else values,
            done=done[kept], num_states=num_states, horizon=horizon,
            discount=1.0 if discount is None else discount, start=start,
            terminal_costs=terminal if is_cost else None, terminal_rewards=None if is_cost else terminal,
            state_labels=state_labels, action_labels=action_labels,
            name=name if metadata is None else metadata.name, notes=(*settings.notes, *notes),
        )  # fmt: skip
    except ModelError as error:
        raise FormatError(f"{columns.source}, line 1 and on: {error}") from None


def _declared_states(columns: Columns, metadata: Metadata, found: int) -> int:
    """Check the declared number of states against the one found, and return it."""
    declared = metadata.num_states
    if declared < found:
        largest = int(np.argmax(np.maximum(columns.origins, columns.targets)))
        columns.fail(largest, f"state {found - 1} in a file that declares {declared} states")
    if declared > 4 * columns.size + SPARE_IDS:
        raise FormatError(f"{columns.source}, line 1: {declared} states are declared for {columns.size} transitions")
    for what, labels, count in (
        ("state_labels", metadata.state_labels, declared),
        ("action_labels", metadata.action_labels, int(columns.actions.max()) + 1),
        ("terminal values", metadata.terminal_values, declared),
    ):
        if labels and len(labels) < count:
            raise FormatError(f"{metadata.source}, line 1: {what} has {len(labels)} entries for {count} items")
    return declared


def _ends(columns: Columns, origins: Ints, targets: Ints, num_states: int, notes: list[str]) -> Bools:
    """Which entries end the episode."""
    if columns.done is not None:
        return columns.done
    has_rows = np.zeros(num_states, dtype=np.bool_)
    has_rows[origins] = True
    if has_rows.all():
        return np.zeros(targets.size, dtype=np.bool_)
    done: Bools = ~has_rows[targets]
    entered = np.unique(columns.targets[done])
    if entered.size:
        shown = ", ".join(map(str, entered[:5].tolist())) + (", ..." if entered.size > 5 else "")
        notes.append(f"{entered.size} states have no outgoing transitions ({shown}): entering one ends the episode")
    return done


def _start(
    columns: Columns,
    settings: Settings,
    metadata: Metadata | None,
    base: int,
    num_states: int,
    notes: list[str],
) -> int:
    """Index of the start state, which is given as an id of the file or as a label."""
    given = settings.start
    if given is None:
        if metadata is not None:
            return metadata.start
        lowest = int(columns.origins.min())
        notes.append(f"the file gives no start state; its smallest, {lowest}, is assumed; say start=")
        return lowest - base
    if isinstance(given, str) and metadata is not None and given in metadata.state_labels:
        return metadata.state_labels.index(given)
    number: int | None = None
    if isinstance(given, str):
        number = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
    elif not isinstance(given, bool):
        number = int(given)
    kind = FormatError if settings.start_from else OptionError
    if number is None or not base <= number < num_states + base:
        raise kind(
            f"{settings.start_from or 'start'}: start state {given!r} is not in {columns.source}; "
            f"its ids are {base}..{num_states - 1 + base}"
        )
    if metadata is None and not (columns.origins == number).any():
        raise kind(
            f"{settings.start_from or 'start'}: start state {given!r} has no transitions in {columns.source}; "
            "an episode must be able to start there"
        )
    return number - base
