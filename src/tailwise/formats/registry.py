"""The list of formats, and what a text that names a model means.

A format is one function that reads it; :func:`register_format` makes it known.

The built-in ones are the modules of :mod:`tailwise.formats.kinds`, one each; those of other packages are found
through the entry point group ``tailwise.formats`` (each names a module that registers its format when imported).

A specification of a model is ``FORMAT:TARGET?option=value&option=value``: ``inventory.csv?base=1``,
``gym:FrozenLake-v1?is_slippery=false``, ``rddl:Navigation/1``, ``prism:model.txt?N=4``, or the name of a domain. A file
that exists is taken as it is, whatever characters its name has. In a value, ``%26`` stands for an ampersand.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from tailwise._lazy import import_modules
from tailwise.errors import OptionError, UnknownNameError
from tailwise.models import PartlyObserved, PomdpTable, Simulator, TabularMDP

COMMON = ("horizon", "discount", "start")
"""Options that every source takes."""

_ENTRY_POINTS = "tailwise.formats"


@dataclass(frozen=True)
class Format:
    """One entry of the list; see :func:`register_format`.

    Attributes
    ----------
    name : str
        What stands before the colon in ``NAME:TARGET``.
    read : callable
        Returns the model.
    write : callable or None
        Writes a table to a path.
    extensions : tuple of str
        Endings of file names.
    options : tuple of str or None
        Names of the reader's options; None if it takes any.
    is_file : bool
        Whether the target is a file.
    summary : str
        One line on what it is.
    claims : callable or None
        Tells whether a file whose ending is another format's is really of this one.
    """

    name: str
    read: Callable[..., TabularMDP | Simulator | PomdpTable | PartlyObserved]
    write: Callable[[TabularMDP, Path], None] | None
    extensions: tuple[str, ...]
    options: tuple[str, ...] | None
    is_file: bool
    summary: str
    claims: Callable[[Path], bool] | None = None


_FORMATS: dict[str, Format] = {}


def register_format(
    name: str,
    read: Callable[..., TabularMDP | Simulator | PomdpTable | PartlyObserved],
    *,
    extensions: Sequence[str] = (),
    write: Callable[[TabularMDP, Path], None] | None = None,
    options: Callable[..., Any] | None = None,
    is_file: bool = True,
    claims: Callable[[Path], bool] | None = None,
) -> Format:
    """Make a format known to :func:`tailwise.load`, :func:`tailwise.save` and the command line.

    Parameters
    ----------
    name : str
        Its name, for ``NAME:TARGET``; one that is taken is replaced.
    read : callable
        ``read(target, **options)`` returns a model: a :class:`tailwise.TabularMDP` or a simulator. The target is a
        ``Path`` to an existing file, or a text if ``is_file`` is False. Its keyword parameters are the options; if
        ``horizon``, ``discount`` and ``start`` are not among them, they are applied to the model that it returns.
        The first line of its docstring is the summary.
    extensions : sequence of str
        Endings of file names, such as ``".mdl"``.
    write : callable, optional
        ``write(mdp, path)`` saves a table.
    options : callable, optional
        Whose keyword parameters are the options, where those of ``read`` are ``**options``.
    is_file : bool, default True
        Whether the target is a file.
    claims : callable, optional
        From a path to whether a file whose ending is another format's is really of this one, as its columns show.

    Returns
    -------
    Format

    Raises
    ------
    OptionError
        If the name or an extension cannot be one.

    Examples
    --------
    >>> import tailwise
    >>> from tailwise.formats import register_format
    >>> def read_coin(target, *, stake=1.0):
    ...     "A coin that pays its stake or takes it; the target is the probability."
    ...     p = float(target)
    ...     return tailwise.TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [p, 1 - p], [-stake, stake], horizon=3)
    >>> register_format("coin", read_coin, is_file=False).summary
    'A coin that pays its stake or takes it; the target is the probability.'
    >>> tailwise.load("coin:0.5?stake=2&horizon=5").horizon
    5
    """
    if not (isinstance(name, str) and name.isidentifier() and len(name) > 1):
        raise OptionError(f"the name of a format must be an identifier of at least two letters, not {name!r}")
    for extension in extensions:
        if not isinstance(extension, str) or not extension.startswith(".") or len(extension) < 2:
            raise OptionError(f"the extension {extension!r} of format {name!r} must start with a point")
    parameters = list(inspect.signature(options or read).parameters.values())[0 if options else 1 :]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    known = tuple(parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD)
    summary = (inspect.getdoc(getattr(read, "func", read)) or "").partition("\n")[0]
    found = Format(
        name.lower(), read, write, tuple(extension.lower() for extension in extensions),
        None if takes_any else known, is_file, summary, claims,
    )  # fmt: skip
    _FORMATS[found.name] = found
    return found


def list_formats() -> list[Format]:
    """Return all formats, by name.

    Examples
    --------
    >>> from tailwise.formats import list_formats
    >>> "csv" in [item.name for item in list_formats()]
    True
    """
    all_formats = _all()
    return [all_formats[name] for name in sorted(all_formats)]


def find_format(name: Any) -> Format | None:
    """Return the format of that name, or None."""
    if not isinstance(name, str):
        return None
    name = name.lower()
    if name == "domain" and name not in _FORMATS:  # to solve a built-in problem needs no reader of files
        importlib.import_module("tailwise.formats.kinds.named")
    return _FORMATS.get(name) or _all().get(name)


def format_of_file(name: str) -> Format | None:
    """Return the format whose extension ``name`` has, the longest first, or None."""
    if "." not in name:
        return None
    fitting = [
        (len(ending), item)
        for item in _all().values()
        for ending in item.extensions
        if name.lower().endswith(ending) and len(name) > len(ending)
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def _all() -> dict[str, Format]:
    if "tailwise.formats.kinds.explicit" not in sys.modules:  # which is imported nowhere else
        given = dict(_FORMATS)  # what users registered before wins
        import_modules("tailwise.formats.kinds")
        importlib.import_module("tailwise.logs.files")  # as a package of others would be
        for point in importlib.metadata.entry_points(group=_ENTRY_POINTS):
            point.load()
        _FORMATS.update(given)
    return _FORMATS


_FRAME = "or read it with pandas and give the frame to tailwise.load"
_ADVICE = {  # endings of files that others use for such data: what to do with them
    ".xls": f"of Excel, only .xlsx is read: save the sheet as that or CSV, {_FRAME}: load(pandas.read_excel(path))",
    ".ods": f"spreadsheets are not read: save the sheet as CSV, {_FRAME}: load(pandas.read_excel(path))",
    ".pkl": "files are never unpickled: save the table with tailwise.save as .npz or .csv",
    ".pickle": "files are never unpickled: save the table with tailwise.save as .npz or .csv",
    ".m": "MATLAB code is not run: save('model.mat', 'P', 'R') there; or, in PRISM, export without -exportmatlab",
    ".npy": "one array is no model: numpy.load(path) gives arrays for TabularMDP.from_arrays",
    ".py": "a model of your own is named by its module and class, as python:shop:Shop for class Shop in shop.py",
    ".zip": "archives are not read: unpack it first",
}
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True)
class Spec:
    """A specification, taken apart: a format, its target, and what stood behind the question mark."""

    scheme: str
    target: str
    options: tuple[tuple[str, Any], ...] = ()


def parse_spec(text: str) -> Spec:
    """Take a specification apart."""
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
        claims = (item for item in _all().values() if item.claims is not None and item.claims(Path(target)))
        return Spec(next(claims, by_ending).name, target, options)
    advice = _ADVICE.get(Path(target).suffix.lower())
    if advice is not None:
        raise UnknownNameError(f"{text!r}: {advice}")
    if is_file(target) or "/" in target or "\\" in target or (colon and scheme.isalpha()):
        from tailwise.domains import list_domains

        is_domain = any(domain.name == target for domain in list_domains())
        hidden = f", and hides the domain of that name: write domain:{text} for it" if is_domain else ""
        raise UnknownNameError(f"{text!r} is not of a known kind{hidden}; {_expected()}")
    return Spec("domain", target, options)


def is_file(text: str) -> bool:
    """Whether ``text`` is the path of an existing file."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long, for one
        return False


Value: TypeAlias = "bool | int | float | str | tuple[object, ...] | list[object]"


def value_of(text: str) -> Value:
    """Return the number or truth value that ``text`` spells, or the text itself."""
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
