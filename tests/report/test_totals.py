"""Reports of evaluations, comparisons, frontiers and aims, as the commands write them, and in a browser."""

import dataclasses
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from tailwise import backward_induction, domains, evaluate, frontier, make_planner
from tailwise.cli.app import app
from tailwise.evaluation import compare
from tailwise.report import comparison_report, decision_report, evaluation_report, frontier_report, plans_report
from tailwise.risk import ReturnDistribution

pytestmark = pytest.mark.compiled  # the sampled plan solves a table of totals over and over
pytest.importorskip("plotly", reason="plotly is not installed: no report")

COMMANDS = {
    "plan": "plan mdp-4 -b 0.5 -p tree -n 200 --seed 0",
    "solve": "solve grid-mdp -b 0.1",
    "solve-aim": "solve mdp-4 --evar 0.9",
    "solve-sampled": "solve mdp-4 --cvar 0.9 -n 300 -e 100",
    "evaluate": "evaluate mdp-4 -b 0.5 -p exact -e 40 --seed 0 --resamples 200",
    "compare": "compare mdp-4 -b 0.5 -p exact,tree -n 40 -e 30 --resamples 200",
    "frontier": "frontier grid-mdp --betas 0,0.2",
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The report of every command."""
    folder = tmp_path_factory.mktemp("reports")
    found = {}
    for name, command in COMMANDS.items():
        found[name] = folder / f"{name}.html"
        result = CliRunner().invoke(app, [*command.split(), "--report", str(found[name]), "--json"])
        assert result.exit_code == 0, (command, result.output, result.exception)
        json.loads(result.stdout)  # the report does not disturb programs
    return found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plan", ["Take safe", "How the search got there", "PolynomialBonus|RangeBonus", "seed"]),
        ("solve", ["Take right", "9.7118", "0.034024", "backward induction"]),
        ("solve-aim", ["EVaR at level 0.9", "Take", "Exact"]),
        ("solve-sampled", ["CVaR", "100 fresh episodes", "Its actions depend on what was paid"]),
        ("evaluate", ["What exact pays on mdp-4", "40 episodes", "The exact optimum is 1.7792"]),
        ("compare", ["2 planners on mdp-4", "minus the first", "tree, n = 40"]),
        ("frontier", ["aversion to risk buys", "changes at beta = 0.0340236", "dominated"]),
    ],
)
def test_what_each_command_reports(pages, name, said):
    page = pages[name].read_text(encoding="utf-8")
    text = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", "", page, flags=re.DOTALL)
    for part in said:
        assert re.search(part, text), part
    assert "Settings, seed and versions" in text
    assert len(page) < 8e6


@pytest.mark.parametrize("name", list(COMMANDS))
def test_each_page_in_a_browser(browser, pages, name):
    for width, dark in ((1400, False), (800, False), (400, True)):
        browser.open(pages[name], width=width, dark=dark)
        browser.wait("return document.documentElement.dataset.drawn === 'yes'")
        assert browser.clashes() == []
        assert browser.errors() == []
        assert browser.overflow() <= 0
    empty = "return [...document.querySelectorAll('div.chart')].filter(c => !c.querySelector('svg')).length"
    assert browser.run(empty) == 0


def test_a_slider_goes_from_plan_to_plan(browser, pages):
    """By the keyboard; what is drawn is the plan that is named, also after the scheme has changed."""
    browser.open(pages["frontier"])
    browser.wait("return document.documentElement.dataset.drawn === 'yes'")
    said = "return document.querySelector('.slide output').textContent"
    assert browser.run(said).startswith("up, beta 0 to 0.034")
    browser.run("document.querySelector('.slide input').focus()")
    browser.press("ARROW_RIGHT")
    assert browser.run(said).startswith("right, beta 0.034")
    shown = "return document.querySelector('.slide').nextElementSibling.data.filter(t => t.visible).map(t => t.meta)"
    for dark in ("dark", "light"):
        scheme = {"features": [{"name": "prefers-color-scheme", "value": dark}]}
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        assert set(browser.run(shown)) == {1}
    assert browser.errors() == []


MACHINE = """idstatefrom,idaction,idstateto,probability,cost
good,run,good,0.80,0
good,run,worn,0.18,0
good,run,failed,0.02,0
good,"service, and look at everything",good,1.00,4000
worn,run,worn,0.75,500
worn,run,failed,0.25,500
worn,"service, and look at everything",good,0.95,6000
worn,"service, and look at everything",worn,0.05,6000
failed,repair,good,1.00,45000
"""


@pytest.mark.compiled
@pytest.mark.parametrize(
    "line",
    [
        "frontier machine.csv --horizon 12 --unit EUR",
        "whatif machine.csv --horizon 12 --beta 1e-5 --vary cost[failed,repair] --set cost[failed,repair]=60000",
    ],
    ids=["frontier", "whatif"],
)
def test_long_names_on_a_phone(browser, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "machine.csv").write_text(MACHINE)
    result = CliRunner().invoke(app, [*line.split(), "--report", "page.html"], catch_exceptions=False)
    assert result.exit_code == 0
    browser.open(tmp_path / "page.html", width=400)
    browser.wait("return document.documentElement.dataset.drawn === 'yes'")
    assert browser.clashes() == []
    assert browser.overflow() <= 0
    assert "e-05" not in browser.find("main").text
    scrolled = "return [...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth + 1)"
    assert browser.run(scrolled)  # and what is out of sight casts a shadow
    hint = "return getComputedStyle(document.querySelector('.wide')).backgroundAttachment"
    assert browser.run(hint) == "local, local, scroll, scroll"


def test_a_legend_names_what_the_first_histogram_has_not(browser, tmp_path):
    """Of a plan that always pays the same there are no worst cases to name; of the next there are."""
    laws = ((1.0,), (1.0,)), ((0.0, 3.0, 9.0), (0.95, 0.04, 0.01))
    sure, risky = (ReturnDistribution(*map(np.array, law), "cost") for law in laws)
    page = plans_report("Two", "", [("sure", sure), ("risky", risky)], model=domains.make("mdp-4")).save(
        tmp_path / "a.html"
    )
    browser.open(page)
    browser.wait("return document.documentElement.dataset.drawn === 'yes'")
    names = browser.run(
        "return [...document.querySelector('.chart').querySelectorAll('.legendtext')].map(e => e.textContent)"
    )
    assert sorted(names) == ["CVaR 95%", "mean", "total", "worst cases"]


def test_a_section_that_says_nothing_is_left_out():
    """Of two actions that are equally bad by their bounds alone there is no margin to tell."""
    plan = make_planner(domains.make("tiger"), 0.1).plan(iterations=300)
    plan = dataclasses.replace(plan, origin=None)  # as one that was loaded, of whose totals nothing is known
    page = re.sub(r"<script.*?</script>", "", decision_report(plan).html(), flags=re.DOTALL)
    assert "What would change the decision" not in page
    assert "the optimal ERM is 1.5668 with certainty" in page


def test_a_report_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    for command in COMMANDS.values():
        result = CliRunner().invoke(app, [*command.split(), "--report", str(tmp_path / "no" / "page.html")])
        assert "--report must be a file in a folder that exists" in str(result.exception)


def test_names_in_reports_of_totals_are_text():
    mdp = domains.make("mdp-4")
    bad = "</script><b>*x*</b>"
    one, two = (
        evaluate(mdp, backward_induction(mdp, beta), episodes=50, seed=0, label=bad) for beta in (1.0, 0.0)
    )  # fmt: skip
    rows = [(part, part.summary(1.0, resamples=200), compare(part, one, 1.0, resamples=200)) for part in (one, two)]
    for document in (evaluation_report(one, rows[0][1], model=mdp), comparison_report(rows, model=mdp)):
        page = document.html()
        assert "</script><b>" not in page
        assert "&lt;/script&gt;&lt;b&gt;*x*&lt;/b&gt;" in page


def test_a_sampled_frontier_says_so():
    battery = domains.make("battery", horizon=4)
    found = frontier(battery, [0.0, 0.1], episodes=20, iterations=20, kind="learned", seed=0)
    text = frontier_report(found, model=battery).markdown()
    assert "20 episodes of each beta were played in closed loop, with 20 iterations a decision, on common" in text
    assert "dominates" not in text  # of samples it is no more than luck
