"""Plots for print."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from tailwise.reproduction.figures import Curve, Panel, histogram_panels, risk_curves, save_figure


def drawn():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    panel = Panel("panel", {"one": rng.normal(size=50), "two": rng.normal(1, size=50)}, 0.5)
    x = np.array([100.0, 1000.0])
    curve = Curve("curve", x, x / 100, x / 200, x / 50)
    return {
        "panels": histogram_panels([panel, panel], xlabel="cost"),
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
