"""Searches in files: what is kept of one, and how it goes on from there, to the bit.

A file keeps the options, the random stream and all that was found; not the model, nor functions among the options.
Whoever loads it gives these again. The model is compared by its fingerprint, a function by its name and code.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._files import Record, checked, clear_drafts, read_record, record_parts, write_record
from tailwise._validate import real
from tailwise._values import CannotPackError, class_name, find_class, pack, unpack
from tailwise._version import __version__
from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.models.fingerprint import fingerprint
from tailwise.models.simulator import model_name
from tailwise.search.plan import StopReason
from tailwise.search.side_by_side import SideBySide

KIND, VERSION = "search", 1

_sound: set[tuple[type, type]] = set()  # kinds of searches of which all that makes one is known to be kept


def save_search(search: Any, path: Path) -> None:
    """Write a search, whose turn it is, to a file."""
    write_record(path, KIND, VERSION, record_of(search))


def record_of(search: Any, model: str = "", call: Any = None) -> Record:
    """Return what a file keeps of a search.

    Parameters
    ----------
    search : RootedSearch
        The search.
    model : str
        Fingerprint of its model, if it is known already.
    call : object
        What is to be kept of the call of ``plan`` that is under way.
    """
    arrays: list[Any] = []
    options, functions = _split(search)
    require_known(search)
    problem = search._problem
    found = [
        {
            "stream": one._stream.copy(), "seed": one._seed_text, "step": one._step, "handle": one._handle,
            **one._memory(),
        }
        for one in search._members()
    ]  # fmt: skip
    content = {
        "tailwise": __version__,
        "search": class_name(type(search)),
        "model": [model_name(problem), model or fingerprint(problem).hex()],
        "options": pack(options, arrays),
        "functions": functions,
        "found": pack(found, arrays),
        "call": call,
    }
    return Record(content, arrays)


def _split(search: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the options of a search that a file can hold, and what tells the functions among the others."""
    options, functions = {}, {}
    for name, value in search._recipe().items():
        try:
            pack(value, [])
        except CannotPackError as error:
            if not callable(value):
                raise OptionError(
                    f"{name} of this {type(search).__name__} cannot be kept in a file: {error}. A rule of your own can "
                    "if it is a frozen dataclass at the top of a module"
                ) from None
            functions[name] = _described(value)
        else:
            options[name] = value
    return options, functions


def _described(function: Any) -> list[str]:
    """Return the name of a function, and a digest of its code and of the plain values that it closes over."""
    inner = getattr(function, "py_func", function)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return [str(name), hashlib.sha256(repr(_parts(inner)).encode()).hexdigest()[:16]]


def _parts(function: Any) -> Any:
    """Return what tells a function, or an object that can be called, from others: nested lists of texts."""
    if isinstance(function, functools.partial):
        options = [(name, _text(value)) for name, value in sorted(function.keywords.items())]
        return [_parts(function.func), _text(function.args), options]
    owner, inner = getattr(function, "__self__", None), getattr(function, "__func__", function)
    if hasattr(inner, "__code__"):
        cells = [_text(cell.cell_contents) for cell in inner.__closure__ or ()]
        return [_text(inner), _text(inner.__defaults__), cells, _attributes(owner)]
    return [_text(inner), _text(getattr(type(inner), "__call__", None)), _attributes(inner)]  # noqa: B004


def _attributes(owner: Any) -> Any:
    return [(name, _text(value)) for name, value in sorted(getattr(owner, "__dict__", {}).items())]


def _text(value: Any) -> str:
    """Return a value in words, the same in every process: exactly if it is plain, else by its code, name or class."""
    if isinstance(value, (tuple, list)):
        return repr([_text(item) for item in value])
    if isinstance(value, (set, frozenset)):
        return repr(sorted(map(_text, value)))
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)):
        return repr(value)
    code = value if isinstance(value, CodeType) else getattr(value, "__code__", None)
    if isinstance(code, CodeType):
        return repr((code.co_code.hex(), code.co_names, code.co_varnames, _text(code.co_consts)))
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def require_known(search: Any) -> None:
    """Raise if something makes this kind of search that a file would not keep."""
    kind = type(search), type(search.model)
    if kind in _sound:
        return
    twin = type(search)._remade(search._problem, search._recipe())
    others = vars(search).keys() ^ vars(twin).keys()
    is_own = type(twin.model) is type(search.model) and type(twin._binding) is type(search._binding)
    if not is_own or others - {"_search"}:  # the kernel, chosen at the first plan
        what = f"attributes of its own ({', '.join(sorted(others))})" if others else "a view of its own of the model"
        raise OptionError(f"a {kind[0].__name__} cannot be kept in a file: it has {what}")
    _sound.add(kind)


# --------------------------------------------------------------------- loading


