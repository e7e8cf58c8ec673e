"""Explicit files cut into sections, and the ids and numbers in their lines."""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TextIO

from tailwise.errors import FormatError

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?|[+-]?[0-9]{1,300}/0*[1-9][0-9]{0,300}")
_TITLE = re.compile(r"#\s*(Transitions|States|Labels|Observations|State rewards|Transition rewards)\s*(?:\((\w+)\))?")
_STRUCTURE = re.compile(r'#\s*Reward structure\s*(?:"([^"]*)")?')
_KINDS = ("DTMC", "MDP", "POMDP")
_LONGEST_LINE = 100_000


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
        with _open(path) as file:
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
                        if title[1] == "Transitions" and title[2] and title[2] not in _KINDS:
                            expected = ", ".join(_KINDS)
                            found[-1].fail(number, f"it is a {title[2]}; expected one of {expected} (discrete time)")
                elif text and (text[0] != "#" or text in ("#DECLARATION", "#END")):
                    found[-1].lines.append((number, text))
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise FormatError(f"{path}, line {number + 1}: damaged compressed data: {error}") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}, line {number + 1}: not UTF-8 text: {error.reason}") from None
    if not any(section.lines for section in found):
        raise FormatError(f"{path}, line 1: the file is empty")
    return found


def _open(path: Path) -> TextIO:
    """Open a text file, compressed with gzip or xz or not, for reading."""
    with path.open("rb") as file:
        mark = file.read(6)
    if mark[:2] == b"\x1f\x8b":
        return gzip.open(path, "rt", encoding="utf-8")
    return lzma.open(path, "rt", encoding="utf-8") if mark == b"\xfd7zXZ\0" else path.open(encoding="utf-8")


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
    if len(text) > 600 or not _NUMBER.fullmatch(text):
        section.fail(line, f"{text[:40]!r} is not a finite number")
    above, slash, below = text.partition("/")
    number = int(above) / int(below) if slash else float(text)
    if number in (float("inf"), -float("inf")):
        section.fail(line, f"{text[:40]!r} is not a finite number")
    return number
