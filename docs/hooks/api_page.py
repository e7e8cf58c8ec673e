"""Fill the page "API" from what the layers export, when the documentation is built."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from typing import Any

MARK = "<!-- layers -->"
_HEADING = ("    options:", "      show_root_heading: true", "      show_root_toc_entry: true")


def reference() -> str:
    """Return one section per public layer.

    mkdocstrings shows the documented classes and functions in ``__all__`` by itself. Those that are named like the
    submodule they come from need a line of their own, and constants a word in the text.
    """
    import tailwise

    sections = []
    for layer in tailwise._LAYERS:
        module = importlib.import_module(f"tailwise.{layer}")
        exported = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
        modules = [name for name, value in exported.items() if inspect.ismodule(value)]
        other = [
            name
            for name, value in exported.items()
            if not (inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value))
        ]
        lines = [f"## tailwise.{layer}", "", f"::: tailwise.{layer}"]
        for name in modules:
            lines += ["", f"::: tailwise.{layer}.{name}", *_HEADING]
        for name in sorted(exported.keys() - other - set(modules)):
            if importlib.util.find_spec(f"tailwise.{layer}.{name}") is not None:
                lines += ["", f"::: tailwise.{layer}.{name}.{name}", *_HEADING]
        if other:
            lines += ["", f"Constants and types: {', '.join(f'`{name}`' for name in other)}."]
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the reference where the page has its mark (called by mkdocs)."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown
