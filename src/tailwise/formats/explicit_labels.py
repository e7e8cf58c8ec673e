"""Label files of explicit models, in both dialects, for Storm's parser."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tailwise.formats.explicit_lines import Lines, read_id

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERED = re.compile(r'([0-9]{1,9})="([^"]*)"')


def storm_labels(source: Lines, num_states: int) -> str:
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


def _label_rows(source: Lines, rows: list[tuple[int, list[str]]], declared: set[str], num_states: int) -> Iterator[str]:
    for line, fields in sorted(rows, key=lambda row: (len(row[1][0]), row[1][0])):
        read_id(source, line, fields[0], num_states - 1)
        unknown = [name for name in fields[1:] if name not in declared]
        if unknown:
            source.fail(line, f"the label {unknown[0][:40]!r} is not declared")
        yield " ".join(fields) + "\n"


def _numbered_labels(source: Lines, num_states: int) -> str:
    """Translate the label file of PRISM's dialect, ``0="init" 1="deadlock"`` and then ``3: 0 1``."""
    line, first = source.lines[0]
    names: dict[str, str] = {}
    for field in first:
        match = _NUMBERED.fullmatch(field)
        if match is None or not NAME.fullmatch(match[2]):
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
