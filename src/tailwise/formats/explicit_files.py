"""Explicit files (.tra, .lab, rewards) in both dialects, tidied for Storm's parser.

Storm's dialect opens a ``.tra`` file with ``dtmc`` or ``mdp``; PRISM's opens it with the numbers of states,
(choices) and transitions, may end a line with the action's name, and numbers its labels
(``0="init"``, then ``3: 0``). Both are checked line by line and handed to Storm in its own dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tailwise.errors import FormatError
from tailwise.formats.explicit_labels import NAME, storm_labels
from tailwise.formats.explicit_lines import Lines, is_id, read_id, read_lines, read_number
from tailwise.formats.storm_options import StormOptions

_TOLERANCE = 1e-6  # rows that miss 1 by less are rounding of the source

_Entry: TypeAlias = tuple[tuple[int, ...], str]  # numbers of states and choices, and the value as text


@dataclass(frozen=True)
class ExplicitFiles:
    """The files for Storm, and what the user should know of them."""

    transitions: Path
    labels: Path
    state_rewards: Path | None
    transition_rewards: Path | None
    choices: Path | None
    notes: tuple[str, ...]


def explicit_files(path: Path, options: StormOptions, folder: Path) -> ExplicitFiles:
    """Find, check and tidy the files that belong to a ``.tra`` file.

    Parameters
    ----------
    path : Path
        The ``.tra`` file.
    options : StormOptions
        ``labels``, ``state_rewards`` and ``transition_rewards``: names of its companions, relative to it.
    folder : Path
        Where to write what Storm reads.

    Returns
    -------
    ExplicitFiles

    Raises
    ------
    FormatError
        Naming the file and the line that is wrong.
    """
    notes: list[str] = []
    source = read_lines(path)
    is_prism, width = _dialect(source)
    entries, actions = _transitions(source, width)
    num_states = max(max(ids[0], ids[-1]) for ids, _ in entries) + 1
    loops = _loops(entries, num_states, width)
    if loops:
        notes.append(f"{len(loops)} states without transitions loop on themselves, as in Storm's other languages")
        entries = sorted(entries + loops, key=lambda entry: entry[0])
    kind = "dtmc" if width == 3 else "mdp"
    transitions = folder / "model.tra"
    transitions.write_text(f"{kind}\n" + _text(entries), encoding="ascii")
    labels_path = _companion(path, options.labels, (".lab",), notes)
    if labels_path is None:
        raise FormatError(f"{path}: its labels are needed; expected {path.with_suffix('.lab')}, or say labels=")
    labels = folder / "model.lab"
    labels.write_text(storm_labels(read_lines(labels_path), num_states), encoding="utf-8")
    choices = None
    if actions:
        choices = folder / "model.clab"
        declared = " ".join(sorted(set(actions.values())))
        body = "".join(f"{state} {index} {name}\n" for (state, index), name in actions.items())
        choices.write_text(f"#DECLARATION\n{declared}\n#END\n{body}", encoding="ascii")
    known = {ids for ids, _ in entries}
    written: dict[str, Path | None] = {"state_rewards": None, "transition_rewards": None}
    for option, endings, fields in (
        ("state_rewards", (".srew", ".state.rew"), 2),
        ("transition_rewards", (".trew", ".trans.rew"), width),
    ):
        found = _companion(path, getattr(options, option), endings, notes)
        if found is not None:
            rewards = _rewards(read_lines(found), fields, num_states, is_prism, known)
            written[option] = folder / f"model.{option}"
            (folder / f"model.{option}").write_text(rewards, encoding="ascii")
    return ExplicitFiles(
        transitions, labels, written["state_rewards"], written["transition_rewards"], choices, tuple(notes)
    )


def _companion(path: Path, given: str | None, endings: tuple[str, ...], notes: list[str]) -> Path | None:
    if given is not None:
        found = path.parent / given
        if not found.is_file():
            raise FormatError(f"{found}: there is no such file; {path.name} was said to need it")
        return found
    for ending in endings:
        found = path.with_suffix(ending)
        if found.is_file():
            notes.append(f"read together with {found.name}")
            return found
    return None


def _dialect(source: Lines) -> tuple[bool, int]:
    """Whether the dialect is PRISM's, and the number of fields of a transition (3 or 4)."""
    line, first = source.lines[0]
    if len(first) == 1 and first[0].lower() in ("dtmc", "mdp"):
        return False, 3 if first[0].lower() == "dtmc" else 4
    if len(first) in (2, 3) and all(is_id(field) for field in first):
        return True, len(first) + 1
    raise FormatError(
        f"{source.path}, line {line}: {' '.join(first)[:40]!r} opens no transition file; expected "
        "'dtmc' or 'mdp' (Storm's dialect), or the numbers of states and transitions, or of states, "
        "choices and transitions (PRISM's)"
    )


def _transitions(source: Lines, width: int) -> tuple[list[_Entry], dict[tuple[int, int], str]]:
    """All transitions in order, and the names of the choices, where the file gives them."""
    limit = 4 * len(source.lines) + 1000
    entries: list[_Entry] = []
    actions: dict[tuple[int, int], str] = {}
    lines: dict[tuple[int, ...], int] = {}
    sums: dict[tuple[int, ...], float] = {}
    for line, fields in source.lines[1:]:
        if len(fields) not in (width, width + 1):
            source.fail(line, f"{len(fields)} fields; expected {width}, and perhaps an action")
        ids = tuple(read_id(source, line, field, limit) for field in fields[: width - 1])
        number = read_number(source, line, fields[width - 1])
        entries.append((ids, number))
        lines.setdefault(ids[:-1], line)
        sums[ids[:-1]] = sums.get(ids[:-1], 0.0) + float(number)
        if len(fields) > width and width == 4:
            if not NAME.fullmatch(fields[width]):
                source.fail(line, f"{fields[width][:40]!r} is no name of an action")
            actions[ids[0], ids[1]] = fields[width]
    if not entries:
        source.fail(source.lines[0][0], "no transitions follow")
    _check_choices(source, lines, sums)
    entries.sort(key=lambda entry: entry[0])
    return entries, actions


def _loops(entries: list[_Entry], num_states: int, width: int) -> list[_Entry]:
    """Self-loops for the states that have no transitions."""
    missing = sorted(set(range(num_states)) - {ids[0] for ids, _ in entries})
    return [((state, state) if width == 3 else (state, 0, state), "1") for state in missing]


def _check_choices(source: Lines, lines: dict[tuple[int, ...], int], sums: dict[tuple[int, ...], float]) -> None:
    """Check that probabilities sum to 1, and that each state numbers its choices from 0 without a gap."""
    for choice, total in sums.items():
        if not abs(total - 1.0) <= _TOLERANCE:
            where = f"state {choice[0]}" + (f", choice {choice[1]}" if len(choice) > 1 else "")
            source.fail(lines[choice], f"the probabilities of {where} sum to {total:.9g}; they must sum to 1")
        if len(choice) > 1 and choice[1] > 0 and (choice[0], choice[1] - 1) not in sums:
            source.fail(lines[choice], f"state {choice[0]} has choice {choice[1]}, but no choice {choice[1] - 1}")


def _rewards(source: Lines, width: int, num_states: int, is_prism: bool, known: set[tuple[int, ...]]) -> str:
    rows = [(line, fields) for line, fields in source.lines if not fields[0].startswith("#")]
    if is_prism:
        rows = rows[1:]  # the numbers of states and rewards
    entries: list[_Entry] = []
    for line, fields in rows:
        if len(fields) != width:
            source.fail(line, f"{len(fields)} fields; expected {width}")
        ids = tuple(read_id(source, line, field, num_states + 1_000_000) for field in fields[:-1])
        if ids[0] >= num_states or (width > 2 and ids not in known):
            source.fail(line, "a reward for a state or transition that the model does not have")
        entries.append((ids, read_number(source, line, fields[-1])))
    return _text(sorted(entries, key=lambda entry: entry[0]))


def _text(entries: list[_Entry]) -> str:
    return "".join(f"{' '.join(map(str, ids))} {number}\n" for ids, number in entries)
