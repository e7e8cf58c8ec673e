"""What registries of names share: modules that register when they are imported, and hints at near names."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable


def import_modules(package: str) -> None:
    """Import the modules of a package: each registers what it holds."""
    found = importlib.import_module(package)
    for module in pkgutil.iter_modules(found.__path__, f"{package}."):
        importlib.import_module(module.name)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known names that ``name`` may mean, in words, or all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=3)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(known)}"
