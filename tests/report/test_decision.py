"""The decision report: what it says of each kind of plan, and what it is as a page in a browser."""

import copy
import dataclasses
import re

import numpy as np
import pytest

from tailwise import (
    AccMcts,
    BoundedRtdp,
    CvarMcts,
    ErmMcts,
    ExactPlanner,
    LearnedModelSearch,
    Simulator,
    TabularMDP,
    Uct,
    backward_induction,
    domains,
    make_planner,
    solve,
)
from tailwise.errors import OptionError, RunError, SimulatorError
from tailwise.models import tabulate
from tailwise.models.simulator import begun_in
from tailwise.report import decision_report, outlook, recorded_plan
from tailwise.report.decision import sentences
from tailwise.report.policy_charts import MOST_PARTS, search_tree

pytestmark = pytest.mark.compiled  # interpreted, a search of this length takes half a minute
pytest.importorskip("plotly", reason="plotly is not installed: no report")

HOSTILE = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", "**b** `c` $d$ %{x} <b>e</b> &lt;")


def hostile_table(sense="costs"):
    """Two actions and three states, all of them called what would do harm if it were not text."""
    transitions = np.zeros((3, 2, 3))
    transitions[:, 0] = [0.5, 0.5, 0.0]
    transitions[:, 1] = [0.9, 0.0, 0.1]
    amounts = np.array([[1.0, 0.5], [2.0, 3.0], [9.0, 9.0]])
    return TabularMDP.from_arrays(
        transitions, order="SAS", horizon=5, discount=0.9, state_labels=HOSTILE, action_labels=HOSTILE[:2],
        name=HOSTILE[0], **{sense: amounts},
    )  # fmt: skip


def words(document):
    return document.markdown().replace("\\", "")


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (ExactPlanner, ["exact, by backward induction", "What may happen", "right from 0.0340"]),
        (BoundedRtdp, ["is proven best", "with certainty", "What may happen"]),
        (LearnedModelSearch, ["is best with probability", "never seen in", "small enough to check"]),
        (ErmMcts, ["90 % interval", "as it was searched", "small enough to check"]),
        (Uct, ["as it was searched"]),
    ],
)
def test_a_report_says_what_its_plan_knows(build, said):
    mdp = domains.make("grid-mdp")
    planner = build(mdp, seed=0) if build is Uct else build(mdp, 0.1, seed=0)
    text = words(decision_report(recorded_plan(planner, iterations=400)))
    for part in ["In state **(4,0)** at step 0", "What may come of each action", "grid-mdp", "| seed | 0 |", *said]:
        assert part in text
    assert "nan" not in text


@pytest.mark.parametrize("unit", [1e-12, 1.0])
def test_a_report_finds_the_planner_wrong_in_any_unit(unit):
    mdp = TabularMDP.from_outcomes([0, 0], [0, 1], [0, 0], [1, 1], unit * np.array([2.0, 1.0]), horizon=1)
    text = words(decision_report(recorded_plan(ErmMcts(mdp, 0.1 / unit, seed=0), iterations=1)))
    assert "the planner is wrong" in text
    assert text.index("the planner is wrong") < text.index("What may come")  # who reads the beginning alone should know


def test_the_laws_of_a_table_are_exact():
    """The law after the best action is that of the optimal policy; its ERM is the exact value of each action."""
    mdp = domains.make("grid-mdp")
    solution = backward_induction(mdp, 0.1)
    for action in mdp.actions(mdp.start):
        law = solution.distribution(int(action))
        assert law.erm(0.1) == pytest.approx(solution.action_values(0)[mdp.start, action], rel=1e-9)


class Doors(Simulator):
    """Two doors, whose names differ by room, into rooms that cost 0 or 10."""

    horizon = 3
    start = "hall"

    def actions(self, state):
        return ["left", "right"] if state == "hall" else ["back", "right"]

    def outcomes(self, state, action):
        worse = 0.3 if action == "right" else 0.1
        return [(1.0 - worse, "hall", 1.0, False), (worse, "cellar", 10.0, False)]

    def step(self, state, action, rng):
        chances = self.outcomes(state, action)
        return chances[int(rng.random() > chances[0][0])][1:]

    def with_options(self):
        """Return what nobody asks for: a method of the user's that is called as one of tables."""
        raise AssertionError


def test_a_simulator_that_lists_its_outcomes_has_exact_laws_too():
    plan = BoundedRtdp(Doors(), 0.1, seed=0).plan(iterations=100)
    document = decision_report(plan)
    text = words(document)
    assert "Exact: the action now" in text
    assert "left is optimal, with an exact ERM of" in text
    names = next(block for block in document.blocks if getattr(block, "names", ())).names
    assert names[:3] == ("'hall'", "left", "right")
    assert "90 %: 'hall', then action 0" in names  # "left" or "back": the first of a room's actions
    assert plan.row("left").interval.low <= table_erm() <= plan.row("left").interval.high


