"""The page of every report: one HTML file with its style, its scripts and plotly inside, which works without a network.

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
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tailwise._plain import plain
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


def write(path: str | Path, text: str) -> Path:
    """Write a page and return its path; ``RunError`` where that cannot be done."""
    target = Path(path)
    try:
        target.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise RunError(f"the report cannot be written to {target}: {error.strerror or error}") from None
    return target


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
