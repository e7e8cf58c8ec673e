"""Documents and plots."""

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
    assert "http:" not in page
    assert "https:" not in page
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
