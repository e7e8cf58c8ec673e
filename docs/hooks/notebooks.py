"""Pages of the worked examples, from the executed notebooks, when the documentation is built.

Figures are plotly's; what draws them is taken from the installed package, so that the pages need no network.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_SCRIPT = "javascripts/plotly.min.js"
_FIGURE = "application/vnd.plotly.v1+json"


def page(path: Path) -> str:
    """Return a notebook as Markdown: text as it is, code in blocks, below it what it printed and drew."""
    parts, number = [], 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if _FIGURE in output.get("data", {}):
                number += 1
                parts.append(_drawn(output["data"][_FIGURE], f"figure-{number}"))
            else:
                said = "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
                parts.append(f"```text\n{said.rstrip()}\n```")
    parts.insert(1, f'<script src="../../{_SCRIPT}"></script>')
    parts.append(f"*This page is the notebook `examples/{path.name}` of the repository.*")
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for each notebook, and what draws its figures (called by mkdocs)."""
    from mkdocs.structure.files import File
    from plotly.offline import get_plotlyjs

    for path in sorted(EXAMPLES.glob("*.ipynb")):
        files.append(File.generated(config, f"examples/{path.stem}.md", content=page(path)))
    files.append(File.generated(config, _SCRIPT, content=get_plotlyjs()))
    return files


def _drawn(figure: Any, name: str) -> str:
    """Return the place of a figure and the script that draws it there."""
    data, layout = (json.dumps(figure[part]).replace("<", "\\u003c") for part in ("data", "layout"))
    height = figure["layout"].get("height", 400)
    settings = '{"displayModeBar": false, "responsive": true}'
    return (
        f'<div id="{name}" role="img" aria-label="What the code above draws" style="height: {height}px"></div>\n'
        f'<script>Plotly.newPlot("{name}", {data}, {layout}, {settings});</script>'
    )
