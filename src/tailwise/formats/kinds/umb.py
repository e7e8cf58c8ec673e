"""Read UMB archives, the exchange format of probabilistic model checkers: a tar of plain binary arrays and an index.

Storm hands the models that it builds over in this form; its files, and those of other tools, are read without it.
"""

from __future__ import annotations

import itertools
import json
import lzma
import operator
import tarfile
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Bools, Floats, Ints
from tailwise.errors import FormatError, OptionError
from tailwise.formats.explicit_model import MOST_NAMES, ExplicitModel, table_of_model
from tailwise.formats.options import StormOptions
from tailwise.formats.registry import register_format
from tailwise.models import PomdpTable, TabularMDP

_VERSION = 1


def read_umb_file(path: Path, **options: Any) -> TabularMDP | PomdpTable:
    """UMB archive, of Storm or PRISM; options as for explicit files."""
    asked = StormOptions(**options)
    if asked.constants:
        raise OptionError(f"{path}: constants are for PRISM and JANI files; explicit models have none")
    return table_of_model(read_umb(path), path, asked)


register_format("umb", read_umb_file, extensions=(".umb",), options=StormOptions)


def read_umb(path: Path) -> ExplicitModel:
    """Read a discrete-time model with at most one player."""
    try:
        with tarfile.open(path) as archive:
            return _Reader(path, archive).model()
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise FormatError(f"{path}: not a readable UMB archive: {error}") from None
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}, member index.json: it does not describe a model: {error!r}") from None