def load_search(path: str | Path, model: Any, **functions: Callable[..., Any]) -> Any:
    """Read a search that its ``save`` wrote, or a checkpoint; it goes on as if it had never stopped.

    Parameters
    ----------
    path : str or Path
        The file.
    model : TabularMDP or simulator
        The model that it searched, which the file does not hold.
    **functions
        The functions among its options, which the file does not hold either: ``rollout_policy``, ``leaf_value``,
        ``utility`` of :class:`tailwise.NluMcts`, ``bounds`` of :class:`tailwise.BoundedTrials`.

    Returns
    -------
    TreeSearch, LearnedModelSearch or BoundedTrials
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
    source = Path(path).expanduser()
    record = read_record(source, KIND, VERSION)
    return checked(source, KIND, lambda: _loaded(source, record, model, functions))


def _loaded(source: Path, record: Record, model: Any, functions: dict[str, Callable[..., Any]]) -> Any:
    content = record.content
    if content["tailwise"] != __version__:
        raise FormatError(
            f"{source}: the search was saved by tailwise {content['tailwise']}; this is {__version__}, which may go on "
            "otherwise. Load it with that version, or search anew"
        )
    kind = find_class(content["search"])
    name, wanted = content["model"]
    if fingerprint(model).hex() != wanted:
        raise ModelError(
            f"{source}: the search is of another model: one that is called {name!r}, not this {model_name(model)!r}, "
            "or one with other costs, probabilities, start, horizon or discount"
        )
    for option, described in content["functions"].items():
        _check_function(source, option, described, functions.get(option))
    others = sorted(functions.keys() - content["functions"].keys())
    if others:
        raise OptionError(f"{source}: the search has no function {others[0]!r}; leave it out")
    search: Any = kind._remade(model, {**unpack(content["options"], record.arrays), **functions})  # type: ignore[attr-defined]
    _restore(search, record)
    return search


def _check_function(source: Path, option: str, described: list[str], given: Any) -> None:
    if given is None:
        raise OptionError(
            f"{source}: the search has {option}={described[0]}, a function, which a file cannot hold: give it again, "
            f"load_search(path, model, {option}=...)"
        )
    if _described(given) != described:
        raise OptionError(
            f"{source}: {option} is not the function {described[0]} that the search was saved with, or its code has "
            "changed since (also by another version of Python)"
        )


def _restore(search: Any, record: Record) -> None:
    """Let a search know what a record holds."""
    found = unpack(record.content["found"], record.arrays)
    for one, memory in zip(search._enrol(len(found)), found, strict=True):
        stream = memory["stream"]
        if stream.dtype != np.uint64 or stream.shape != one._stream.shape:
            raise ValueError("the random stream has another form")
        one._recall(memory)
        one._stream[:], one._seed_text = stream, memory["seed"]
        one._step, one._handle = memory["step"], memory["handle"]


# ----------------------------------------------------------------- checkpoints


_OTHERS = {
    "tailwise": "another version of tailwise", "search": "another kind", "model": "another model",
    "options": "other options", "functions": "other functions",
}  # fmt: skip


class Checkpoint:
    """A file that a call of ``plan`` keeps up to date, and from which the same call, made again, goes on.

    The file says how the search stood when the call began (a digest), so that nothing else can be taken for it.

    Parameters
    ----------
    search : RootedSearch
        The search, whose turn it is.
    path : str or Path
        The file.
    every : float
        Seconds between two writings.
    """

    def __init__(self, search: Any, path: str | Path, every: float) -> None:
        self._search, self._path = search, Path(path).expanduser()
        self._every = real(every, "every", low=0.0, hint="it is in seconds")
        self._model = fingerprint(search._problem).hex()
        self._call: dict[str, Any] = {}
        self._reasons: list[StopReason | None] = []
        self._work: Any = None
        self._written = 0.0

    def resume(self, threads: int, iterations: int | None) -> list[NDArray[np.int64]]:
        """Take over what the file holds of this call; return the counts of each tree when it began, none if it is new.

        Raises
        ------
        FormatError
            If the file holds something else, or is damaged; it stays as it is.
        OptionError
            If it holds another search, a call with other threads, or more iterations than are asked for.
        """
        search = self._search
        now = record_of(search, self._model)
        self._call = {"origin": _digest(now), "threads": threads}
        if not self._path.exists():
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
        checked(self._path, KIND, lambda: _restore(search, found))
        self._reasons = [None if reason is None else StopReason(reason) for reason in call["reasons"]]
        return before

    def begin(
        self, work: SideBySide, before: list[NDArray[np.int64]], progress: Callable[[int, float], None] | None
    ) -> Callable[[int, float], None]:
        """Write the file for the first time; return a function that reports progress and writes it when it is time."""
        clear_drafts(self._path)
        self._work, self._call["before"] = work, [counts.tolist() for counts in before]
        if self._reasons:
            work.resume(self._reasons)
        self.save()

        def note(iterations: int, seconds: float) -> None:
            if progress is not None:
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
        write_record(self._path, KIND, VERSION, record_of(self._search, self._model, call))
        self._written = time.monotonic()


def _digest(record: Record) -> str:
    """Return a digest of a search, whatever call is under way."""
    parts = record_parts(KIND, VERSION, Record({**record.content, "call": None}, record.arrays))
    return str(parts[-1].decode().strip())
