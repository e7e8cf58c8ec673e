"""Have Storm parse and build a model: PRISM, JANI and DRN files.

Everything that understands these languages is Storm's; its calls are in :mod:`tailwise.formats.storm_calls`, and here
its complaints are turned into errors that name the file. What it built comes over as a UMB archive.

Texts are looked at and put in order before. PRISM lets the model type stand anywhere, takes a program without one for
an MDP, and still knows the old words for it. Storm wants it first: it is put there, on the first line, so that Storm's
line numbers stay those of the file.

JANI may put rewards on single destinations of an edge. Storm lifts them to the edge, as the mean over its
destinations: right for expectations, wrong for every other risk. A reward is a transient variable: states have its
initial value, and so have steps that assign no other; where that is not 0, it matters which of the two count.
"""

from __future__ import annotations

import dataclasses
import functools
import graphlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from tailwise._arrays import marked
from tailwise._progress import activity
from tailwise.errors import FormatError, OptionError, require
from tailwise.formats import storm_calls
from tailwise.formats.explicit_model import ExplicitModel, table_of_model
from tailwise.formats.kinds.cassandra import read_cassandra
from tailwise.formats.kinds.umb import read_umb
from tailwise.formats.metadata import parse_json
from tailwise.formats.options import StormOptions
from tailwise.formats.registry import COMMON, register_format
from tailwise.models import PomdpTable, TabularMDP

_LINE = re.compile(r"(?:parsing error at|line|error at) (\d+)", re.IGNORECASE)
_PLACE = re.compile(r"error at (\d+):(\d+): *expecting <[^>]*(?:expression|update list)>")
_INTERVAL = re.compile(r":\s*\[[^]]*,[^]]*\]")
_JANI_DIVISION = re.compile(r'"op"\s*:\s*"(?:/|%|pow|log)"')


def read_symbolic(path: Path, *, kind: str, **options: Any) -> TabularMDP | PomdpTable:
    """Model that Storm builds (extra ``prism``)."""
    asked = StormOptions(**options)
    if kind == "prism" and is_cassandra(path):
        return read_cassandra(path, **{name: options[name] for name in (*COMMON, "observe") if name in options})
    with activity(f"building {path.name} with Storm", show=asked.progress) as say:
        model = build(kind, path, asked)
        say(f"reading {model.num_states} states and {model.targets.size} transitions of {path.name}")
        unsure = rewards_to_ask_about(path) if kind == "jani" else (frozenset(), frozenset())
        return table_of_model(model, path, asked, *unsure)


for _name, _extensions in {
    "prism": (".prism", ".nm", ".pm", ".sm", ".ma", ".pomdp"),
    "jani": (".jani",),
    "drn": (".drn",),
}.items():
    register_format(_name, functools.partial(read_symbolic, kind=_name), extensions=_extensions, options=StormOptions)


def build(kind: str, path: Path, options: StormOptions) -> ExplicitModel:
    """Build a model."""
    storm: Any = require("stormpy", "prism", f"reading {path}")
    if not hasattr(storm, "build_model_from_umb"):
        raise FormatError(f"{path}: stormpy {storm.__version__} is too old; expected version 2 or later")
    if options.constants and kind == "drn":
        raise OptionError(f"{path}: constants are for PRISM and JANI files; explicit models have none")
    if options.labels or options.state_rewards or options.transition_rewards:
        raise OptionError(f"{path}: labels, state_rewards and transition_rewards belong to .tra files")
    with TemporaryDirectory(prefix="tailwise-") as folder:
        asked: dict[str, Any] = {
            "language": kind, "file": str(path), "constants": str(options.constants), "goal": options.goal,
            "max_states": options.max_states, "archive": str(Path(folder) / "model.umb"),
        }  # fmt: skip
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        notes: tuple[str, ...] = ()
        if kind == "prism":
            text, notes = tidy_program(path)
            asked["file"] = str(Path(folder) / path.name)
            Path(asked["file"]).write_text(text, encoding="utf-8")
            asked["divides"] = division(text) is not None
            asked["looked_at"] = str(Path(folder) / "labels.prism")
            Path(asked["looked_at"]).write_text(with_rewards_as_labels(text), encoding="utf-8")
        else:
            asked["divides"] = kind == "jani" and _JANI_DIVISION.search(text) is not None
        asked["divides"] |= options.goal is not None and division(options.goal) is not None
        reply = _apart(asked, path, text) if asked["divides"] else storm_calls.build(asked)
        if "said" in reply:
            _complain(reply, path, asked["file"], text)
        model = read_umb(Path(asked["archive"]))
    hidden = kind == "jani" and '"observable"' in text  # Storm builds the model as if all were seen
    goal = None
    if reply["goal"] is not None:
        goal = marked(model.num_states, reply["goal"])
    return dataclasses.replace(model, goal=goal, notes=notes, is_partial=model.is_partial or hidden)


