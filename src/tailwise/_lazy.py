"""Names and modules: loaded at first use, so that a command imports what it runs; near names; old names that go."""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """A package whose module ``name`` never hides the function ``name`` that it holds: Python binds it when loaded."""

    def __setattr__(self, name: str, value: Any) -> None:
        is_own = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        super().__setattr__(name, getattr(value, name, value) if is_own else value)


@functools.cache
def homes_of(package: str) -> dict[str, str]:
    """Return the module of each name that a package imports from the library, for type checkers at least."""
    spec: Any = sys.modules[package].__spec__
    found = (node for node in ast.walk(ast.parse(spec.loader.get_source(package))) if isinstance(node, ast.ImportFrom))
    return {alias.name: str(one.module) for one in found if str(one.module)[:9] == "tailwise." for alias in one.names}


def lazy(package: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package: what it imports for type checkers is where its names are."""
    sys.modules[package].__class__ = _Package

    def get(name: str) -> object:
        homes = homes_of(package)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def import_modules(package: str) -> None:
    """Import the modules of a package: each registers what it holds."""
    found = importlib.import_module(package)
    for module in pkgutil.iter_modules(found.__path__, f"{package}."):
        importlib.import_module(module.name)


def own_module(name: str) -> ModuleType:
    """Import a module that the user names, from the current folder where Python finds it nowhere else."""
    try:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name.partition(".")[0] or str(Path.cwd()) in sys.path:
                raise
        sys.path.append(str(Path.cwd()))  # last, so that it hides nothing; kept, for what the module imports later
        importlib.invalidate_caches()
        return importlib.import_module(name)
    except SystemExit as error:  # of a script
        raise ImportError(f"module {name} ends the program (SystemExit: {error})", name=name) from error


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known names that ``name`` may mean, in words, or all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=3)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(known)}"


def warn_deprecated(old: str, *, instead: str, since: str, removed_in: str, stacklevel: int = 2) -> None:
    """Warn at the line of the user's that an old name will go.

    Parameters
    ----------
    old, instead : str
        What was used, and what to use.
    since, removed_in : str
        The version that began to warn, and the one without the old name. Written as literals: a test compares them.
    stacklevel : int, default 2
        How many callers up the user is; 2 where a public function warns by itself.
    """
    warnings.warn(
        f"{old} is deprecated since tailwise {since} and goes with {removed_in}; use {instead} instead",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )
