"""Searches from files: the parameters and the state that a file holds, with the model and functions given again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailwise import __version__
from tailwise._files import Record, checked, read_record
from tailwise._validate import file_path
from tailwise._values import find_class, function_name, unpack
from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.models.check import fingerprint, require_model
from tailwise.models.simulator import is_partly_observed, model_name
from tailwise.search.anytime_search import AnytimeSearch
from tailwise.search.plan import Plan
from tailwise.search.saving import KIND, VERSION, take_over


def load_search(path: str | Path, model: Any, **functions: Callable[..., Any]) -> AnytimeSearch[Plan]:
    """Read a search that its ``save`` wrote, or a checkpoint; it goes on as if it had never stopped.

    Parameters
    ----------
    path : str or Path
        The file.
    model : TabularMDP or simulator
        The model that it searched, which the file does not hold.
    **functions
        The functions among its options, which the file does not hold either: ``rollout_policy``, ``prior_policy``,
        ``leaf_value``, ``utility`` of :class:`tailwise.NluMcts`, ``bounds`` of :class:`tailwise.BoundedRtdp`.

    Returns
    -------
    TreeSearch, LearnedModelSearch, BoundedRtdp or HistoryMcts
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
    record = read_record(source, KIND, VERSION)
    if not is_partly_observed(model):
        require_model(model)
    found = fingerprint(model).hex()
    kind, options = checked(source, KIND, lambda: _made_with(source, record, model_name(model), found, functions))
    whole = options.get("options")
    if whole is not None:
        inner = {name: functions[name] for name in functions.keys() & vars(whole).keys()}
        options["options"] = dataclasses.replace(whole, **inner)
        functions = {name: function for name, function in functions.items() if name not in inner}
    search: AnytimeSearch[Plan] = kind(model, **options, **functions, seed=0)
    checked(source, KIND, lambda: take_over(search, record))
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
