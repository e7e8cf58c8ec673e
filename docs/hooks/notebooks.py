"""Pages of the worked examples, from the executed notebooks, when the documentation is built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def page(path: Path) -> str:
    """Return a notebook as Markdown: text as it is, code in blocks, what it printed below, pictures inline."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(
                    f'<img alt="What the code above draws" src="data:image/png;base64,{data["image/png"].strip()}">'
                )
            else:
                said = "".join(output.get("text", data.get("text/plain", "")))
                parts.append(f"```text\n{said.rstrip()}\n```")
    parts.append(f"*This page is the notebook `examples/{path.name}` of the repository.*")
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for each notebook (called by mkdocs)."""
    from mkdocs.structure.files import File

    for path in sorted(EXAMPLES.glob("*.ipynb")):
        files.append(File.generated(config, f"examples/{path.stem}.md", content=page(path)))
    return files
