"""JSON, YAML and TOML documents, and course-style text."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailwise.errors import FormatError, OptionError, require
from tailwise.formats.documents import read_course_text, read_document
from tailwise.formats.list_options import ListOptions
from tailwise.formats.registry import register_format
from tailwise.models import TabularMDP

_LARGEST = 1_000_000_000


def read_json(path: Path, **options: Any) -> TabularMDP:
    """Transitions as JSON: columns, records or nested."""
    found = _parsed(path, json.loads)
    if isinstance(found, dict) and "jani-version" in found:
        raise OptionError(f"{path}: it is a JANI model; say jani:{path}")
    return read_document(found, ListOptions(**options), str(path), name=path.name)


def read_json_lines(path: Path, **options: Any) -> TabularMDP:
    """Transitions as JSON, one record a line."""
    records = _parsed(path, lambda text: [json.loads(line) for line in text.splitlines() if line.strip()])
    return read_document(records, ListOptions(**options), str(path), name=path.name)


def read_yaml(path: Path, **options: Any) -> TabularMDP:
    """Transitions as YAML: columns, records or nested (PyYAML)."""
    yaml: Any = require("yaml", "yaml", f"reading {path}")
    return read_document(_parsed(path, yaml.safe_load), ListOptions(**options), str(path), name=path.name)


def read_toml(path: Path, **options: Any) -> TabularMDP:
    """Transitions as TOML: columns, records or nested."""
    return read_document(_parsed(path, tomllib.loads), ListOptions(**options), str(path), name=path.name)


def read_text(path: Path, **options: Any) -> TabularMDP:
    """Course-style text: numStates, then lines 'transition s a s2 r p'."""
    text = _parsed(path, str)
    if "transition" not in text:
        raise FormatError(f"{path}, line 1: no line 'transition s a s2 r p'; for another format say FORMAT:{path}")
    return read_course_text(text, ListOptions(**options), str(path), name=path.name)


def _parsed(path: Path, parse: Callable[[str], Any]) -> Any:
    if path.stat().st_size > _LARGEST:
        raise FormatError(f"{path}, line 1: the file is larger than {_LARGEST} bytes")
    try:
        return parse(path.read_text(encoding="utf-8-sig"))
    except Exception as error:  # each parser has errors of its own
        line = getattr(error, "lineno", None) or getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise FormatError(f"{path}, line {line}: it cannot be parsed: {said}") from None


register_format("json", read_json, extensions=(".json",), options=ListOptions)
register_format("jsonl", read_json_lines, extensions=(".jsonl", ".ndjson"), options=ListOptions)
register_format("yaml", read_yaml, extensions=(".yaml", ".yml"), options=ListOptions)
register_format("toml", read_toml, extensions=(".toml",), options=ListOptions)
register_format("text", read_text, extensions=(".txt",), options=ListOptions)
