"""Explicit files (.tra with .lab, .sta and rewards beside it, or all of them in one .pexp file), in both dialects.

Storm's dialect opens a ``.tra`` file with ``dtmc`` or ``mdp``, and its labels with ``#DECLARATION``. PRISM's opens it
with the numbers of states, (choices) and transitions, (observations), may end a line with the action's name, numbers
its labels (``0="init"``, then ``3: 0``) and opens its rewards with numbers as well; other lines that start with ``#``
are comments, and PRISM 4.10 says in them what follows. Numbers may be fractions. Every line is checked.
"""

from __future__ import annotations

import gzip
import itertools
import lzma
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tailwise._arrays import Bools, Floats, Ints, runs
from tailwise.errors import FormatError, OptionError
from tailwise.formats.csv_rows import open_text
from tailwise.formats.explicit_model import ExplicitModel, table_of_model
from tailwise.formats.list_columns import number_of
from tailwise.formats.options import StormOptions
from tailwise.formats.registry import register_format
from tailwise.models import PomdpTable, TabularMDP

_TITLE = re.compile(r"#\s*(Transitions|States|Labels|Observations|State rewards|Transition rewards)\s*(?:\((\w+)\))?")
_STRUCTURE = re.compile(r'#\s*Reward structure\s*(?:"([^"]*)")?')
_KINDS = "DTMC, MDP, POMDP"
_LONGEST_LINE = 100_000


def read_tra(path: Path, **options: Any) -> TabularMDP | PomdpTable:
    """Explicit files: transitions, and labels and rewards beside them."""
    asked = StormOptions(**options)
    return table_of_model(read_explicit(path, asked), path, asked)


register_format(
    "tra", read_tra, extensions=(".tra", ".pexp", ".tra.gz", ".pexp.gz", ".tra.xz", ".pexp.xz"), options=StormOptions
)


@dataclass
class Section:
    """Lines of one kind that hold something: number and text of each."""

    path: Path
    title: str = ""
    structure: str = ""  # of rewards
    lines: list[tuple[int, str]] = field(default_factory=list)
    first: int = 1

    def fail(self, line: int, problem: str) -> NoReturn:
        """Raise ``FormatError`` about one line."""
        raise FormatError(f"{self.path}, line {line}: {problem}")


def read_sections(path: Path) -> list[Section]:
    """Cut a file at the comments in which PRISM says what follows."""
    found = [Section(path)]
    number = 0
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, start=1):
                if len(line) > _LONGEST_LINE:
                    found[-1].fail(number, f"longer than {_LONGEST_LINE} characters")
                text = line.strip()
                title, structure = _TITLE.fullmatch(text), _STRUCTURE.fullmatch(text)
                if title or structure:
                    if found[-1].lines or found[-1].title:
                        found.append(Section(path, first=number))
                    if structure:
                        found[-1].structure = structure[1] or ""
                    elif title:
                        found[-1].title = title[1]
                        if title[1] == "Transitions" and title[2] and title[2] not in _KINDS.split(", "):
                            found[-1].fail(number, f"it is a {title[2]}; expected one of {_KINDS} (discrete time)")
                elif text and (text[0] != "#" or text in ("#DECLARATION", "#END")):
                    found[-1].lines.append((number, text))
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise FormatError(f"{path}, line {number + 1}: damaged compressed data: {error}") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}, line {number + 1}: not UTF-8 text: {error.reason}") from None
    if not any(section.lines for section in found):
        raise FormatError(f"{path}, line 1: the file is empty")
    return found


def only_section(sections: list[Section], title: str, path: Path) -> Section:
    """Take a file that has one section, of the title that is expected if it has one."""
    section = sections[0]
    if len(sections) > 1:
        section.fail(sections[1].first, "another section starts here; a file of several sections is a .pexp file")
    if section.title not in ("", title):
        section.fail(section.first, f"{path.name} holds '# {section.title}'; expected '# {title}'")
    section.title = title
    return section


