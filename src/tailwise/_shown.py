"""How results show themselves: the layer ``report`` stands above them, and so is found by name at first use."""

from __future__ import annotations

import importlib
from types import ModuleType


def report_layer(module: str) -> ModuleType:
    """Return a module of ``tailwise.report``, for what stands below it."""
    return importlib.import_module(f"tailwise.report.{module}")


class Shown:
    """A result that a notebook shows as a small table of HTML, without scripts."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(report_layer("small_tables").html_of(self))
