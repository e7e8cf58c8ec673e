"""The explorer's page, in a browser, and who may see it."""

import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from explore.line import Line
from tailwise import domains, printoptions
from tailwise._results import span
from tailwise.cli.app import app
from tailwise.errors import RunError, TailwiseError
from tailwise.explore import Session, layout
from tailwise.explore.server import PageServer

pytest.importorskip("dash", reason="dash is not installed: no test of the explorer's page")
pytestmark = pytest.mark.compiled

READY = "return !!document.querySelector('#action') && !document.querySelector('#status').textContent"
ACTION = "return document.querySelector('#action')?.textContent"
HTML = "<img src=x onerror=\"document.title='broken'\">&amp;<b>"


@contextmanager
def served(model, **options):
    session = Session(model, **options)
    server = PageServer(session)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(10.0)
        server.close()


@pytest.fixture(scope="module")
def server():
    with served(domains.make("grid-mdp"), beta=0.03, iterations=300) as one:
        yield one


@pytest.fixture
def page(browser, server):
    server.session.change(beta=0.03, iterations=300, planner="auto", state="")
    browser.open(server.address)
    browser.wait(READY)
    return browser


def type_into(browser, name, text):
    field = browser.find(f"#{name}")
    field.click()
    browser.run("arguments[0].select()", field)  # typing replaces it; clear() would ask for an empty value first
    field.send_keys(text)
    browser.press("ENTER")


def test_moving_beta_changes_the_action_at_the_switch_point(page):
    assert page.run(ACTION) == "up"
    type_into(page, "beta", "0.03402")
    page.wait(READY)
    assert page.run(ACTION) == "up"
    type_into(page, "beta", "0.03403")
    page.wait("return document.querySelector('#action')?.textContent === 'right'")
    assert "0.0340236" in page.find("#frontier").text
    assert page.find("#frontier tr.marked th").text.endswith("right")
    assert page.errors() == []


def test_the_keyboard_suffices(page):
    page.run("document.querySelector('#beta-slider').focus()")
    page.press(*["RIGHT"] * 3)  # 0.03 is 89.5 of the slider: three steps lead beyond 0.0340
    page.wait("return document.querySelector('#action')?.textContent === 'right'")
    assert float(page.find("#beta").get_property("value")) > 0.0341
    assert page.run("return document.activeElement.id") == "beta-slider"
    outline = "return getComputedStyle(document.activeElement.closest('.dash-input-container')).outlineStyle"
    assert page.run(outline) == "solid"
    unnamed = """return [...document.querySelectorAll('input, button')].filter(
        e => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).map(e => e.id)"""
    assert page.run(unnamed) == []
    page.wait(READY)
    page.run("document.querySelector('#decision button').focus()")
    page.press("ENTER")
    page.wait("return document.querySelectorAll('#episode tbody tr').length === 2")
    page.wait(READY)
    focused = page.wait("return document.activeElement.id.includes('act') && document.activeElement.id")
    assert '"place":1' in focused  # the focus stays where it was, though the row is another step's
    page.press("ENTER")
    page.wait("return document.querySelectorAll('#episode tbody tr').length === 3")
    assert page.errors() == []


def test_a_press_is_not_lost_with_a_button_that_is_drawn_anew(page, server):
    from selenium.webdriver.common.action_chains import ActionChains

    pointer = ActionChains(page.driver)
    pointer.move_to_element(page.find("#decision button")).click_and_hold().perform()
    page.run("window.held = document.querySelector('#decision button')")
    server.session.look(0)  # something new to see
    page.run("dash_clientside.set_props('clock', {n_intervals: 0})")
    page.wait("return !window.held.isConnected")
    pointer.release().perform()
    page.wait("return document.querySelectorAll('#episode tbody tr').length === 2")
    page.wait(READY)
    assert page.run("return document.querySelectorAll('#episode tbody tr').length") == 2  # once, not twice
    assert page.errors() == []


def test_answers_that_take_longer_than_a_tick_arrive(browser, monkeypatch):
    drawn = layout.decision

    def slow(*args):
        time.sleep(0.6)
        return drawn(*args)

    monkeypatch.setattr(layout, "decision", slow)
    with served(domains.make("mdp-4"), iterations=50) as server:
        browser.open(server.address)
        browser.wait(READY)
        browser.run("document.querySelector('#decision button').click()")
        browser.wait("return document.querySelectorAll('#episode tbody tr').length === 2")
        assert browser.errors() == []