def test_a_simulators_own_method_is_not_called_as_that_of_a_table_is():
    assert begun_in(Doors(), "cellar").start == "cellar"  # its with_options fails
    assert "Exact" in words(decision_report(LearnedModelSearch(Doors(), 0.1, seed=0).plan(iterations=50)))


def table_erm():
    return backward_induction(tabulate(Doors()), 0.1).value


@pytest.fixture
def general():
    """A table whose totals are in general position: 30^12 of them."""
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(10), size=(10, 3))
    return TabularMDP.from_arrays(chances, costs=rng.normal(size=(10, 3, 10)), order="SAS", horizon=12, discount=0.95)


def test_too_many_totals_are_put_together(general):
    solution = backward_induction(general, 0.3)
    for action in general.actions(general.start):
        law, risk = solution.distribution(int(action)), solution.action_values(0)[general.start, action]
        assert 0.0 < law.tolerance < 0.1
        assert risk - 1e-9 <= law.erm(0.3) <= risk + 0.3 * 13 * (law.tolerance / 13) ** 2 / 8  # the grid's bound
    text = words(decision_report(ExactPlanner(general, 0.3, seed=0).plan(iterations=60)))
    assert "Exact: the action now" in text
    assert "Totals close to each other were merged; none moved by more than" in text
    assert "Ends less probable than 1e-9 are left out." in text


def test_a_table_that_is_too_large_says_that_its_totals_are_not_listed(general, monkeypatch):
    monkeypatch.setattr(outlook, "MOST_WORK", 0)
    plan = ExactPlanner(general, 0.3, seed=0).plan()
    unlisted = dataclasses.replace(plan, rows=tuple(dataclasses.replace(row, distribution=None) for row in plan.rows))
    text = words(decision_report(unlisted))
    assert "Not known: the plan holds no totals" in text
    assert "Exact: the action now" not in text


def test_a_decision_at_a_later_step_stands_at_its_own_risk_level():
    planner = ExactPlanner(domains.make("grid-mdp"), 0.1, seed=0)
    planner.reset(planner.model.find_state("(4,1)"), 3)
    plan = planner.plan(iterations=8)
    text = words(decision_report(plan))
    assert "at step 3" in text
    assert f"beta {0.1 * 0.99**3:g}" in text
    assert f"| {plan.value:.9g} |" in text.replace("**", "")


def test_rewards_are_shown_as_rewards():
    plan = recorded_plan(ErmMcts(hostile_table("rewards"), 0.2, seed=0), iterations=300)
    text = words(decision_report(plan))
    assert "rewards, higher is better" in text
    assert "sure reward of" in text
    assert "P(less than this)" in decision_report(plan).html()


def test_a_utility_has_no_beta_to_change():
    text = words(decision_report(recorded_plan(AccMcts(domains.make("mdp-4"), 0.5, seed=0), iterations=200)))
    assert "mean of the utility" in text
    assert "aversion to risk" not in text


@pytest.mark.compiled
def test_a_plan_for_the_tail_mean_is_about_the_whole_total():
    plan = recorded_plan(CvarMcts(domains.make("mdp-4"), 0.9, seed=0), iterations=400)
    text = words(decision_report(plan))
    assert "judged by the CVaR at level 0.9 of the whole episode's total" in text
    assert "Learned: the law of the whole episode's total" in text
    assert "sure cost" not in text
    assert "aversion to risk" not in text


def test_recording_changes_nothing():
    mdp = domains.make("mdp-4")
    for build in (ErmMcts, LearnedModelSearch):
        recorded = recorded_plan(build(mdp, 0.5, seed=3), iterations=500)
        plain = build(mdp, 0.5, seed=3).plan(iterations=500)
        assert (recorded.rows, recorded.value, recorded.iterations) == (plain.rows, plain.value, 500)
        assert recorded.simulator_steps == plain.simulator_steps
        way = recorded.origin.trajectory
        assert way.iterations[-1] == 500
        assert (np.diff(way.iterations) > 0).all()
        assert way.erms[-1].tolist() == [row.erm for row in plain.rows]
        assert plain.origin.trajectory is None


@pytest.mark.compiled
def test_recording_changes_nothing_in_threads():
    recorded = recorded_plan(ErmMcts(domains.make("mdp-4"), 0.5, seed=3), iterations=5_001, threads=2)
    plain = ErmMcts(domains.make("mdp-4"), 0.5, seed=3).plan(iterations=5_001, threads=2)
    assert (recorded.rows, recorded.trees) == (plain.rows, 2)
    assert "one of the 2 trees" in words(decision_report(recorded))


