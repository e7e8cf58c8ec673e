"""The worked examples run, and print what their pages show where that is exact."""

import importlib.util
from pathlib import Path

import pytest

import tailwise

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def printed(notebook):
    """What each cell printed."""
    return [
        "".join("".join(output["text"]) for output in cell.get("outputs", ()) if output["output_type"] == "stream")
        for cell in notebook["cells"]
    ]


@pytest.mark.compiled
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::Warning:jupyter_client", "ignore::Warning:zmq", "ignore::DeprecationWarning")
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: notebooks are not run")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: notebooks are not run")
    for needed in ("ipykernel", "plotly", "gymnasium"):
        pytest.importorskip(needed, reason=f"{needed} is not installed: notebooks are not run")
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    monkeypatch.setenv("PYTHONPATH", str(Path(tailwise.__file__).parents[1]))  # the kernel tests what the tests test
    notebook = nbformat.read(path, as_version=4)
    before = printed(notebook)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    if path.stem != "gymnasium":  # which searches: a better search may say something else
        assert printed(notebook) == before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_has_a_page(path):
    assert path.stat().st_size < 150_000
    hook = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "hooks" / "notebooks.py")
    module = importlib.util.module_from_spec(hook)
    hook.loader.exec_module(module)
    text = module.page(path)
    assert text.startswith("# ")
    assert "## What we would sign" in text
    assert "Plotly.newPlot(" in text
    assert f": examples/{path.stem}.md\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
