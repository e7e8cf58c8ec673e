"""The files of probabilistic model checkers: what the user may ask of them, and the way to each reader.

PRISM, JANI and DRN files, which Storm parses and builds; explicit files of PRISM and Storm, and UMB archives.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tailwise._progress import activity
from tailwise.errors import OptionError
from tailwise.formats.options import StormOptions
from tailwise.formats.registry import register_format
from tailwise.models import PomdpTable, TabularMDP


def read_tra(path: Path, **options: Any) -> TabularMDP | PomdpTable:
    """Explicit files: transitions, and labels and rewards beside them."""
    from tailwise.formats.explicit_files import read_explicit
    from tailwise.formats.explicit_model import table_of_model

    asked = StormOptions(**options)
    return table_of_model(read_explicit(path, asked), path, asked)


def read_umb_file(path: Path, **options: Any) -> TabularMDP | PomdpTable:
    """UMB archive, of Storm or PRISM; options as for explicit files."""
    from tailwise.formats.explicit_model import table_of_model
    from tailwise.formats.umb_archive import read_umb

    asked = StormOptions(**options)
    if asked.constants:
        raise OptionError(f"{path}: constants are for PRISM and JANI files; explicit models have none")
    return table_of_model(read_umb(path), path, asked)


register_format(
    "tra", read_tra, extensions=(".tra", ".pexp", ".tra.gz", ".pexp.gz", ".tra.xz", ".pexp.xz"), options=StormOptions
)
register_format("umb", read_umb_file, extensions=(".umb",), options=StormOptions)


_CASSANDRAS = ("horizon", "discount", "start", "observe")  # options of its files


def read_symbolic(path: Path, *, kind: str, **options: Any) -> TabularMDP | PomdpTable:
    """Model that Storm builds (extra ``prism``)."""
    from tailwise.formats.explicit_model import table_of_model
    from tailwise.formats.kinds.cassandra import read_cassandra
    from tailwise.formats.storm_build import build, is_cassandra, rewards_to_ask_about

    asked = StormOptions(**options)
    if kind == "prism" and is_cassandra(path):
        return read_cassandra(path, **{name: value for name, value in options.items() if name in _CASSANDRAS})
    with activity(f"building {path.name} with Storm", show=asked.progress) as say:
        model = build(kind, path, asked)
        say(f"reading {model.num_states} states and {model.targets.size} transitions of {path.name}")
        unsure = rewards_to_ask_about(path) if kind == "jani" else (frozenset(), frozenset())
        return table_of_model(model, path, asked, *unsure)


for _name, _extensions in {
    "prism": (".prism", ".nm", ".pm", ".sm", ".ma", ".pomdp"),
    "jani": (".jani",),
    "drn": (".drn",),
}.items():
    register_format(_name, functools.partial(read_symbolic, kind=_name), extensions=_extensions, options=StormOptions)