def test_a_recorded_plan_keeps_to_its_limits():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    seen = []
    plan = recorded_plan(
        search, iterations=100_000_000, until=lambda so_far: seen.append(so_far.iterations) or len(seen) > 3
    )
    assert plan.stopped == "until"
    assert plan.iterations == seen[-1] == max(seen)
    with pytest.raises(OptionError, match="needs a limit"):
        recorded_plan(search)
    quick = recorded_plan(search, seconds=0.01)
    assert quick.stopped == "seconds"


def test_a_plan_that_was_copied_says_what_it_no_longer_knows(tmp_path):
    plan = recorded_plan(ErmMcts(domains.make("mdp-4"), 0.5, seed=0), iterations=200)
    text = words(decision_report(copy.copy(plan)))
    assert "not known: the plan was copied or loaded" in text
    assert "Sampled by the search" in text
    with pytest.raises(RunError, match="cannot be written"):
        plan.report(tmp_path / "no" / "where.html")


def test_the_same_plan_makes_the_same_bytes(tmp_path):
    def made(name):
        plan = ExactPlanner(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=100)
        return plan.report(tmp_path / name).read_bytes()

    page, again = made("one.html"), made("two.html")
    assert re.sub(rb"[\d.]+ s<", b"", page) == re.sub(rb"[\d.]+ s<", b"", again)  # but for the time it took


def test_the_tree_shows_what_weighs_most():
    search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=0)
    search.plan(iterations=1_500)
    chart, shown, hidden = search_tree(search.root)
    trace = chart.traces[0]
    assert len(trace["ids"]) <= MOST_PARTS + 40
    assert shown + hidden == sum(1 for _ in search.root.walk())
    assert f"{shown:,} states are shown" in chart.caption
    inside = np.zeros(len(trace["ids"]))
    for parent, value in zip(trace["parents"], trace["values"], strict=True):
        if parent:
            inside[int(parent)] += value
    assert (inside <= trace["values"]).all()  # plotly draws nothing otherwise
    small, every, none = search_tree(search.plan(iterations=1).root.action("up").children[0], most=10**9)
    assert none == 0 or "left out" in small.caption
    assert every >= 1


# ------------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    plan = recorded_plan(ErmMcts(hostile_table(), 0.2, seed=0), iterations=600)
    return plan.report(tmp_path_factory.mktemp("report") / "hostile.html")


def drawn(browser, page, **how):
    browser.open(page, **how)
    browser.wait("return document.documentElement.dataset.drawn === 'yes'")


def test_labels_stay_text(browser, hostile_page):
    from selenium.common.exceptions import NoAlertPresentException

    drawn(browser, hostile_page)
    assert browser.errors() == []
    with pytest.raises(NoAlertPresentException):
        browser.driver.switch_to.alert.accept()
    assert browser.find("h1").text in (f"Take {HOSTILE[0]}", f"Take {HOSTILE[1]}")
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.run("return document.scripts.length") == 2 + browser.run(
        "return document.querySelectorAll('figure').length"
    )
    shown = browser.run("return [...document.querySelectorAll('svg text')].map(node => node.textContent)")
    assert sum(HOSTILE[0] in text for text in shown) >= 3
    button = browser.run("return [...document.querySelectorAll('.drill button')].map(node => node.textContent)")
    assert sorted(button) == [f"↳ {HOSTILE[1]}", f"↳ {HOSTILE[0]}"]
    point_at(browser, browser.find_all("g.slice")[1])  # what the mouse brings up
    hover = browser.wait("const h = document.querySelector('.hovertext'); return h && h.textContent")
    assert any(hover.startswith(name) for name in HOSTILE)
    assert browser.run("return document.querySelectorAll('.hovertext a, .hovertext img').length") == 0
    assert browser.errors() == []


def point_at(browser, element, *, click=False):
    from selenium.webdriver.common.action_chains import ActionChains

    browser.run("arguments[0].scrollIntoView({block: 'center'})", element)
    moves = ActionChains(browser.driver).move_to_element(element)
    (moves.click() if click else moves).perform()


def test_going_down_the_tree_by_mouse_and_by_keys(browser, hostile_page):
    drawn(browser, hostile_page)
    tree = "document.querySelector('nav.drill').previousElementSibling"
    here = "return document.querySelector('.drill .here').textContent"
    start = browser.run(here)
    assert start == HOSTILE[0]
    slices = browser.find_all("g.slice")
    label = browser.run("return arguments[0].textContent", slices[1])
    point_at(browser, slices[1], click=True)
    browser.wait(f"return {tree}.data[0].level > 0")
    assert label.startswith(browser.run(here)[:10])
    browser.run("document.querySelector('.drill button').focus()")
    assert browser.run("return document.activeElement.textContent") == "↑ back"
    browser.press("ENTER")
    assert browser.wait(f"{here} === arguments[0]", start)
    browser.press("TAB", "ENTER")
    browser.wait(f"{here} !== arguments[0]", start)
    assert browser.run("return document.activeElement.textContent") == "↑ back"
    assert browser.errors() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000])