def test_bounds_are_shown_as_bounds():
    session = Session(domains.make("inventory"), beta=0.05, kind="bounded", iterations=5)
    assert session.wait(60.0)
    view = session.view()
    plan = view.moment.plan
    assert plan.lower < plan.upper
    said = str(layout.decision(session, view))
    assert "ERM is in" in said
    assert all(span(*row.interval) in said for row in plan.rows)
    assert span(plan.lower, plan.upper) in str(layout.episode(session, view))


def test_an_answer_without_iterations_has_no_curve_over_them():
    session = Session(domains.make("grid-mdp"), beta=0.03)
    assert session.wait(60.0)
    assert session.view().moment.trajectory.iterations.size == 1
    drawn, said = str(layout.curves(session.view())), str(layout.decision(session, session.view()))
    assert "Estimates by iterations" not in drawn
    assert "0 iterations" not in said
    assert "Totals of the two best" in drawn


def test_stepping_shows_what_was_thought(page):
    for length in (2, 3):
        page.wait(READY)
        page.find("#decision tr.marked button").click()
        page.wait(f"return document.querySelectorAll('#episode tbody tr').length === {length}")
    page.wait(READY)
    page.find("#episode tbody tr button").click()
    page.wait("return document.querySelector('#decision h2').textContent.includes('at step 0')")
    first = page.find_all("#episode tbody tr")[0]
    assert "tr" in first.tag_name
    assert first.get_attribute("aria-current") == "true"
    assert "up" in first.text
    page.find("#restart").click()
    page.wait("return document.querySelectorAll('#episode tbody tr').length === 1")
    assert page.errors() == []


def test_a_search_can_be_cancelled(page):
    page.find("input[value='tree']").click()
    page.wait(READY, seconds=120.0)  # compiled on the way
    type_into(page, "iterations", "1000000000")
    page.wait("return document.querySelector('#status progress') !== null")
    page.wait("return !!document.querySelector('#action')")
    assert page.find("#cancel").is_enabled()
    page.find("#cancel").click()
    page.wait(READY)
    assert not page.find("#cancel").is_enabled()
    assert page.errors() == []


def test_an_answer_leaves_what_is_half_typed_alone(page):
    page.find("#state").click()
    page.run("arguments[0].select()", page.find("#state"))
    page.find("#state").send_keys("(4,1")
    page.run("dash_clientside.set_props('beta', {value: 0.05})")  # another control asks, and is answered
    page.wait("return document.querySelector('#beta-slider').value === '94'")
    assert page.find("#state").get_property("value") == "(4,1"


def test_a_slider_turns_the_decision(browser):
    with served(domains.make("mdp-4"), beta=0.5, iterations=50) as server:
        browser.open(server.address)
        browser.wait(READY)
        type_into(browser, "number", "cost[s1]")
        browser.wait("return document.querySelector('#turn')?.textContent.includes('stays the best')")
        browser.run("document.querySelector('#factor').focus()")
        browser.press("END")  # twice as much: it turns at 1.909
        browser.wait("return document.querySelector('#turn')?.textContent.includes('risky is better than safe')")
        assert browser.find("#varied tr.marked th").text.endswith("risky")
        type_into(browser, "number", "cost[nowhere]")
        browser.wait("return document.querySelector('#alert').textContent.includes('nowhere')")
        assert browser.find("#number").get_property("value") == "cost[s1]"
        assert browser.errors() == []


def test_what_is_searched_has_no_slider(browser):
    with served(Line(), kind="tree", iterations=50) as server:
        browser.open(server.address)
        browser.wait("return !!document.querySelector('#number')")
        assert "this model is none" in browser.find("main").text
        assert not browser.find("#number").is_displayed()
        assert browser.errors() == []


def test_wrong_input_is_answered_on_the_page(page):
    type_into(page, "state", "nowhere")
    page.wait("return document.querySelector('#alert').textContent.includes('nowhere')")
    assert page.find("#state").get_property("value") == "(4,0)"


def test_both_schemes_and_a_narrow_screen(page, server):
    ink = "return getComputedStyle(document.querySelector('.js-plotly-plot text')).fill"
    drawn = "return !!document.querySelector('.js-plotly-plot text')"
    page.wait(drawn)
    light = page.run(ink)
    server.session.vary(number=server.session.numbers[0], factor=1.5)
    page.open(server.address, width=400, dark=True)
    page.wait(READY)
    page.wait(drawn)
    page.wait("return !!document.querySelector('#varied tbody')")
    assert page.overflow() <= 0
    assert page.clashes() == []
    server.session.vary(number="")
    assert page.run(ink) != light
    assert page.errors() == []


