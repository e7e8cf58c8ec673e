"""What tells a function from others, also in another process: its name and its code, in words."""

from __future__ import annotations

import functools
import hashlib
from types import CodeType
from typing import Any

import numpy as np


def described(function: Any) -> list[str]:
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
