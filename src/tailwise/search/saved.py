"""Searches in files: what is kept of one, and how it goes on from there, to the bit.

A file keeps the options, the random stream and all that was found; not the model, nor functions among the options.
Whoever loads it gives these again. The model is compared by its fingerprint, a function by its name and code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tailwise._files import Record, checked, read_record, write_record
from tailwise._values import CannotPackError, class_name, find_class, pack, unpack
from tailwise._version import __version__
from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.models.check import require_model
from tailwise.models.fingerprint import fingerprint
from tailwise.models.simulator import model_name
from tailwise.search.function_text import described

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
            functions[name] = described(value)
        else:
            options[name] = value
    return options, functions


def require_known(search: Any, *kept: str) -> None:
    """Raise if something makes this kind of search that a file would not keep, apart from attributes ``kept``."""
    kind = type(search), type(search.model)
    if kind in _sound and not kept:
        return
    twin = type(search)._remade(search._problem, search._recipe())
    others = (vars(search).keys() ^ vars(twin).keys()) - set(kept)
    is_own = type(twin.model) is type(search.model) and type(twin._binding) is type(search._binding)
    if not is_own or others - {"_search"}:  # the kernel, chosen at the first plan
        what = f"attributes of its own ({', '.join(sorted(others))})" if others else "a view of its own of the model"
        raise OptionError(f"a {kind[0].__name__} cannot be kept in a file: it has {what}")
    if not kept:
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
    source = Path(path).expanduser()
    record = read_record(source, KIND, VERSION)
    require_model(model)
    found = fingerprint(model).hex()
    kind, options = checked(source, KIND, lambda: _made_with(source, record, model_name(model), found, functions))
    search = kind._remade(model, {**options, **functions})
    checked(source, KIND, lambda: restore(search, record))
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
    if described(given) != wanted:
        raise OptionError(
            f"{source}: {option} is not the function {wanted[0]} that the search was saved with, or its code has "
            "changed since (also by another version of Python)"
        )


def restore(search: Any, record: Record) -> None:
    """Let a search know what a record holds."""
    found = unpack(record.content["found"], record.arrays)
    for one, memory in zip(search._enrol(len(found)), found, strict=True):
        stream = memory["stream"]
        if stream.dtype != np.uint64 or stream.shape != one._stream.shape:
            raise ValueError("the random stream has another form")
        one._recall(memory)
        one._stream[:], one._seed_text = stream, memory["seed"]
        one._step, one._handle = memory["step"], memory["handle"]