def _apart(asked: dict[str, Any], path: Path, text: str) -> dict[str, Any]:
    """Build in a process of its own, which Storm's arithmetic by zero may end."""
    answer = Path(asked["archive"]).with_name("reply.json")
    ended = subprocess.run(
        [sys.executable, storm_calls.__file__], input=json.dumps(asked | {"reply": str(answer)}), text=True,
        capture_output=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, check=False,
    )  # fmt: skip
    if answer.is_file():
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return found
    if ended.returncode == -signal.SIGFPE:
        line = division(text) if asked["language"] == "prism" else None
        where = f"{path}, line {line}" if line else f"{path}"
        given = f" with constants={asked['constants']!r}" if asked["constants"] else ""
        raise FormatError(f"{where}: it divides by 0, or takes a remainder by 0{given} (Storm's arithmetic stopped)")
    said = " ".join(ended.stderr.split())[-300:]
    raise FormatError(f"{path}: Storm's process ended with code {ended.returncode} while it built the model: {said}")


def _complain(reply: dict[str, Any], path: Path, file: str, text: str) -> NoReturn:
    said, kind = reply["said"], reply["kind"]
    if kind != "Storm":
        raise (OptionError if kind == "OptionError" else FormatError)(f"{path}: {said}")
    if path.suffix == ".drn" and _INTERVAL.search(text):
        raise FormatError(f"{path}: it has intervals; expected plain probabilities")
    place = _PLACE.search(said)
    name = undeclared_name(text, int(place[1]), int(place[2])) if place else ""
    if place and name:
        raise FormatError(
            f"{path}, line {place[1]}: nothing declares {name!r}; if it is a constant, add the line "
            f"'const int {name};' (or double, or bool) and say constants='{name}=...'"
        )
    lost = undeclared_assignment(text) if said == "std::exception" and path.suffix != ".jani" else None
    if lost:
        raise FormatError(f"{path}, line {lost[0]}: ({lost[1]}'=...) assigns to {lost[1]!r}, which no module declares")
    said = said.replace(file, path.name).replace(str(path), path.name)
    found = _LINE.search(said)
    where = f"{path}, line {found[1]}" if found else f"{path}"
    raise FormatError(f"{where}: Storm cannot build it: {said[:400]}")


_TYPES = {name: name for name in ["dtmc", "mdp", "ctmc", "pomdp", "pta", "popta", "ma", "smg", "csg", "idtmc", "imdp"]}
_TYPES |= {"probabilistic": "dtmc", "nondeterministic": "mdp", "stochastic": "ctmc"}
_CASSANDRA = re.compile(r"^\s*(discount|values|states|actions|observations)\s*:", re.MULTILINE)
_SKIPPED = re.compile(r'//[^\n]*|"[^"\n]*"')
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[^\sA-Za-z0-9_]")
_BY_ZERO = re.compile(r"/\s*0(?:\.0*)?(?![\w.])")
_BY_NUMBER = re.compile(r"/\s*(?:\d+(?:\.\d*)?|\.\d+)(?:[eE]\d+)?(?![\w.^])|\bmod\s*\([^(),]*,\s*[1-9]\d*\s*\)")
_DIVISION = re.compile(r"/|%|\^|\b(?:mod|pow|log)\b")
_CONSTANT = re.compile(r"\bconst\b\s*(?:(?:int|double|bool|rate|prob)\b\s*)?([A-Za-z_]\w*)\s*(?:=([^;]*))?;")
_REWARDS = re.compile(r"\brewards\b(.*?)\bendrewards\b", re.DOTALL)
_REWARD = re.compile(r"\s*(?:\[\s*(\w*)\s*\])?([^:]*):(.*)", re.DOTALL)
_UNARY = re.compile(r"\b(min|max)(\s*\([^(),]*\))")
_SYSTEM = re.compile(r"\bsystem\b(.*?)\bendsystem\b", re.DOTALL)
_BODIES = {name: f"end{name}" for name in ["module", "rewards", "init", "system", "observables", "player", "invariant"]}
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
        note = "it names no model type: read as an MDP, as PRISM does; write dtmc or mdp in line 1"
        return f"mdp {text}", (*composed, note)
    start, word = found
    if not _plain(text)[:start].strip() and _TYPES[word] == word:
        return text, composed
    rest = text[:start] + " " * len(word) + text[start + len(word) :]
    return f"{_TYPES[word]} {rest}", (*composed, f"its model type, {word}, is read as if it stood first")


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


