"""Searches in files, and calls of ``plan`` that keep one up to date: how they go on from there, to the bit.

A file keeps the parameters and the state of a search; not the model, nor functions among the parameters. Whoever loads
it gives these again. The model is compared by its fingerprint, a function by its name and code.
"""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise import __version__
from tailwise._files import Record, checked, clear_drafts, read_record, record_parts, write_record
from tailwise._progress import PlanTick
from tailwise._validate import file_path, real
from tailwise._values import CannotPackError, class_name, function_name, pack, unpack
from tailwise.errors import OptionError
from tailwise.models.check import fingerprint
from tailwise.models.simulator import model_name
from tailwise.search.anytime import SideBySide
from tailwise.search.plan import StopReason

KIND, VERSION = "search", 7

_OTHERS = {
    "tailwise": "another version of tailwise", "search": "another kind", "model": "another model",
    "options": "other options", "functions": "other functions",
}  # fmt: skip


def save_search(search: Any, path: Path) -> None:
    """Write a search, whose turn it is, to a file."""
    write_record(path, KIND, VERSION, _record_of(search))


def _record_of(search: Any, model: str = "", call: Any = None) -> Record:
    """Return what a file keeps of a search: its ``model`` by a fingerprint, and ``call``, if one is under way."""
    arrays: list[Any] = []
    options, functions = _split(search)
    search.require_portable()
    content = {
        "tailwise": __version__,
        "search": class_name(type(search)),
        "model": [model_name(search.problem), model or fingerprint(search.problem).hex()],
        "options": pack(options, arrays),
        "functions": functions,
        "state": pack(search.state_dict(), arrays),
        "call": call,
    }
    return Record(content, arrays)


def _split(search: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the parameters of a search that a file can hold, and what tells the functions among the others."""
    params, functions = search.get_params(), {}
    options = params.get("options")
    for name, value in {**(vars(options) if options is not None else {}), **params}.items():
        try:
            pack(value, [])
        except CannotPackError as error:
            if value is options:
                continue
            if not callable(value):
                raise OptionError(
                    f"{name} of this {type(search).__name__} cannot be kept in a file: {error}. A rule of your own can "
                    "if it is a frozen dataclass at the top of a module"
                ) from None
            functions[name] = function_name(value)
    if options is not None:
        params["options"] = dataclasses.replace(options, **dict.fromkeys(functions.keys() & vars(options).keys()))
    return {name: value for name, value in params.items() if name not in functions}, functions


def take_over(search: Any, record: Record) -> None:
    """Let a search know what a file holds of it."""
    search.load_state_dict(unpack(record.content["state"], record.arrays))


# ------------------------------------------------------------------ checkpoints


class Checkpoint:
    """A file that a call of ``plan`` keeps up to date, and from which the same call, made again, goes on.

    The file says how the search stood when the call began (a digest), so that nothing else can be taken for it.
    ``every`` so many seconds it is written.
    """

    def __init__(self, search: Any, path: str | Path, every: float) -> None:
        self._search, self._path = search, file_path(path)
        self._every = real(every, "every", low=0.0, hint="it is in seconds")
        self._model = fingerprint(search.problem).hex()
        self._call: dict[str, Any] = {}
        self._reasons: list[StopReason | None] = []
        self._work: Any = None
        self._written = 0.0

    def resume(self, threads: int, iterations: int | None) -> list[NDArray[np.int64]]:
        """Take over what the file holds of this call; return each tree's counts when it began, none if it is new."""
        search = self._search
        now = _record_of(search, self._model)
        self._call = {"origin": _digest(now), "threads": threads}
        if not os.path.exists(self._path):  # noqa: PTH110  Path.exists fails where a name is too long
            write_record(self._path, KIND, VERSION, now)  # before the work: it may be that nothing can be written there
            return []
        found = read_record(self._path, KIND, VERSION)
        call = checked(self._path, KIND, lambda: self._call_in(found, now))
        if call is None:
            return []
        if call["threads"] != threads:
            raise OptionError(
                f"{self._path} holds this call with threads={call['threads']}, not {threads}: give that, or choose "
                "another file"
            )
        if iterations is not None and call["done"] > iterations:
            raise OptionError(
                f"{self._path} holds {call['done']:,} iterations of this search already, more than "
                f"iterations={iterations:,}; ask for more, or choose another file"
            )
        before = [np.array(counts, np.int64) for counts in call["before"]]
        checked(self._path, KIND, lambda: take_over(search, found))
        self._reasons = [None if reason is None else StopReason(reason) for reason in call["reasons"]]
        return before

    def begin(self, work: SideBySide, before: list[NDArray[np.int64]], progress: PlanTick) -> PlanTick:
        """Write the file for the first time; return a function that reports progress and writes it when it is time."""
        self._work, self._call["before"] = work, [counts.tolist() for counts in before]
        if self._reasons:
            work.resume(self._reasons)
        self.save()
        clear_drafts(self._path)

        def note(iterations: int, seconds: float) -> None:
            progress(iterations, seconds)
            if time.monotonic() - self._written >= self._every:
                self.save()

        return note

    def _call_in(self, found: Record, now: Record) -> Any:
        """Return what the file says of a call that is ours; None if the search stands just where the file does."""
        for part, other in _OTHERS.items():
            if found.content[part] != now.content[part]:
                raise OptionError(
                    f"{self._path} holds another search: it is of {other}. Choose another file, or go on with that one "
                    "(tailwise.load_search)"
                )
        call = found.content["call"]
        if call is not None and call["origin"] == self._call["origin"]:
            return call
        if _digest(found) == self._call["origin"]:
            return None
        raise OptionError(
            f"{self._path} holds a search of this kind that began otherwise: with another seed (or none), state or "
            "step, or after other calls. Choose another file, or go on with that search (tailwise.load_search)"
        )

    def save(self) -> None:
        """Write the file."""
        call = {**self._call, "reasons": self._work.reasons, "done": sum(count() for count in self._work.counts)}
        write_record(self._path, KIND, VERSION, _record_of(self._search, self._model, call))
        self._written = time.monotonic()


def _digest(record: Record) -> str:
    """Return a digest of a search, whatever call is under way."""
    parts = record_parts(KIND, VERSION, Record({**record.content, "call": None}, record.arrays))
    return bytes(parts[-1]).decode().strip()