def test_nothing_comes_from_elsewhere(page, server):
    names = page.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert len(names) > 5
    assert all(name.startswith(server.address) for name in names)


def test_labels_stay_text(browser):
    mdp = domains.make("mdp-4")
    labelled = replace(
        mdp, action_labels=(HTML, *mdp.action_labels[1:]), state_labels=(HTML, *map(str, range(1, mdp.num_states)))
    )
    with served(labelled, beta=0.0, iterations=200) as server:
        browser.open(server.address)
        browser.wait(READY)
        assert browser.find("#action").text == HTML
        assert HTML in browser.find("#episode").text
        shown = "return [...document.querySelectorAll('.legendtext')].some(e => e.textContent === arguments[0])"
        assert browser.wait(shown, f"{HTML[:39]}…")  # long names are cut
        assert browser.run("return document.title") == "tailwise"
        assert browser.run("return document.querySelectorAll('main img').length") == 0
        assert browser.errors() == []


def test_a_model_that_fails_is_explained(browser):
    model = Line()
    model.is_broken = True
    with served(model, kind="tree", iterations=50) as server:
        browser.open(server.address)
        browser.wait("return document.querySelector('#alert').textContent.includes('the bridge is out')")
        model.is_broken = False
        browser.find("#restart").click()
        browser.wait(READY)
        assert browser.find("#alert").text == ""
        assert browser.errors() == []
    result = CliRunner().invoke(app, ["explore", "no-such-model", "--no-browser"])
    assert isinstance(result.exception, TailwiseError)


def answer(address, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as found:
            return found.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_only_who_knows_the_address_is_answered(server):
    base = f"http://127.0.0.1:{server.port}"
    assert answer(server.address) == 200
    assert answer(f"{server.address}_dash-layout") == 200
    assert answer(f"{base}/") == 403
    assert answer(f"{base}/_dash-layout") == 403
    assert answer(f"{base}/{'x' * len(server.token)}/") == 403
    assert answer(f"{base}/é/".encode().decode("latin-1").replace("\xc3\xa9", "%C3%A9")) == 403
    assert answer(server.address, Host=f"localhost:{server.port}") == 200
    assert answer(server.address, Host=f"elsewhere.example:{server.port}") == 403  # a name made to point here
    assert server.address.startswith("http://127.0.0.1:")


def test_a_port_that_is_taken_is_explained():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=f"port {port} of this machine cannot be used"):
            PageServer(Session(domains.make("mdp-4")), port=port)
        result = CliRunner().invoke(app, ["explore", "mdp-4", "--no-browser", "--port", str(port)])
        assert isinstance(result.exception, RunError)


def test_the_command_names_amounts_and_steps(monkeypatch):
    told = []

    def shown(model, **options):
        session = Session(model, beta=options["beta"])
        assert session.wait(60.0)
        told.append(str(layout.decision(session, session.view())) + str(layout.episode(session, session.view())))

    monkeypatch.setattr("tailwise.explore.explore", shown)
    with printoptions():
        told_by = CliRunner().invoke(app, ["explore", "mdp-4", "--unit", "EUR", "--step-name", "week", "--no-browser"])
    assert told_by.exit_code == 0, told_by.output
    for words in ("at week 0", "The episode, week by week", "in EUR before", "Look at week 0"):
        assert words in told[0]


def test_ctrl_c_ends_the_command(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(PageServer, "run", interrupted)
    result = CliRunner().invoke(app, ["explore", "mdp-4"])
    assert result.exit_code == 0
    assert opened
    assert opened[0] in result.stdout.replace("\n", "")


@pytest.mark.parametrize("depth", [65, 100_000])
def test_a_request_that_is_nested_too_deeply_is_refused_in_one_line(depth, caplog):
    with served(domains.make("mdp-4"), iterations=10) as server:
        body = b"[" * depth + b"]" * depth
        request = urllib.request.Request(
            f"{server.address}_dash-update-component", body, {"Content-Type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        with refused.value as answer:
            assert answer.code == 400
            assert b"nested too deeply" in answer.read()
    assert "Traceback" not in caplog.text