class _Reader:
    def __init__(self, path: Path, archive: tarfile.TarFile) -> None:
        self._path, self._archive = path, archive
        self._members = {member.name: member for member in archive if member.isfile()}
        try:
            index = json.loads(self._bytes("index.json"))
        except ValueError as error:
            self._fail("index.json", f"not valid JSON: {error}")
        self._index: dict[str, Any] = index
        self._system: dict[str, Any] = index["transition-system"]

    def model(self) -> ExplicitModel:
        """Return the model."""
        system = self._system
        if self._index.get("format-version") != _VERSION:
            self._fail("index.json", f"version {self._index.get('format-version')!r}; expected {_VERSION}")
        if system.get("time", "discrete") != "discrete" or system.get("#players", 1) > 1:
            kind = f"{system.get('time')} time, {system.get('#players')} players"
            self._fail("index.json", f"{kind}; expected discrete time, and one player at most")
        states, choices, branches = (self._count(name) for name in ("#states", "#choices", "#branches"))
        choice_offsets = self._offsets("state-to-choices.bin", states, choices, least=0)
        branch_offsets = self._offsets("choice-to-branches.bin", choices, branches)
        targets = self._indices("branch-to-target.bin", "<u8", branches, states, "state")
        name, described = "branch-to-probability.bin", system.get("branch-probability-type")
        chances = self._numbers(name, described, branches) if name in self._members else np.ones(branches)
        action_names, actions = self._actions(choices)
        initial = np.flatnonzero(self._bits("state-is-initial.bin", states))
        labels = {"init": self._bits("state-is-initial.bin", states)} if initial.size else {}
        notes = self._index.get("annotations", {})
        for key, entry in notes.get("aps", {}).items():
            if "states" in entry.get("applies-to", ()):
                labels[entry.get("alias", key)] = self._bits(f"annotations/aps/{key}/states/values.bin", states)
        sizes = {"states": states, "choices": choices, "branches": branches}
        rewards = {}
        for key, entry in notes.get("rewards", {}).items():
            rewards[entry.get("alias", "" if key == "default" else key)] = {
                part: self._numbers(f"annotations/rewards/{key}/{part}/values.bin", entry.get("type"), sizes[part])
                for part in entry["applies-to"]
            }
        name, count = "observations/states/values.bin", system.get("#observations", 0)
        shown = count and name in self._members  # else that is by chance, or not said
        return ExplicitModel(
            choice_offsets=choice_offsets, branch_offsets=branch_offsets, targets=targets.astype(np.int32),
            chances=chances, initial=initial, labels=labels, rewards=rewards, actions=actions,
            action_names=action_names, variables=self._variables(states), is_partial=count > 0,
            observations=self._indices(name, "<u8", states, count, "observation") if shown else None,
        )  # fmt: skip

    def _indices(self, name: str, kind: str, size: int, count: int, what: str) -> Ints:
        found = self._array(name, kind, size).astype(np.int64)
        if size and not 0 <= int(found.min()) <= int(found.max()) < count:
            self._fail(name, f"it names {what} {found.max()} of {count}")
        return found

    def _fail(self, member: str, problem: str) -> NoReturn:
        raise FormatError(f"{self._path}, member {member}: {problem}")

    def _count(self, name: str) -> int:
        count = self._system[name]
        size = sum(member.size for member in self._members.values())  # everything takes more than one byte
        if not isinstance(count, int) or not 0 < count <= size:
            self._fail("index.json", f"{name} is {count!r}; expected one of 1 to {size}, its bytes")
        return count

    def _bytes(self, name: str) -> bytes:
        member = self._members.get(name)
        file = None if member is None else self._archive.extractfile(member)
        if file is None:
            self._fail(name, "it is missing")
        return file.read()

    def _array(self, name: str, kind: Any, count: int) -> NDArray[Any]:
        content, size = self._bytes(name), count * np.dtype(kind).itemsize
        if len(content) != size:
            self._fail(name, f"it has {len(content)} bytes; expected {size}")
        return np.frombuffer(content, dtype=kind)

    def _numbers(self, name: str, described: Any, count: int) -> Floats:
        """Read numbers of the type that the index describes: doubles, whole numbers, or pairs of them (rationals)."""
        kind: str = "double" if described is None else described["type"]
        size: Any = (described or {}).get("size", 128 if kind == "rational" else 64)
        if kind == "rational" and size in (16, 32, 64, 128):
            half = size // 16
            pairs = self._array(name, np.dtype([("above", f"<i{half}"), ("below", f"<u{half}")]), count)
            if (pairs["below"] == 0).any():
                self._fail(name, "it holds a fraction with the denominator 0")
            return np.array(list(map(operator.truediv, pairs["above"].tolist(), pairs["below"].tolist())), dtype=float)
        letters = {"double": "f", "int": "i", "uint": "u"}
        if kind not in letters or size not in ((64,) if kind == "double" else (8, 16, 32, 64)):
            self._fail("index.json", f"numbers of type {kind!r} and {size} bits in {name}; export it with doubles")
        return self._array(name, f"<{letters[kind]}{size // 8}", count).astype(np.float64)

    def _bits(self, name: str, count: int) -> Bools:
        content = np.frombuffer(self._bytes(name), dtype=np.uint8)
        if content.size * 8 < count:
            self._fail(name, f"it has {content.size * 8} bits; expected {count}")
        return np.unpackbits(content, bitorder="little", count=count).astype(np.bool_)

    def _offsets(self, name: str, count: int, total: int, least: int = 1) -> Ints:
        if name not in self._members and count == total:  # one each
            return np.arange(count + 1, dtype=np.int64)
        offsets = self._array(name, "<u8", count + 1).astype(np.int64)
        if offsets[0] != 0 or offsets[-1] != total or (np.diff(offsets) < least).any():
            self._fail(name, f"it does not cut {total} items into {count} runs of at least {least}")
        return offsets

    def _actions(self, choices: int) -> tuple[tuple[str, ...], Ints | None]:
        count = self._system.get("#choice-actions", 0)
        if not count or "actions/choices/values.bin" not in self._members:
            return (), None
        actions = self._indices("actions/choices/values.bin", "<u4", choices, count, "action")
        if "actions/choices/string-mapping.bin" not in self._members:
            return tuple(f"action {k}" for k in range(count)), actions
        ends = self._array("actions/choices/string-mapping.bin", "<u8", count + 1).tolist()
        text = self._bytes("actions/choices/strings.bin")
        return tuple(text[a:b].decode("utf-8", "replace") for a, b in itertools.pairwise(ends)), actions

    def _variables(self, states: int) -> dict[str, NDArray[Any]]:
        """Decode the states' variables, packed into as few bits as they need; {} where they are of other kinds."""
        classes = self._index.get("valuations", {}).get("states", {}).get("classes", ())
        if len(classes) != 1 or states > MOST_NAMES:
            return {}
        fields = classes[0]["variables"]
        sizes = [field["padding"] if "padding" in field else field["type"].get("size", 64) for field in fields]
        content = self._array("valuations/states/valuations.bin", "|u1", states * (sum(sizes) // 8))
        bits = np.unpackbits(content.reshape(states, -1), axis=1, bitorder="little")
        found: dict[str, NDArray[Any]] = {}
        first = 0
        for field, size in zip(fields, sizes, strict=True):
            part, first = bits[:, first : first + size], first + size
            if "padding" in field:
                continue
            kind = field["type"]["type"]
            if kind == "double" and size == 64:
                found[field["name"]] = np.packbits(part, axis=1, bitorder="little").view("<f8").reshape(-1)
                continue
            if field.get("is-optional") or size > 62 or kind not in ("bool", "uint", "int"):
                return {}
            number = part.astype(np.int64) @ (np.int64(1) << np.arange(size, dtype=np.int64))
            if kind == "int" and size:
                number -= (part[:, -1].astype(np.int64)) << size
            number += int(field.get("offset", 0))
            found[field["name"]] = number.astype(np.bool_) if kind == "bool" else number
        return found
