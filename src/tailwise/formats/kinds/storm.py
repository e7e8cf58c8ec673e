"""PRISM, JANI, DRN and explicit files, through Storm."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tailwise.formats.registry import register_format
from tailwise.formats.storm_options import StormOptions
from tailwise.models import TabularMDP


def read_symbolic(path: Path, *, kind: str, **options: Any) -> TabularMDP:
    """Model that Storm parses and builds (extra ``prism``)."""
    from tailwise.formats.storm_table import read_storm

    return read_storm(kind, path, StormOptions(**options))


for _name, _extensions in {
    "prism": (".prism", ".nm", ".pm", ".sm", ".ma", ".pomdp"),
    "jani": (".jani",),
    "drn": (".drn",),
    "tra": (".tra",),
}.items():
    register_format(_name, functools.partial(read_symbolic, kind=_name), extensions=_extensions, options=StormOptions)
