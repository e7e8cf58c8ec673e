"""The text of a PRISM program, in the form in which Storm takes it.

PRISM lets the model type stand anywhere, takes a program without one for an MDP, and still knows the old words for
it. Storm wants it first: it is put there, on the first line, so that Storm's line numbers stay those of the file.
"""

from __future__ import annotations

import graphlib
import re
from pathlib import Path

from tailwise.errors import FormatError

_TYPES = {
    "dtmc": "dtmc", "mdp": "mdp", "ctmc": "ctmc", "pomdp": "pomdp", "pta": "pta", "popta": "popta", "ma": "ma",
    "smg": "smg", "csg": "csg", "idtmc": "idtmc", "imdp": "imdp", "probabilistic": "dtmc", "nondeterministic": "mdp",
    "stochastic": "ctmc",
}  # fmt: skip
_CASSANDRA = re.compile(r"^\s*(discount|values|states|actions|observations)\s*:", re.MULTILINE)
_SKIPPED = re.compile(r'//[^\n]*|"[^"\n]*"')
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[^\sA-Za-z0-9_]")
_BY_ZERO = re.compile(r"/\s*0(?:\.0*)?(?![\w.])")
_BY_NUMBER = re.compile(r"/\s*(?:\d+(?:\.\d*)?|\.\d+)(?:[eE]\d+)?(?![\w.^])|\bmod\s*\([^(),]*,\s*[1-9]\d*\s*\)")
_DIVISION = re.compile(r"/|%|\^|\b(?:mod|pow|log)\b")
_CONSTANT = re.compile(r"\bconst\b\s*(?:(?:int|double|bool|rate|prob)\b\s*)?([A-Za-z_]\w*)\s*(?:=([^;]*))?;")
_UNARY = re.compile(r"\b(min|max)(\s*\([^(),]*\))")
_SYSTEM = re.compile(r"\bsystem\b(.*?)\bendsystem\b", re.DOTALL)
_BODIES = {
    "module": "endmodule", "rewards": "endrewards", "init": "endinit", "system": "endsystem",
    "observables": "endobservables", "player": "endplayer", "invariant": "endinvariant",
}  # fmt: skip
_WORDS = {"true", "false", "endmodule", "module", "init", "const", "formula", "label", "rewards", "min", "max"}


def tidy_program(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return a program's text with its model type in front, and a note if that changed it."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    plain = _plain(text)
    for number, line in enumerate(plain.splitlines(), 1):
        if _BY_ZERO.search(line):
            raise FormatError(f"{path}, line {number}: it divides by 0")
    if "\0" in text:
        raise FormatError(f"{path}, line {text[: text.index(chr(0))].count(chr(10)) + 1}: it is not a text file")
    text, composed = _without_system(_UNARY.sub(lambda match: " " * len(match[1]) + match[2], text), path)
    text = _in_order(text, path)
    found = _model_type(_plain(text))
    if found is None:
        return f"mdp {text}", (
            *composed,
            "it names no model type: read as an MDP, as PRISM does; write dtmc or mdp in line 1",
        )
    start, word = found
    if not _plain(text)[:start].strip() and _TYPES[word] == word:
        return text, composed
    rest = text[:start] + " " * len(word) + text[start + len(word) :]
    return f"{_TYPES[word]} {rest}", (
        *composed,
        f"its model type, {word}, is read as if it stood first",
    )


def _without_system(text: str, path: Path) -> tuple[str, tuple[str, ...]]:
    """Leave out a composition that says what holds without it: all modules in parallel."""
    plain = _plain(text)
    found = _SYSTEM.search(plain)
    if found is None:
        return text, ()
    named = re.findall(r"\w+", found[1])
    modules = re.findall(r"\bmodule\s+(\w+)", plain)
    if set(re.sub(r"\w+|\s|[()]", "", found[1]).split("||")) != {""} or sorted(named) != sorted(modules):
        line = plain.count("\n", 0, found.start()) + 1
        raise FormatError(
            f"{path}, line {line}: Storm cannot build it: of system compositions, only all modules in parallel "
            f"({' || '.join(modules)}) are read"
        )
    blank = re.sub(r"[^\n]", " ", found[0])
    return text[: found.start()] + blank + text[found.end() :], ("system ... endsystem: all modules in parallel",)


def is_cassandra(path: Path) -> bool:
    """Whether a file is no program, but one of Cassandra's format, whose .POMDP is PRISM's ending as well."""
    plain = _plain(path.read_text(encoding="utf-8-sig", errors="replace"))
    return "module" not in plain and len(set(_CASSANDRA.findall(plain))) > 1


def division(text: str) -> int | None:
    """Return the first line of a program or an expression that divides by what is no number, if there is one."""
    plain = _BY_NUMBER.sub(lambda match: " " * len(match[0]), _plain(text))
    found = _DIVISION.search(plain)
    return None if found is None else plain.count("\n", 0, found.start()) + 1


def _plain(text: str) -> str:
    """Return the text with blanks for comments and names in quotes."""
    return _SKIPPED.sub(lambda match: " " * len(match[0]), text)


def _in_order(text: str, path: Path) -> str:
    """Constants in an order in which each is declared before it is used; other lines keep their numbers."""
    found = list(_CONSTANT.finditer(_plain(text)))
    names = [match[1] for match in found]
    needs = [set(re.findall(r"[A-Za-z_]\w*", match[2] or "")) & set(names) for match in found]
    if all(need <= set(names[:k]) for k, need in enumerate(needs)) or len(set(names)) < len(names):
        return text
    try:
        order = list(graphlib.TopologicalSorter(dict(zip(names, needs, strict=True))).static_order())
    except graphlib.CycleError as error:
        chain = " -> ".join(error.args[1])
        first = next(match for match in found if match[1] == error.args[1][0])
        line = text.count("\n", 0, first.start()) + 1
        raise FormatError(f"{path}, line {line}: constants that are defined by each other: {chain}") from None
    statements = {match[1]: " ".join(_SKIPPED.sub("", text[match.start() : match.end()]).split()) for match in found}
    for match in reversed(found):
        blank = re.sub(r"[^\n]", " ", match[0])
        is_first = match is found[0]
        text = text[: match.start()] + ("\0" if is_first else "") + blank + text[match.end() :]
    return text.replace("\0", " ".join(statements[name] for name in order), 1)


def undeclared_name(text: str, line: int, column: int) -> str:
    """Return the name at a place of a program if nothing declares it there, or "" (line and column count from 1)."""
    lines = text.splitlines()
    match = re.match(r"[\s!(-]*([A-Za-z_]\w*)", lines[line - 1][column - 1 :]) if line <= len(lines) else None
    name = match[1] if match else ""
    kinds = (r"\b(const|formula)\b[^;=]*\b{}\b", r"\bmodule\s+{}\b", r"\b{}\s*(\(|:\s*(\[|bool|int|clock))")
    declared = "|".join(kind.format(name) for kind in kinds)
    return "" if re.search(declared, _SKIPPED.sub("", text)) or name in _WORDS else name


def _model_type(plain: str) -> tuple[int, str] | None:
    """Place and word of the model type, which stands outside of modules and is a statement of its own."""
    closing, is_statement = "", True
    for match in _WORD.finditer(plain):
        word = match[0]
        if closing:
            is_statement = word == closing
            closing = "" if is_statement else closing
        elif is_statement and word in _TYPES:
            return match.start(), word
        else:
            closing = _BODIES.get(word, "") if is_statement else ""
            is_statement = word == ";"
    return None
