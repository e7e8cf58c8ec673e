"""Make a page of reference for each layer from what it exports, when the documentation is built."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from typing import Any

MARK = "<!-- layers -->"
FOLDER = "api"
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):<code>(?:~[\w.]*\.)?")
_HEADING = ("    options:", "      show_root_heading: true", "      show_root_toc_entry: true")


def layers() -> tuple[str, ...]:
    """Return the names of the public layers."""
    import tailwise

    return tuple(tailwise._LAYERS)


def overview() -> str:
    """Return a line for each layer, with what it says of itself."""
    lines = []
    for layer in layers():
        about = (inspect.getdoc(importlib.import_module(f"tailwise.{layer}")) or "").split("\n\n")[0]
        lines.append(f"- [`tailwise.{layer}`]({layer}.md): {' '.join(about.split())}")
    return "\n".join(lines)


def reference(layer: str) -> str:
    """Return the page of a layer.

    mkdocstrings shows the documented classes and functions in ``__all__`` by itself. Those that are named like the
    submodule they come from need a line of their own, and constants a word in the text.
    """
    module = importlib.import_module(f"tailwise.{layer}")
    exported = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
    modules = [name for name, value in exported.items() if inspect.ismodule(value)]
    other = [
        name
        for name, value in exported.items()
        if not (inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value))
    ]
    lines = [f"# tailwise.{layer}", "", f"::: tailwise.{layer}"]
    for name in modules:
        lines += ["", f"::: tailwise.{layer}.{name}", *_HEADING]
    for name in sorted(exported.keys() - other - set(modules)):
        if importlib.util.find_spec(f"tailwise.{layer}.{name}") is not None:
            lines += ["", f"::: tailwise.{layer}.{name}.{name}", *_HEADING]
    if other:
        lines += ["", f"Constants and types: {', '.join(f'`{name}`' for name in other)}."]
    return "\n".join(lines)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages (called by mkdocs)."""
    from mkdocs.structure.files import File

    for layer in layers():
        files.append(File.generated(config, f"{FOLDER}/{layer}.md", content=reference(layer)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the overview where a page has its mark (called by mkdocs)."""
    return markdown.replace(MARK, overview()) if MARK in markdown else markdown


def on_page_content(html: str, **_: Any) -> str:
    """Show what docstrings refer to as code, without the role that is for other tools (called by mkdocs)."""
    return _ROLE.sub("<code>", html)