def is_id(text: str) -> bool:
    """Whether ``text`` is a whole number that is not negative."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def read_id(section: Section, line: int, text: str, limit: int) -> int:
    """Return a number of a state or choice, at most ``limit``, or raise ``FormatError``."""
    if not is_id(text) or int(text) > limit:
        section.fail(line, f"{text[:40]!r} is no number of a state or choice (0 to {limit} in this file)")
    return int(text)


def read_number(section: Section, line: int, text: str) -> float:
    """Return a finite number, which may be a fraction, or raise ``FormatError``."""
    number = None if len(text) > 600 or "%" in text else number_of(text)
    if number is None or not math.isfinite(number):
        section.fail(line, f"{text[:40]!r} is not a finite number")
    return number


_TOLERANCE = 1e-6  # sums that miss 1 by less, or by what rounding to six digits explains, are rescaled
_SIX_DIGITS = 0.5e-6  # largest error of a number rounded to six digits
_EXACT = 1e-9  # sums this close to 1 are those of full precision
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r'([0-9]{1,9})="([^"]*)"')
_Row: TypeAlias = tuple[int, int, int, float, str, int]  # state, choice, target, probability, action and line
_OTHERS = {"STATES": "a chain for MRMC (-exportmrmc), without choices", "P = sparse": "MATLAB code (-exportmatlab)"}


def read_explicit(path: Path, options: StormOptions) -> ExplicitModel:
    """Read a model from its explicit files."""
    if options.constants:
        raise OptionError(f"{path}: constants are for PRISM and JANI files; explicit models have none")
    notes: list[str] = []
    sections = read_sections(path)
    if path.suffix in (".gz", ".xz"):
        path = path.with_suffix("")
    if ".pexp" not in path.suffixes[-2:]:
        sections = [only_section(sections, "Transitions", path), *_companions(path, options, notes)]
        names = {section.structure for section in sections if section.structure}
        for section in sections if len(names) == 1 else ():  # rewards of states and of transitions belong together
            section.structure = next(iter(names))
    by_title = {section.title: section for section in sections}
    if "Transitions" not in by_title:
        raise FormatError(f"{path}, line 1: it has no section '# Transitions'")
    transitions = _Transitions(by_title["Transitions"])
    if transitions.looped:
        notes.append(f"{transitions.looped} states without transitions loop on themselves, as in Storm's languages")
    if transitions.gap > _EXACT:
        notes.append(f"the probabilities of some choices miss a sum of 1, by up to {transitions.gap:.2g}; rescaled")
    count = transitions.num_states
    labels: dict[str, Bools] = _labels(by_title["Labels"], count) if "Labels" in by_title else {}
    if "Labels" not in by_title and options.start is None:
        if not transitions.is_prism:
            expected = path.with_suffix(".lab")
            raise FormatError(f"{path}: its labels are needed; expected {expected}, or say labels= or start=")
        labels["init"] = np.arange(count) == 0
        notes.append("no labels: state 0 is taken as the initial one, as PRISM does")
    rewards: dict[str, dict[str, Floats]] = {}
    for section in sections:
        if section.title.endswith("rewards"):
            part = "states" if section.title.startswith("State") else "branches"
            rewards.setdefault(section.structure, {})[part] = transitions.rewards(section)
    choices = np.bincount(transitions.states[transitions.first], minlength=count)
    return ExplicitModel(
        choice_offsets=np.append(0, np.cumsum(choices)), targets=transitions.targets, chances=transitions.chances,
        branch_offsets=np.append(transitions.first, transitions.states.size), actions=transitions.actions,
        action_names=transitions.action_names, initial=np.flatnonzero(labels.get("init", np.zeros(0))), labels=labels,
        rewards=rewards, variables=_variables(by_title["States"], count) if "States" in by_title else {},
        is_partial=transitions.is_partial, notes=tuple(notes),
    )  # fmt: skip


def _companions(path: Path, options: StormOptions, notes: list[str]) -> Iterator[Section]:
    """Sections of the files beside a ``.tra`` file; PRISM numbers rewards from 1 if there are several structures."""
    for title, given, endings in (
        ("Labels", options.labels, (".lab",)),
        ("States", None, (".sta",)),
        ("State rewards", options.state_rewards, (".srew", ".state.rew")),
        ("Transition rewards", options.transition_rewards, (".trew", ".trans.rew")),
    ):
        asked = [path.parent / given] if given is not None else [_packed(path.with_suffix(end)) for end in endings]
        found = [beside for beside in asked if beside.is_file()][:1]
        if given is not None and not found:
            raise FormatError(f"{path.parent / given}: there is no such file; {path.name} was said to need it")
        if not found and title.endswith("rewards"):
            numbered = (path.with_name(f"{path.stem}{number}{path.suffix}") for number in itertools.count(1))
            stems = itertools.takewhile(lambda stem: not stem.with_suffix(".tra").exists(), numbered)
            found = list(itertools.takewhile(Path.is_file, (_packed(stem.with_suffix(endings[0])) for stem in stems)))
        for number, beside in enumerate(found, 1):
            section = only_section(read_sections(beside), title, beside)
            section.structure = section.structure or (str(number) if len(found) > 1 else "")
            notes += [] if given is not None else [f"read together with {beside.name}"]
            yield section


def _packed(path: Path) -> Path:
    """Return a file's path, or that of the compressed file that is there instead."""
    there = (path.with_name(f"{path.name}{ending}") for ending in ("", ".gz", ".xz"))
    return next(filter(Path.is_file, there), path)


class _Transitions:
    """The transitions, in order of states and choices; a deadlock loops on itself."""

    def __init__(self, section: Section) -> None:
        line, text = section.lines[0] if section.lines else (section.first, "")
        first = text.split()
        self.is_prism = len(first) in (2, 3, 4) and all(map(is_id, first))
        self.is_partial = self.is_prism and len(first) == 4
        for begin, what in _OTHERS.items():
            if text.startswith(begin):
                section.fail(line, f"it is {what}: it is not read; export the model without that option")
        if not self.is_prism and [word.lower() for word in first] not in (["dtmc"], ["mdp"]):
            section.fail(
                line,
                f"{text[:40]!r} opens no transition file; expected 'dtmc' or 'mdp' (Storm's dialect), or the numbers "
                "of states and transitions, or of states, choices and transitions (PRISM's)",
            )
        self._has_choices = len(first) > 2 if self.is_prism else first[0].lower() == "mdp"
        limit = 4 * len(section.lines) + 1000  # states without transitions may be many, but not without end
        if self.is_prism and int(first[0]) > limit:
            section.fail(line, f"{first[0]} states are declared, for {len(section.lines) - 1} transitions")
        rows = self._read(section, int(first[0]) - 1 if self.is_prism else limit)
        if not rows:
            section.fail(line, "no transitions follow")
        declared = int(first[-2 if self.is_partial else -1]) if self.is_prism else len(rows)
        self.num_states = int(first[0]) if self.is_prism else max(max(row[0], row[2]) for row in rows) + 1
        missing = sorted(set(range(self.num_states)) - {row[0] for row in rows})
        self.looped = len(missing)
        rows += [(state, 0, state, 1.0, "", 0) for state in missing]
        rows.sort(key=lambda row: row[:3])
        self.states, self._choices, self.targets, chances, lines = (
            np.array([row[k] for row in rows]) for k in (0, 1, 2, 3, 5)
        )
        self.first = runs(self.states, self._choices)
        sums = np.add.reduceat(chances, self.first)
        self._check_choices(section, sums, np.minimum.reduceat(chances, self.first), lines)
        if declared != len(rows) - len(missing):
            section.fail(line, f"{declared} transitions are declared, {len(rows) - len(missing)} follow")
        gaps = np.abs(sums - 1.0)
        self.gap = float(gaps.max())
        sizes = np.diff(np.append(self.first, len(rows)))
        self.chances = chances / np.repeat(np.where(gaps <= _EXACT, 1.0, sums), sizes)
        names = {name: k for k, name in enumerate(dict.fromkeys(row[4] for row in rows))}
        self.action_names = tuple(names)
        self.actions = np.array([names[rows[k][4]] for k in self.first.tolist()])

    def _check_choices(self, section: Section, sums: Floats, lowest: Floats, lines: Ints) -> None:
        """Check that probabilities sum to 1, and that each state numbers its choices from 0 without a gap."""
        states, choices = self.states[self.first], self._choices[self.first]
        counts = np.diff(np.append(self.first, self.states.size))
        wrong = (lowest < 0) | ~(np.abs(sums - 1.0) <= np.maximum(_TOLERANCE, _SIX_DIGITS * counts) + _EXACT)
        ranks = np.arange(states.size) - np.searchsorted(states, states)
        faults = np.flatnonzero(wrong | (choices != ranks))
        if not faults.size:
            return
        first_lines = np.minimum.reduceat(lines, self.first)
        k = faults[np.argmin(first_lines[faults])]
        problem = f"state {states[k]} has choice {choices[k]}, but no choice {choices[k] - 1}"
        if wrong[k]:
            where = f"state {states[k]}" + (f", choice {choices[k]}" if self._has_choices else "")
            problem = f"the probabilities of {where} sum to {sums[k]:.9g}; they must be positive and sum to 1"
        section.fail(int(first_lines[k]), problem)

    def rewards(self, section: Section) -> Floats:
        """Read rewards of states, or of transitions."""
        of_states = section.title == "State rewards"
        lines, width = section.lines, 2 if of_states else 4 if self._has_choices else 3
        if self.is_prism:
            if not lines or not all(map(is_id, lines[0][1].split())):
                line = lines[0][0] if lines else section.first
                section.fail(line, "expected the numbers of states and rewards first")
            declared, lines = int(lines[0][1].split()[-1]), lines[1:]
            if declared != len(lines):
                section.fail(section.lines[0][0], f"{declared} rewards are declared, {len(lines)} follow")
        values = np.zeros(self.num_states if of_states else self.targets.size)
        places: dict[tuple[int, ...], list[int]] = {}
        keys = (self.states, self._choices, self.targets) if self._has_choices else (self.states, self.targets)
        if not of_states:
            for k, key in enumerate(zip(*(column.tolist() for column in keys), strict=True)):
                places.setdefault(key, []).append(k)
        for line, text in lines:
            fields = text.split()
            if len(fields) != width:
                section.fail(line, f"{len(fields)} fields; expected {width}")
            ids = tuple(read_id(section, line, item, self.num_states + 1_000_000) for item in fields[:-1])
            number = read_number(section, line, fields[-1])
            if ids[0] >= self.num_states or (not of_states and ids not in places):
                section.fail(line, "a reward for a state or transition that the model does not have")
            values[ids[0] if of_states else places[ids]] = number
        return values

    def _read(self, section: Section, limit: int) -> list[_Row]:
        width = 3 + self._has_choices + self.is_partial
        rows: list[_Row] = []
        choices: dict[int, int] = {}  # of each state, in rows
        for line, text in section.lines[1:]:
            fields = text.split()
            if self.is_partial and fields[0] == "-":  # the observation of the start
                continue
            if "[" in text:
                section.fail(line, "intervals: it is not read; export the model with plain probabilities, line by line")
            if ":" in text:  # PRISM's rows: a state, then p:t for each target, and perhaps an action
                rows += self._row(section, line, fields, limit, choices)
                continue
            if len(fields) not in (width, width + 1):
                section.fail(line, f"{len(fields)} fields; expected {width}, and perhaps an action")
            state = read_id(section, line, fields[0], limit)
            choice = read_id(section, line, fields[1], limit) if self._has_choices else 0
            target = read_id(section, line, fields[1 + self._has_choices], limit)
            number = read_number(section, line, fields[2 + self._has_choices])
            action = fields[width] if len(fields) > width and self._has_choices else ""
            if action and not _NAME.fullmatch(action):
                section.fail(line, f"{action[:40]!r} is no name of an action")
            rows.append((state, choice, target, number, action, line))
        return rows

    def _row(self, section: Section, line: int, fields: list[str], limit: int, seen: dict[int, int]) -> list[_Row]:
        """Transitions of one choice."""
        state = read_id(section, line, fields[0], limit)
        seen[state] = choice = seen.get(state, -1) + 1
        action = fields.pop() if ":" not in fields[-1] else ""
        parts = [item.partition(":") for item in fields[1:]]
        numbers = [(read_number(section, line, p), read_id(section, line, target, limit)) for p, _, target in parts]
        return [(state, choice, target, number, action, line) for number, target in numbers]


