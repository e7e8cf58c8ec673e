"""Searches in files, and calls of ``plan`` that keep one up to date: how they go on from there, to the bit.

A file keeps the parameters and the state of a search; not the model, nor functions among the parameters. Whoever loads
it gives these again. The model is compared by its fingerprint, a function by its name and code.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailwise._files import Record, checked, clear_drafts, read_record, record_parts, write_record
from tailwise._function_key import function_name
from tailwise._progress import PlanTick
from tailwise._validate import file_path, real
from tailwise._values import CannotPackError, class_name, find_class, pack, unpack
from tailwise._version import __version__
from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.models.check import fingerprint, require_model
from tailwise.models.simulator import model_name
from tailwise.search.anytime import SideBySide
from tailwise.search.plan import Plan, StopReason

if TYPE_CHECKING:
    from tailwise.search.anytime_search import AnytimeSearch

_KIND, _VERSION = "search", 3

_OTHERS = {
    "tailwise": "another version of tailwise", "search": "another kind", "model": "another model",
    "options": "other options", "functions": "other functions",
}  # fmt: skip


def save_search(search: Any, path: Path) -> None:
    """Write a search, whose turn it is, to a file."""
    write_record(path, _KIND, _VERSION, _record_of(search))


def _record_of(search: Any, model: str = "", call: Any = None) -> Record:
    """Return what a file keeps of a search: its ``model`` by a fingerprint, and ``call``, if one is under way."""
    arrays: list[Any] = []
    options, functions = _split(search)
    for tree in search._trees:
        tree._binding.require_portable()
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


def _take_over(search: Any, record: Record) -> None:
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
            return []
        found = read_record(self._path, _KIND, _VERSION)
        call = checked(self._path, _KIND, lambda: self._call_in(found, now))
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
        checked(self._path, _KIND, lambda: _take_over(search, found))
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
        write_record(self._path, _KIND, _VERSION, _record_of(self._search, self._model, call))
        self._written = time.monotonic()


def _digest(record: Record) -> str:
    """Return a digest of a search, whatever call is under way."""
    parts = record_parts(_KIND, _VERSION, Record({**record.content, "call": None}, record.arrays))
    return bytes(parts[-1]).decode().strip()


# ---------------------------------------------------------------------- loading


def load_search(path: str | Path, model: Any, **functions: Callable[..., Any]) -> AnytimeSearch[Plan]:
    """Read a search that its ``save`` wrote, or a checkpoint; it goes on as if it had never stopped.

    Parameters
    ----------
    path : str or Path
        The file.
    model : TabularMDP or simulator
        The model that it searched, which the file does not hold.
    **functions
        The functions among its options, which the file does not hold either: ``rollout_policy``, ``leaf_value``,
        ``utility`` of :class:`tailwise.NluMcts`, ``bounds`` of :class:`tailwise.BoundedRtdp`.

    Returns
    -------
    TreeSearch, LearnedModelSearch or BoundedRtdp
        Of the class that was saved. The same calls give what they would have given, bit for bit.

    Raises
    ------
    FormatError
        If there is no such file, or it holds something else, is of another version or is damaged.
    ModelError
        If ``model`` is another one. Simulators are told apart by a hundred random steps, not by their code.
    OptionError
        If a function is missing, is not the one it was saved with, or is none of its options.

    Examples
    --------
    >>> import tempfile
    >>> from tailwise import ErmMcts, domains, load_search
    >>> mdp = domains.make("mdp-4")
    >>> search = ErmMcts(mdp, beta=0.5, seed=0)
    >>> plan = search.plan(iterations=500)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load_search(search.save(f"{folder}/tree.search"), mdp)
    >>> again.plan(iterations=500).rows == search.plan(iterations=500).rows
    True
    """
    source = file_path(path)
    record = read_record(source, _KIND, _VERSION)
    require_model(model)
    found = fingerprint(model).hex()
    kind, options = checked(source, _KIND, lambda: _made_with(source, record, model_name(model), found, functions))
    whole = options.get("options")
    if whole is not None:
        inner = {name: functions[name] for name in functions.keys() & vars(whole).keys()}
        options["options"] = dataclasses.replace(whole, **inner)
        functions = {name: function for name, function in functions.items() if name not in inner}
    search: AnytimeSearch[Plan] = kind(model, **options, **functions, seed=0)
    checked(source, _KIND, lambda: _take_over(search, record))
    return search


def _made_with(
    source: Path, record: Record, model: str, found: str, functions: dict[str, Callable[..., Any]]
) -> tuple[Any, dict[str, Any]]:
    """Return the class and the options of a saved search, if the model and the functions are those that it had."""
    content = record.content
    if content["tailwise"] != __version__:
        raise FormatError(
            f"{source}: the search was saved by tailwise {content['tailwise']}; this is {__version__}, which may go on "
            "otherwise. Load it with that version, or search anew"
        )
    name, wanted = content["model"]
    if found != wanted:
        raise ModelError(
            f"{source}: the search is of another model: one that is called {name!r}, not this {model!r}, or one with "
            "other costs, probabilities, start, horizon or discount"
        )
    for option, told in content["functions"].items():
        _check_function(source, option, told, functions.get(option))
    others = sorted(functions.keys() - content["functions"].keys())
    if others:
        raise OptionError(f"{source}: the search has no function {others[0]!r}; leave it out")
    return find_class(content["search"]), unpack(content["options"], record.arrays)


def _check_function(source: Path, option: str, wanted: list[str], given: Any) -> None:
    if given is None:
        raise OptionError(
            f"{source}: the search has {option}={wanted[0]}, a function, which a file cannot hold: give it again, "
            f"load_search(path, model, {option}=...)"
        )
    if function_name(given) != wanted:
        raise OptionError(
            f"{source}: {option} is not the function {wanted[0]} that the search was saved with, or its code has "
            "changed since (also by another version of Python)"
        )