def with_rewards_as_labels(text: str) -> str:
    """Return a program with a label for each reward, ``reward_NUMBER``, and ``_ACTION``: Storm shows labels' terms."""
    items = [item for block in _REWARDS.findall(_plain(text)) for item in block.split(";")]
    labels = [
        f'label "reward_{k}{"" if match[1] is None else f"_{match[1]}"}" = ({match[2]}) & (({match[3]}) > 0);\n'
        for k, match in enumerate(map(_REWARD.match, items))
        if match
    ]
    return "\n".join((text, *labels))


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


def undeclared_assignment(text: str) -> tuple[int, str] | None:
    """Return line and name of the first variable that is assigned and not declared, of which Storm says nothing."""
    plain = _plain(text)
    declared = set(re.findall(r"\b(\w+)\s*:\s*(?:\[|bool\b|int\b|clock\b)", plain))
    for found in re.finditer(r"\(\s*([A-Za-z_]\w*)\s*'\s*=", plain):
        if found[1] not in declared:
            return plain.count("\n", 0, found.start()) + 1, found[1]
    return None


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


def rewards_to_ask_about(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the rewards that differ between destinations of one edge, and of those not 0 at first."""
    content = parse_json(path.read_text(encoding="utf-8-sig", errors="replace"), str(path))
    found: set[str] = set()
    automata = _items(content, "automata")
    for automaton in automata:
        elsewhere = [item for other in automata if other is not automaton for item in _assignments(other)]
        for item in _assignments(automaton):  # what another automaton assigns before, in the same step, may be random
            read = set(_names(item.get("value")))
            if any(_index(before) < _index(item) and str(before["ref"]) in read for before in elsewhere):
                found.add(str(item["ref"]))
        for edge in _items(automaton, "edges"):
            destinations = [_assigned(destination) for destination in _items(edge, "destinations")]
            names = {name for values in destinations for name in values}
            found |= {name for name in names if len({values.get(name) for values in destinations}) > 1}
    variables = [item for item in _items(content, "variables") if isinstance(item, dict) and item.get("transient")]
    return frozenset(found), frozenset(str(v.get("name")) for v in variables if v.get("initial-value", 0) != 0)


def _assignments(automaton: Any) -> Iterator[dict[str, Any]]:
    for edge in _items(automaton, "edges"):
        for destination in _items(edge, "destinations"):
            yield from _valid(destination)


def _valid(destination: Any) -> list[dict[str, Any]]:
    """Assignments of a destination, in order of their indices."""
    items = [item for item in _items(destination, "assignments") if isinstance(item, dict) and "ref" in item]
    return sorted(items, key=_index)


def _index(item: dict[str, Any]) -> int:
    index = item.get("index", 0)
    return index if isinstance(index, int) else 0


def _assigned(destination: Any) -> dict[str, str]:
    """What a destination assigns, by variable, as JSON text in terms of the values before the step."""
    known: dict[str, Any] = {}
    for _, group in itertools.groupby(_valid(destination), key=_index):
        # those of one index happen at once, and read what lower ones assigned
        known |= {str(item["ref"]): _value(item.get("value"), known) for item in list(group)}
    return {name: json.dumps(value, sort_keys=True) for name, value in known.items()}


def _value(value: Any, known: dict[str, Any]) -> Any:
    """Put in what was assigned before, and drop comments, which tools add to expressions."""
    if isinstance(value, dict):
        return {k: v if k == "op" else _value(v, known) for k, v in value.items() if k != "comment"}
    if isinstance(value, str):
        return known.get(value, value)
    return [_value(item, known) for item in value] if isinstance(value, list) else value


def _names(value: Any) -> Iterator[str]:
    """Every name that an expression may refer to."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _names(item)


def _items(owner: Any, key: str) -> list[Any]:
    items = owner.get(key, []) if isinstance(owner, dict) else []
    return items if isinstance(items, list) else []
