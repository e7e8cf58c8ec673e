"""Fill the page "Command line" from the commands themselves, when the documentation is built."""

from __future__ import annotations

import re
from typing import Any

MARK = "<!-- commands -->"


def reference() -> str:
    """Return the help of every command as Markdown."""
    import typer
    from typer.cli import get_docs_for_click

    from tailwise.cli.app import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="tailwise")
    return re.sub(r"\n{3,}", "\n\n", text.split("\n## ", 1)[1].join(["## ", ""]))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the reference where the page has its mark (called by mkdocs)."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown
