"""Explicit files (.tra, .lab, rewards) in both dialects, tidied for Storm's parser.

Storm's dialect opens a ``.tra`` file with ``dtmc`` or ``mdp``; PRISM's opens it with the numbers of states,
(choices) and transitions, may end a line with the action's name, and numbers its labels
(``0="init"``, then ``3: 0``). Both are checked line by line and handed to Storm in its own dialect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeAlias

from tailwise.errors import FormatError
from tailwise.formats.storm_options import StormOptions

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERED = re.compile(r'([0-9]{1,9})="([^"]*)"')
_LONGEST_LINE = 100_000

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


@dataclass(frozen=True)
class _Lines:
    """A text file's lines that hold something."""

    path: Path
    lines: list[tuple[int, list[str]]]

    def fail(self, line: int, problem: str) -> NoReturn:
        raise FormatError(f"{self.path}, line {line}: {problem}")


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
    source = _read(path)
    is_prism, width = _dialect(source)
    entries, actions = _transitions(source, width)
    num_states = max(max(ids[0], ids[-1]) for ids, _ in entries) + 1
    kind = "dtmc" if width == 3 else "mdp"
    transitions = folder / "model.tra"
    transitions.write_text(f"{kind}\n" + _text(entries), encoding="ascii")
    labels_path = _companion(path, options.labels, (".lab",), notes)
    if labels_path is None:
        raise FormatError(f"{path}: its labels are needed; expected {path.with_suffix('.lab')}, or say labels=")
    labels = folder / "model.lab"
    labels.write_text(_labels(_read(labels_path), num_states), encoding="utf-8")
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
            rewards = _rewards(_read(found), fields, num_states, is_prism, known)
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


def _read(path: Path) -> _Lines:
    lines: list[tuple[int, list[str]]] = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if len(line) > _LONGEST_LINE:
                    raise FormatError(f"{path}, line {number}: longer than {_LONGEST_LINE} characters")
                if line.strip():
                    lines.append((number, line.split()))
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}, line {len(lines) + 1}: not UTF-8 text: {error.reason}") from None
    if not lines:
        raise FormatError(f"{path}, line 1: the file is empty")
    return _Lines(path, lines)


def _dialect(source: _Lines) -> tuple[bool, int]:
    """Whether the dialect is PRISM's, and the number of fields of a transition (3 or 4)."""
    line, first = source.lines[0]
    if len(first) == 1 and first[0].lower() in ("dtmc", "mdp"):
        return False, 3 if first[0].lower() == "dtmc" else 4
    if len(first) in (2, 3) and all(_is_id(field) for field in first):
        return True, len(first) + 1
    raise FormatError(
        f"{source.path}, line {line}: {' '.join(first)[:40]!r} opens no transition file; expected "
        "'dtmc' or 'mdp' (Storm's dialect), or the numbers of states and transitions, or of states, "
        "choices and transitions (PRISM's)"
    )


def _transitions(source: _Lines, width: int) -> tuple[list[_Entry], dict[tuple[int, int], str]]:
    """All transitions in order, and the names of the choices, where the file gives them."""
    limit = 4 * len(source.lines) + 1000
    entries: list[_Entry] = []
    actions: dict[tuple[int, int], str] = {}
    for line, fields in source.lines[1:]:
        if len(fields) not in (width, width + 1):
            source.fail(line, f"{len(fields)} fields; expected {width}, and perhaps an action")
        ids = tuple(_id(source, line, field, limit) for field in fields[: width - 1])
        entries.append((ids, _number(source, line, fields[width - 1])))
        if len(fields) > width and width == 4:
            if not _NAME.fullmatch(fields[width]):
                source.fail(line, f"{fields[width][:40]!r} is no name of an action")
            actions[ids[0], ids[1]] = fields[width]
    if not entries:
        source.fail(source.lines[0][0], "no transitions follow")
    entries.sort(key=lambda entry: entry[0])
    return entries, actions


def _labels(source: _Lines, num_states: int) -> str:
    """Return the label file in Storm's dialect."""
    first = source.lines[0][1]
    if first[0] != "#DECLARATION":
        return _numbered_labels(source, num_states)
    rows = iter(source.lines[1:])
    declared: list[str] = []
    for _, fields in rows:
        if fields == ["#END"]:
            break
        declared += fields
    else:
        source.fail(source.lines[-1][0], "#DECLARATION has no #END")
    body = list(_label_rows(source, list(rows), set(declared), num_states))
    return "#DECLARATION\n" + " ".join(declared) + "\n#END\n" + "".join(body)


def _label_rows(
    source: _Lines, rows: list[tuple[int, list[str]]], declared: set[str], num_states: int
) -> Iterator[str]:
    for line, fields in sorted(rows, key=lambda row: (len(row[1][0]), row[1][0])):
        _id(source, line, fields[0], num_states - 1)
        unknown = [name for name in fields[1:] if name not in declared]
        if unknown:
            source.fail(line, f"the label {unknown[0][:40]!r} is not declared")
        yield " ".join(fields) + "\n"


def _numbered_labels(source: _Lines, num_states: int) -> str:
    """Translate the label file of PRISM's dialect, ``0="init" 1="deadlock"`` and then ``3: 0 1``."""
    line, first = source.lines[0]
    names: dict[str, str] = {}
    for field in first:
        match = _NUMBERED.fullmatch(field)
        if match is None or not _NAME.fullmatch(match[2]):
            source.fail(line, f'{field[:40]!r} declares no label; expected #DECLARATION, or labels such as 0="init"')
        names[match[1]] = match[2]
    rows: list[tuple[int, list[str]]] = []
    for line, fields in source.lines[1:]:
        if not fields[0].endswith(":"):
            source.fail(line, f"{fields[0][:40]!r} names no state; expected its number and a colon")
        unknown = [field for field in fields[1:] if field not in names]
        if unknown:
            source.fail(line, f"the label {unknown[0][:40]!r} is not declared in line 1")
        rows.append((line, [fields[0][:-1], *(names[field] for field in fields[1:])]))
    body = list(_label_rows(source, rows, set(names.values()), num_states))
    return "#DECLARATION\n" + " ".join(names.values()) + "\n#END\n" + "".join(body)


def _rewards(source: _Lines, width: int, num_states: int, is_prism: bool, known: set[tuple[int, ...]]) -> str:
    rows = [(line, fields) for line, fields in source.lines if not fields[0].startswith("#")]
    if is_prism:
        rows = rows[1:]  # the numbers of states and rewards
    entries: list[_Entry] = []
    for line, fields in rows:
        if len(fields) != width:
            source.fail(line, f"{len(fields)} fields; expected {width}")
        ids = tuple(_id(source, line, field, num_states + 1_000_000) for field in fields[:-1])
        if ids[0] >= num_states or (width > 2 and ids not in known):
            source.fail(line, "a reward for a state or transition that the model does not have")
        entries.append((ids, _number(source, line, fields[-1])))
    return _text(sorted(entries, key=lambda entry: entry[0]))


def _text(entries: list[_Entry]) -> str:
    return "".join(f"{' '.join(map(str, ids))} {number}\n" for ids, number in entries)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _id(source: _Lines, line: int, text: str, limit: int) -> int:
    if not _is_id(text) or int(text) > limit:
        source.fail(line, f"{text[:40]!r} is no number of a state or choice (0 to {limit} in this file)")
    return int(text)


def _number(source: _Lines, line: int, text: str) -> str:
    if len(text) > 64 or not _NUMBER.fullmatch(text):
        source.fail(line, f"{text[:40]!r} is not a finite number")
    return text