def test_every_width_and_scheme(browser, hostile_page, width, dark):
    drawn(browser, hostile_page, width=width, dark=dark)
    assert browser.overflow() <= 0
    assert browser.errors() == []
    page, text = browser.run(
        "const s = getComputedStyle(document.body);"
        "const t = getComputedStyle(document.querySelector('div.chart svg text'));"
        "return [s.backgroundColor, t.fill]"
    )
    assert contrast(page, text) > 7.0
    for table in browser.find_all(".wide"):
        assert table.get_attribute("tabindex") == "0"  # scrolled with keys


def contrast(one, other):
    """WCAG's ratio of two colours as a browser writes them."""

    def light(colour):
        parts = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
        parts = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.compiled
def test_a_tree_of_a_million_nodes_is_a_small_page(browser, tmp_path):
    plan = recorded_plan(
        make_planner(domains.make("grid-mdp", horizon=20), 0.1, kind="tree", seed=0), iterations=1_000_000
    )
    assert plan.nodes > 500_000
    page = plan.report(tmp_path / "large.html")
    assert page.stat().st_size < 8e6
    drawn(browser, page)
    assert browser.errors() == []
    assert len(browser.find_all("g.slice")) > 20


def test_nothing_is_fetched(browser, hostile_page):
    drawn(browser, hostile_page)
    fetched = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert fetched == []
    policy = browser.find("meta[http-equiv]").get_attribute("content")
    assert policy.startswith("default-src 'none'")


def test_a_change_of_scheme_redraws_and_keeps_the_place(browser, hostile_page):
    drawn(browser, hostile_page)
    colour = "return getComputedStyle(document.querySelector('div.chart svg text')).fill"
    level = "return document.querySelector('nav.drill').previousElementSibling.data[0].level"
    light = browser.run(colour)
    browser.run("document.querySelector('.drill button').click()")
    place = browser.wait(level)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    browser.wait(f"{colour} !== arguments[0]", light)
    assert str(browser.run(level)) == str(place[0] if isinstance(place, list) else place)
    assert browser.errors() == []


def test_a_name_begins_as_the_model_has_it():
    said = sentences(("the policy acts as if", "good, run -> failed"))
    assert said == ["The policy acts as if", "good, run -> failed"]


def test_what_may_come_is_not_that_of_another_belief():
    tiger = domains.make("tiger")
    plan = solve(tiger, 0.05).plan([0.999, 0.001])
    assert not outlook.outlook(plan, None, None).is_exact
    assert outlook.outlook(solve(tiger, 0.05).plan(), None, None).is_exact


def test_what_may_come_where_the_state_is_not_seen(monkeypatch):
    """The exact law where that is soon found, whoever planned; else episodes, or the way to play them."""
    tiger = domains.make("tiger", horizon=5)
    plan = make_planner(tiger, 0.1, kind="beliefs", seed=0).plan(iterations=100)
    law = solve(tiger, 0.1).distribution(plan.action)
    found = outlook.outlook(plan, None, None)
    assert found.is_exact
    np.testing.assert_array_equal(found.totals[plan.rows.index(plan.chosen)].costs, law.costs)
    monkeypatch.setattr("tailwise.report.outlook._SOLVE_SECONDS", 0.0)
    monkeypatch.setattr("tailwise.report.outlook._EPISODES", 25)
    found = outlook.outlook(plan, None, None)
    assert [law and law.episodes for law in found.totals] == [25 if row is plan.chosen else None for row in plan.rows]
    assert "Played: 25 episodes" in found.source
    assert set(np.round(found.totals[plan.rows.index(plan.chosen)].costs, 9)) <= set(np.round(law.costs, 9))

    def fails(*_):
        raise SimulatorError("a rare fault")

    monkeypatch.setattr("tailwise.report.outlook.play", fails)
    assert "`tailwise.evaluate` plays episodes" in decision_report(plan).markdown()
    monkeypatch.undo()
    monkeypatch.setattr("tailwise.report.outlook._SOLVE_SECONDS", 0.0)
    monkeypatch.setattr("tailwise.report.outlook._SECONDS", 0.0)
    assert "`tailwise.evaluate` plays episodes" in decision_report(plan).markdown()
