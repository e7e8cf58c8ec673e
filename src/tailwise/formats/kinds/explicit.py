"""Explicit files of PRISM and Storm, and UMB archives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailwise.errors import OptionError
from tailwise.formats.registry import register_format
from tailwise.formats.storm_options import StormOptions
from tailwise.models import TabularMDP


def read_tra(path: Path, **options: Any) -> TabularMDP:
    """Explicit files: transitions, and labels and rewards beside them."""
    from tailwise.formats.explicit_files import read_explicit
    from tailwise.formats.model_table import table_of_model

    asked = StormOptions(**options)
    return table_of_model(read_explicit(path, asked), path, asked)


def read_umb_file(path: Path, **options: Any) -> TabularMDP:
    """UMB archive, of Storm or PRISM; options as for explicit files."""
    from tailwise.formats.model_table import table_of_model
    from tailwise.formats.umb_archive import read_umb

    asked = StormOptions(**options)
    if asked.constants:
        raise OptionError(f"{path}: constants are for PRISM and JANI files; explicit models have none")
    return table_of_model(read_umb(path), path, asked)


register_format(
    "tra", read_tra, extensions=(".tra", ".pexp", ".tra.gz", ".pexp.gz", ".tra.xz", ".pexp.xz"), options=StormOptions
)
register_format("umb", read_umb_file, extensions=(".umb",), options=StormOptions)
