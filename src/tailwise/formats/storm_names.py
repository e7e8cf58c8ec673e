"""Names of states and actions of a model that Storm built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError, OptionError

_MOST_NAMES = 200_000  # beyond, names cost more memory than the table


def state_names(model: Any) -> tuple[tuple[str, ...], str]:
    """Return the names of the states, and a note where there are none.

    A name is the values of the state's variables (or its index), and its labels in braces:
    ``x=1,y=2 {goal}``. Names differ.
    """
    count = int(model.nr_states)
    if count > _MOST_NAMES:
        return (), f"{count} states: their names are left out (more than {_MOST_NAMES})"
    valuations = model.state_valuations if model.has_state_valuations() else None
    labels: list[list[str]] = [[] for _ in range(count)]
    for label in sorted(model.labeling.get_labels()):
        for state in model.labeling.get_states(label):
            labels[state].append(label)
    found: list[str] = []
    seen: dict[str, int] = {}
    for state in range(count):
        base = _values(valuations, state) if valuations is not None else ""
        base = base or str(state)
        name = f"{base} {{{','.join(labels[state])}}}" if labels[state] else base
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} #{state}")
    return tuple(found), ""


def _values(valuations: Any, state: int) -> str:
    text = str(valuations.to_string(state)).strip().removeprefix("[").removesuffix("]")
    return ",".join(part.strip() for part in text.split("&"))


def choice_names(model: Any, rows_of_state: NDArray[np.int64]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return an action id for each row, and the actions' names.

    Rows with the same name share an id; a name that a state has twice is told apart by ``#2``,
    and rows without a name are called ``choice``.
    """
    labeling = model.choice_labeling if model.has_choice_labeling() else None
    ids: dict[str, int] = {}
    actions = np.empty(int(rows_of_state[-1]), dtype=np.int64)
    for state in range(rows_of_state.size - 1):
        used: dict[str, int] = {}
        for row in range(int(rows_of_state[state]), int(rows_of_state[state + 1])):
            given = sorted(filter(None, labeling.get_labels_of_choice(row))) if labeling is not None else []
            name = "+".join(given) or "choice"
            used[name] = used.get(name, 0) + 1
            if used[name] > 1:
                name = f"{name} #{used[name]}"
            actions[row] = ids.setdefault(name, len(ids))
    return actions, tuple(ids)


def find_start(model: Any, names: tuple[str, ...], given: int | str | None, path: Path) -> int:
    """Return the start state: the model's own, or the one that the user names.

    Raises
    ------
    FormatError
        If the model has several initial states and the user names none.
    OptionError
        If no state, or more than one, goes by the given name.
    """
    if given is None:
        initial = list(model.initial_states) if "init" in model.labeling.get_labels() else []
        if len(initial) != 1:
            shown = ", ".join(map(str, initial[:5])) or "none"
            raise FormatError(f"{path}: it has {len(initial)} initial states ({shown}); say start=")
        return int(initial[0])
    text = str(given)
    if text in names:
        return names.index(text)
    if text in model.labeling.get_labels():
        carriers = list(model.labeling.get_states(text))
        if len(carriers) == 1:
            return int(carriers[0])
        raise OptionError(f"{path}: start={text!r} is a label of {len(carriers)} states; expected one")
    if text.isascii() and text.isdigit() and len(text) < 18 and int(text) < model.nr_states:
        return int(text)
    raise OptionError(f"{path}: start={text!r} is neither a state (0..{model.nr_states - 1}, or its name) nor a label")