def _labels(section: Section, num_states: int) -> dict[str, Bools]:
    """Read the labels of either dialect."""
    lines = section.lines or [(section.first, "")]
    line, text = lines[0]
    names: dict[str, str] = {}
    if text == "#DECLARATION":
        end = next((k for k, (_, text) in enumerate(lines) if text == "#END"), None)
        if end is None:
            section.fail(lines[-1][0], "#DECLARATION has no #END")
        names = {name: name for _, text in lines[1:end] for name in text.split()}
        lines, colon = lines[end + 1 :], ""
    else:
        for item in text.split():
            match = _LABEL.fullmatch(item)
            if match is None or not _NAME.fullmatch(match[2]):
                section.fail(line, f'{item[:40]!r} declares no label; expected #DECLARATION, or such as 0="init"')
            names[match[1]] = match[2]
        lines, colon = lines[1:], ":"
    found = {name: np.zeros(num_states, dtype=np.bool_) for name in names.values()}
    for line, text in lines:
        state, *items = text.split()
        if not state.endswith(colon):
            section.fail(line, f"{state[:40]!r} names no state; expected its number and a colon")
        index = read_id(section, line, state.removesuffix(":") if colon else state, num_states - 1)
        for item in items:
            if item not in names:
                section.fail(line, f"the label {item[:40]!r} is not declared")
            found[names[item]][index] = True
    return found


def _variables(section: Section, num_states: int) -> dict[str, Any]:
    """Read the values of variables: ``(x,b)``, then ``0:(3,true)``."""
    if len(section.lines) != num_states + 1:
        section.fail(section.first, f"{len(section.lines) - 1} states; the model has {num_states}")
    names = section.lines[0][1].strip("()").split(",")
    rows = []
    for number, (line, text) in enumerate(section.lines[1:]):
        state, _, values = text.partition(":")
        row = values.strip("()").split(",")
        if state != str(number) or len(row) != len(names):
            section.fail(line, f"{text[:40]!r} does not give the {len(names)} variables of state {number}")
        rows.append(row)
    columns = (np.array(column) for column in zip(*rows, strict=True))
    return {
        name: column == "true" if np.isin(column, ("true", "false")).all() else column
        for name, column in zip(names, columns, strict=True)
    }
