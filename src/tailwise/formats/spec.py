"""Specifications of models: ``FORMAT:TARGET?option=value&option=value``.

``inventory.csv?base=1``, ``gym:FrozenLake-v1?is_slippery=false``, ``rddl:Navigation/1``,
``prism:model.txt?N=4``, or the name of a domain. A file that exists is taken as it is, whatever
characters its name has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailwise.errors import OptionError, UnknownNameError

SCHEMES = ("csv", "arrow", "npz", "prism", "jani", "drn", "tra", "gym", "rddl", "domain")
EXTENSIONS = {
    ".csv": "csv",
    ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow", ".arrows": "arrow",
    ".npz": "npz",
    ".prism": "prism", ".nm": "prism", ".pm": "prism", ".sm": "prism", ".ma": "prism", ".pomdp": "prism",
    ".jani": "jani",
    ".drn": "drn",
    ".tra": "tra",
}  # fmt: skip
_SENTENCE = (
    "expected a file (" + ", ".join(EXTENSIONS) + "), gym:ID, rddl:DOMAIN/INSTANCE, FORMAT:PATH or the name of a domain"
)


@dataclass(frozen=True)
class Spec:
    """A specification, taken apart.

    Attributes
    ----------
    scheme : str
        One of ``SCHEMES``.
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

    Parameters
    ----------
    text : str
        The specification.

    Returns
    -------
    Spec

    Raises
    ------
    UnknownNameError
        If it names a file of an unknown kind.
    OptionError
        If an option is not ``name=value``.

    Examples
    --------
    >>> from tailwise.formats.spec import parse_spec
    >>> parse_spec("gym:FrozenLake-v1?is_slippery=false&map_name=8x8")
    Spec(scheme='gym', target='FrozenLake-v1', options=(('is_slippery', False), ('map_name', '8x8')))
    """
    if not text.strip() or "\0" in text:
        raise UnknownNameError(f"{text!r} names no model; {_SENTENCE}")
    scheme, colon, rest = text.partition(":")
    has_scheme = bool(colon) and scheme.lower() in SCHEMES
    body = rest if has_scheme else text
    options: tuple[tuple[str, Any], ...] = ()
    if is_file(body):
        target = body
    else:
        target, _, query = body.partition("?")
        options = tuple(_option(item, text) for item in query.split("&") if item)
    if has_scheme:
        return Spec(scheme.lower(), target, options)
    kind = EXTENSIONS.get(Path(target).suffix.lower())
    if kind is not None:
        return Spec(kind, target, options)
    if is_file(target) or "/" in target or "\\" in target or (colon and scheme.isalpha()):
        raise UnknownNameError(f"{text!r} is not of a known kind; {_SENTENCE}")
    return Spec("domain", target, options)


def is_file(text: str) -> bool:
    """Whether ``text`` is the path of an existing file."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long, for one
        return False


def value_of(text: str) -> Any:
    """Return the number or truth value that ``text`` spells, or the text itself.

    Examples
    --------
    >>> from tailwise.formats.spec import value_of
    >>> [value_of(text) for text in ("3", "0.5", "true", "up")]
    [3, 0.5, True, 'up']
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if len(text) > 40 or "_" in text or not text.isascii():
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _option(item: str, text: str) -> tuple[str, Any]:
    name, equals, value = item.partition("=")
    if not equals or not name.strip():
        raise OptionError(f"{text!r}: the option {item!r} must be name=value")
    if name.strip() == "start":  # an id or a label: whatever it looks like, it is a name
        return "start", value.strip()
    return name.strip(), value_of(value.strip())
