"""Every Python block of the documentation runs, page by page, in order."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.compiled
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_run(page, tmp_path, monkeypatch, capsys):
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for module, name in (("formats.registry", "_FORMATS"), ("domains", "_DOMAINS"), ("planners.registry", "_KINDS")):
        registry = importlib.import_module(f"tailwise.{module}")
        getattr(registry, f"list_{module.partition('.')[0]}")()  # load what the library itself registers
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))  # what a page registers ends with it
    scope: dict[str, object] = {"__name__": "__docs__"}
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        exec(compile("\n" * (line - 1) + match[1], str(page), "exec"), scope)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+\.md)\)", page.read_text(encoding="utf-8")):
            made = ROOT / "examples" / f"{Path(target).stem}.ipynb" if target.startswith("examples/") else None
            assert (made or page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_formulas_are_readable_as_they_stand(page):
    """Nothing on the pages draws TeX: formulas are code."""
    text = page.read_text(encoding="utf8")
    assert re.findall(r"[A-Za-z0-9]sqrt\(", text) == []  # a factor that runs into the root
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    assert re.findall(r"\$[^$\n]+\$|\\(?:frac|mathrm|beta|gamma)", prose) == []
