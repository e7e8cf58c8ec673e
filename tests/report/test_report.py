"""Documents, plots and the report of a reproduction."""

import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

from tailwise.report import (
    Bullets,
    Curve,
    Document,
    Heading,
    Image,
    Panel,
    Paragraph,
    Sample,
    Table,
    histogram_panels,
    risk_curves,
    save_figure,
)
from tailwise.reproduction import Settings, reproduce, summarise, write_reproduction

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


class Balanced(HTMLParser):
    """Fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    return " ".join(parser.text)


def test_one_document_in_two_forms():
    document = Document(
        "Costs < rewards",
        [
            Heading("Part & parcel"),
            Paragraph("A **bold** `x < y` word."),
            Bullets(("one", "two")),
            Table(("name", "value"), (("a<b", "1.5"),)),
            Image("f/p.png", "A picture"),
        ],
    )
    text = document.markdown()
    assert text.startswith("# Costs < rewards\n\n## Part & parcel\n")
    assert "| name | value |\n| :-- | --: |\n| a<b | 1.5 |" in text
    page = document.html()
    assert "<strong>bold</strong> <code>x &lt; y</code>" in page
    assert "<script" not in page
    assert "http" not in page
    assert "a<b" in parsed(page)


def drawn():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    panel = Panel("panel", (Sample("one", rng.normal(size=50)), Sample("two", rng.normal(1, size=50))), 0.5)
    x = np.array([100.0, 1000.0])
    curve = Curve("curve", x, x / 100, x / 200, x / 50)
    return {
        "panels": histogram_panels([panel, panel], xlabel="cost", columns=2),
        "curves": risk_curves(
            [curve, curve], xlabel="n", ylabel="risk", title="title", exact=1.0, band=(0.5, 2), band_label="band"
        ),
    }


@pytest.fixture
def figures():
    return drawn()


@pytest.mark.parametrize("name", ["panels", "curves"])
def test_figures_are_files_with_repeatable_bytes(name, tmp_path):
    (tmp_path / "again").mkdir()
    first = save_figure(drawn()[name], tmp_path, name)
    second = save_figure(drawn()[name], tmp_path / "again", name)
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(first[1]).getroot().tag.endswith("svg")


def test_curve_shows_the_data_given(figures):
    (axes,) = figures["curves"].axes
    line = axes.containers[0].lines[0]
    assert line.get_ydata().tolist() == [1.0, 10.0]
    assert axes.get_xscale() == "log"
    (legend,) = figures["curves"].legends
    assert {text.get_text() for text in legend.get_texts()} == {"exact optimum", "band", "curve"}


def test_histograms_are_densities_on_common_bins(figures):
    axes = figures["panels"].axes[0]
    filled = [patch for patch in axes.patches if hasattr(patch, "get_height")]
    area = sum(patch.get_height() * patch.get_width() for patch in filled)
    assert area == pytest.approx(2.0)  # two samples


@pytest.mark.compiled
def test_report_of_a_small_run(tmp_path):
    pytest.importorskip("matplotlib")
    settings = Settings(seeds=3, variants=("authors", "repaired"), most_iterations=200)
    folder = reproduce(tmp_path / "run", settings)
    summary = summarise(folder)
    files = write_reproduction(summary, folder.path)
    assert all(file.stat().st_size > 0 for file in files)
    names = {file.name for file in files}
    assert {"report.md", "report.html", "results.csv", "a_mdp-4.png", "b_grid-mdp.svg"} <= names
    assert {"c_mdp-4_beta-1.png", "d_grid-mdp_beta-0.01.png", "d_grid-mdp_beta-0.1_closed-loop.svg"} <= names
    assert {"distributions_mdp-4.png", "distributions_grid-mdp.svg"} <= names
    text = (folder.path / "report.md").read_text()
    row = summary.find("mdp-4", "ERM-BI", "exact", 0.5)
    assert f"| {row.erm:.3f} (" in text
    assert "| 1.85 (1.77 to 1.93) |" in text  # the paper's
    assert "| 1.779 |" in text  # the exact value
    for name in ("authors", "repaired"):
        assert f"**{name}**:" in text
    parsed((folder.path / "report.html").read_text())
    for path in (folder.path / "figures").iterdir():
        assert path.suffix in (".png", ".svg")
    lines = (folder.path / "results.csv").read_text().splitlines()
    assert len(lines) == len(summary.rows) + 1
    before = {file: file.read_bytes() for file in files}
    write_reproduction(summarise(folder), folder.path)
    assert {file: file.read_bytes() for file in files} == before
