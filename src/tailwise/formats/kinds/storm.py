"""PRISM, JANI and DRN files, which Storm parses and builds."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tailwise._progress import activity
from tailwise.formats.registry import register_format
from tailwise.formats.storm_options import StormOptions
from tailwise.models import TabularMDP

_CASSANDRAS = ("horizon", "discount", "start", "observe")  # options of its files


def read_symbolic(path: Path, *, kind: str, **options: Any) -> TabularMDP:
    """Model that Storm builds (extra ``prism``)."""
    from tailwise.formats.jani_rewards import rewards_to_ask_about
    from tailwise.formats.kinds.cassandra import read_cassandra
    from tailwise.formats.model_table import table_of_model
    from tailwise.formats.prism_text import is_cassandra
    from tailwise.formats.storm_build import build

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
