"""Specifications of models: ``FORMAT:TARGET?option=value&option=value``.

``inventory.csv?base=1``, ``gym:FrozenLake-v1?is_slippery=false``, ``rddl:Navigation/1``,
``prism:model.txt?N=4``, or the name of a domain. A file that exists is taken as it is, whatever
characters its name has. In a value, ``%26`` stands for an ampersand.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from tailwise.errors import OptionError, UnknownNameError
from tailwise.formats.registry import claimed, find_format, format_of_file, list_formats

_FRAME = "or read it with pandas and give the frame to tailwise.load"
_ADVICE = {  # endings of files that others use for such data: what to do with them
    ".xls": f"of Excel, only .xlsx is read: save the sheet as that or CSV, {_FRAME}: load(pandas.read_excel(path))",
    ".ods": f"spreadsheets are not read: save the sheet as CSV, {_FRAME}: load(pandas.read_excel(path))",
    ".pkl": "files are never unpickled: save the table with tailwise.save as .npz or .csv",
    ".pickle": "files are never unpickled: save the table with tailwise.save as .npz or .csv",
    ".m": "MATLAB code is not run: save('model.mat', 'P', 'R') there; or, in PRISM, export without -exportmatlab",
    ".npy": "one array is no model: numpy.load(path) gives arrays for TabularMDP.from_arrays",
    ".py": "a simulator of your own is planned on from Python: make_planner(YourSimulator(), beta)",
    ".zip": "archives are not read: unpack it first",
}
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True)
class Spec:
    """A specification, taken apart.

    Attributes
    ----------
    scheme : str
        Name of a format.
    target : str
        Path, id or name.
    options : tuple of (str, value)
        What stood behind the question mark: ints, floats, bools and texts.
    """

    scheme: str
    target: str
    options: tuple[tuple[str, Any], ...] = ()


def parse_spec(text: str) -> Spec:
    """Take a specification apart.

    Examples
    --------
    >>> from tailwise.formats.spec import parse_spec
    >>> parse_spec("gym:FrozenLake-v1?is_slippery=false&map_name=8x8")
    Spec(scheme='gym', target='FrozenLake-v1', options=(('is_slippery', False), ('map_name', '8x8')))
    """
    if not text.strip() or "\0" in text:
        raise UnknownNameError(f"{text!r} names no model; {_expected()}")
    if _ADDRESS.match(text):
        raise UnknownNameError(
            f"{text[:200]!r} is an address, and tailwise does not download: fetch the file first (curl -LO ADDRESS), "
            "or give load an open file or a data frame"
        )
    scheme, colon, rest = text.partition(":")
    named = find_format(scheme) if colon else None
    body = rest if named else text
    if body.startswith("~") and (named is None or named.is_file):
        try:
            body = str(Path(body).expanduser())
        except RuntimeError:
            raise UnknownNameError(f"{text!r}: there is no such home folder") from None
    options: tuple[tuple[str, Any], ...] = ()
    if is_file(body):
        target = body
    else:
        target, _, query = body.partition("?")
        options = tuple(_option(item, text) for item in query.split("&") if item)
        names = [name for name, _ in options]
        if len(set(names)) < len(names):
            raise OptionError(f"{text!r} gives an option twice; give each once")
    if named:
        return Spec(named.name, target, options)
    by_ending = format_of_file(Path(target).name)
    if by_ending is not None:
        return Spec(claimed(by_ending, Path(target)).name, target, options)
    advice = _ADVICE.get(Path(target).suffix.lower())
    if advice is not None:
        raise UnknownNameError(f"{text!r}: {advice}")
    if is_file(target) or "/" in target or "\\" in target or (colon and scheme.isalpha()):
        raise UnknownNameError(f"{text!r} is not of a known kind; {_expected()}")
    return Spec("domain", target, options)


def is_file(text: str) -> bool:
    """Whether ``text`` is the path of an existing file."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long, for one
        return False


Value: TypeAlias = "bool | int | float | str | tuple[object, ...] | list[object]"


def value_of(text: str) -> Value:
    """Return the number or truth value that ``text`` spells, or the text itself.

    Examples
    --------
    >>> from tailwise.formats.spec import value_of
    >>> [value_of(text) for text in ("3", "0.5", "true", "up")]
    [3, 0.5, True, 'up']
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text[:1] in ("(", "[") and len(text) <= 1000:
        try:
            found = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
        return found if isinstance(found, (tuple, list)) else text
    if len(text) > 40 or "_" in text or not text.isascii():
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _expected() -> str:
    formats = list_formats()
    endings = ", ".join(ending for item in formats for ending in item.extensions)
    schemes = ", ".join(f"{item.name}:NAME" for item in formats if not item.is_file and item.name != "domain")
    return f"expected a file ({endings}), {schemes}, FORMAT:PATH or the name of a domain"


def _option(item: str, text: str) -> tuple[str, Any]:
    name, equals, value = item.partition("=")
    if not equals or not name.strip():
        raise OptionError(f"{text!r}: the option {item!r} must be name=value")
    if name.strip() == "start":  # an id or a label: whatever it looks like, it is a name
        return "start", value.strip()
    return name.strip(), value_of(unquote(value.strip()))
