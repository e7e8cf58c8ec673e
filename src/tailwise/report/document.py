"""A document of headings, paragraphs, tables, images and charts, written as Markdown or as one HTML page.

Text may hold ``**bold**``, ```` `code` ```` and bare words; the same source serves both forms. Names that come from a
model go through :func:`literal`, which keeps every character what it is.

The page of every report: one HTML file with its style, its scripts and plotly inside, which works without a network.

Names that come from a model may hold anything. In text they are escaped as HTML; in the data of charts so that no
character can end the script element (:func:`chart`), and for plotly, which reads a few tags in labels, as HTML once
more (:func:`label`). A content security policy with the hashes of the page's own scripts stands behind that: whatever
else got onto the page, it would not run, and nothing is fetched from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from tailwise._results import plain
from tailwise._validate import page_path
from tailwise.errors import RunError, require


def assemble(title: str, body: str, *, has_charts: bool) -> str:
    """Return the page; ``title`` and ``body`` are HTML."""
    scripts = (_plotly(), _part("page.js")) if has_charts else ()
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts) or "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {allowed}"
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title><style>{_part("page.css")}</style>'
    )
    parts = [f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n<main>\n{body}\n</main>\n']
    parts += [f"<script>{script}</script>\n" for script in scripts]
    return "".join([*parts, "</body></html>\n"])


def chart(
    traces: Sequence[dict[str, Any]], layout: dict[str, Any], height: int, names: Sequence[str], caption: str
) -> str:
    """Return a chart as HTML: room for it, its data, and its caption (HTML)."""
    content = {"data": plain(list(traces)), "layout": plain(layout), "names": list(names)}
    text = re.sub(r"<[^>]*>", "", caption)
    return (
        f'<figure class="plot"><div class="chart" role="img" aria-label="{html.escape(html.unescape(text))}" '
        f'style="height:{int(height)}px"></div><script type="application/json">{script_json(content)}</script>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def script_json(content: Any) -> str:
    """Return JSON in which no character means anything to HTML."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", text)


def label(text: Any, most: int = 60) -> str:
    """Return a name for a plotly label, of which plotly reads no character as markup."""
    line = " ".join(str(text).split())
    return html.escape(line if len(line) <= most else f"{line[: most - 1]}…", quote=False)


@cache
def _part(name: str) -> str:
    return (resources.files("tailwise.report") / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    offline = require("plotly.offline", "report", "drawing the charts of a report")
    return str(offline.get_plotlyjs())


@cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


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


@dataclass(frozen=True, eq=False)
class Chart:
    """A plotly figure; in Markdown only its caption.

    Attributes
    ----------
    caption : str
        What it shows; also its text for those who cannot see it.
    traces : tuple of dict
        Plotly's ``data``. A ``color`` of ``"@text"``, ``"@grid"`` or ``"@page"`` follows the scheme of the page.
    layout : dict
        Plotly's ``layout``.
    height : int
        In CSS pixels.
    names : tuple of str
        For a drill-down (an icicle or treemap as the only trace, with ids "0", "1", ...): the names of its parts, for
        the buttons that do what clicking does. Of other charts: the places of a slider, which shows the traces whose
        ``meta`` is its place alone. Plain text, unlike plotly's labels.
    """

    caption: str
    traces: tuple[dict[str, Any], ...]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 360
    names: tuple[str, ...] = ()


Block: TypeAlias = Heading | Paragraph | Bullets | Table | Image | Chart


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
            elif isinstance(block, Chart):
                parts.append(f"*{block.caption}*")
            else:
                parts.append(_markdown_table(block))
        return "\n\n".join(parts) + "\n"

    def html(self, folder: Path | None = None) -> str:
        """Return the document as one HTML page, with nothing from elsewhere, and without scripts unless it has charts.

        Parameters
        ----------
        folder : Path, optional
            Where the images lie: they then become part of the page.

        Raises
        ------
        MissingExtraError
            If it has charts, and plotly is not installed.
        """
        has_charts = any(isinstance(block, Chart) for block in self.blocks)
        body = [f"<h1>{_inline(self.title)}</h1>", *(_html(block, folder) for block in self.blocks)]
        title = html.escape(re.sub(r"\*\*|`", "", _ESCAPED.sub(r"\1", self.title)))
        return assemble(title, "\n".join(body), has_charts=has_charts)

    def save(self, path: str | Path, *, folder: Path | None = None) -> Path:
        """Write :meth:`html` into a file and return its path; ``RunError`` where that cannot be written."""
        target = page_path(path)
        try:
            target.write_text(self.html(folder), encoding="utf-8", newline="\n")
        except OSError as error:
            raise RunError(f"the report cannot be written to {target}: {error.strerror or error}") from None
        return target


def literal(text: Any) -> str:
    """Return text of which no character is markup, neither here nor in Markdown, on one line."""
    return re.sub(r"([\\*`|<>&_\[\]])", r"\\\1", " ".join(str(text).split()))


def _html(block: Block, folder: Path | None) -> str:
    if isinstance(block, Heading):
        anchor = re.sub(r"[^a-z0-9]+", "-", block.text.lower()).strip("-")
        return f'<h{block.level} id="{anchor}">{_inline(block.text)}</h{block.level}>'
    if isinstance(block, Paragraph):
        return f"<p>{_inline(block.text)}</p>"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Chart):
        return chart(block.traces, block.layout, block.height, block.names, _inline(block.caption))
    if isinstance(block, Image):
        source = block.path if folder is None else _embedded(folder / block.path)
        picture = f'<img src="{html.escape(source)}" alt="{html.escape(block.caption)}">'
        return f"<figure>{picture}<figcaption>{_inline(block.caption)}</figcaption></figure>"
    return html_table(block)


def _embedded(path: Path) -> str:
    kind = "svg+xml" if path.suffix == ".svg" else path.suffix[1:]
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def _markdown_table(block: Table) -> str:
    marks = [":--" if k < block.text_columns else "--:" for k in range(len(block.columns))]
    lines = [block.columns, tuple(marks), *block.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def html_table(block: Table) -> str:
    """Return a table as HTML; a wide one scrolls by itself, with keys too."""

    def cells(tag: str, row: tuple[str, ...]) -> str:
        kinds = ["text" if k < block.text_columns else "number" for k in range(len(row))]
        return "".join(f'<{tag} class="{kind}">{_inline(text)}</{tag}>' for kind, text in zip(kinds, row, strict=True))

    rows = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in block.rows)
    head = f"<thead><tr>{cells('th', block.columns)}</tr></thead>"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="table"><table>\n{head}\n<tbody>\n{rows}\n'
        "</tbody></table></div>"
    )


_ESCAPED = re.compile(r"\\(.)")


def _inline(text: str) -> str:
    """Return text as HTML: what is escaped stays as it is, the rest of the markup becomes tags."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[1])
        return f"\0{len(kept) - 1}\0"

    escaped = html.escape(_ESCAPED.sub(keep, text.replace("\0", "")), quote=False)
    escaped = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escaped)
    escaped = re.sub(r"`(.+?)`", r"<code>\1</code>", escaped)
    return re.sub(r"\0(\d+)\0", lambda match: html.escape(kept[int(match[1])], quote=False), escaped)
