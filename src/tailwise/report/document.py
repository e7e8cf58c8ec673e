"""A document of headings, paragraphs, tables and images, written as Markdown or as one HTML page.

Text may hold ``**bold**``, ```` `code` ```` and bare words; the same source serves both forms.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; the first ``text_columns`` columns are text, the others numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1


@dataclass(frozen=True)
class Image:
    """A picture, by its path relative to the document."""

    path: str
    caption: str


Block: TypeAlias = Heading | Paragraph | Bullets | Table | Image


@dataclass(frozen=True)
class Document:
    """A title and its blocks.

    Examples
    --------
    >>> from tailwise.report.document import Document, Paragraph
    >>> print(Document("A title", [Paragraph("Some **text**.")]).markdown())
    # A title
    <BLANKLINE>
    Some **text**.
    <BLANKLINE>
    """

    title: str
    blocks: Sequence[Block] = field(default=())

    def markdown(self) -> str:
        """Return the document as Markdown."""
        parts = [f"# {self.title}"]
        for block in self.blocks:
            if isinstance(block, Heading):
                parts.append(f"{'#' * block.level} {block.text}")
            elif isinstance(block, Paragraph):
                parts.append(block.text)
            elif isinstance(block, Bullets):
                parts.append("\n".join(f"- {item}" for item in block.items))
            elif isinstance(block, Image):
                parts.append(f"![{block.caption}]({block.path})\n\n*{block.caption}*")
            else:
                parts.append(_markdown_table(block))
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """Return the document as one HTML page, without scripts and without anything from elsewhere."""
        body = [f"<h1>{_inline(self.title)}</h1>"]
        for block in self.blocks:
            if isinstance(block, Heading):
                body.append(f"<h{block.level}>{_inline(block.text)}</h{block.level}>")
            elif isinstance(block, Paragraph):
                body.append(f"<p>{_inline(block.text)}</p>")
            elif isinstance(block, Bullets):
                items = "".join(f"<li>{_inline(item)}</li>" for item in block.items)
                body.append(f"<ul>{items}</ul>")
            elif isinstance(block, Image):
                caption = _inline(block.caption)
                picture = f'<img src="{html.escape(block.path)}" alt="{html.escape(block.caption)}">'
                body.append(f"<figure>{picture}<figcaption>{caption}</figcaption></figure>")
            else:
                body.append(_html_table(block))
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title><style>{_STYLE}</style>'
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"
        )


def _markdown_table(block: Table) -> str:
    marks = [":--" if k < block.text_columns else "--:" for k in range(len(block.columns))]
    lines = [block.columns, tuple(marks), *block.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _html_table(block: Table) -> str:
    def cells(tag: str, row: tuple[str, ...]) -> str:
        kinds = ["text" if k < block.text_columns else "number" for k in range(len(row))]
        return "".join(f'<{tag} class="{kind}">{_inline(text)}</{tag}>' for kind, text in zip(kinds, row, strict=True))

    rows = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in block.rows)
    head = f"<thead><tr>{cells('th', block.columns)}</tr></thead>"
    return f"<div class=wide><table>\n{head}\n<tbody>\n{rows}\n</tbody></table></div>"


def _inline(text: str) -> str:
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escaped)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", escaped)


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}h1,h2,h3{line-height:1.2}table{border-collapse:collapse;font-size:.9rem}"
    "td,th{padding:.25rem .6rem;border-bottom:1px solid #ddd;white-space:nowrap}th{text-align:left}"
    ".number{text-align:right;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}"
    "img{max-width:100%}figure{margin:1.5rem 0}figcaption{color:#555;font-size:.9rem}"
    "code{background:#f3f3f3;padding:0 .2em}"
)
