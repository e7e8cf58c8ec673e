"""What the explorer's page looks at, without a page."""

import threading

import numpy as np
import pytest

from explore.line import Line
from tailwise import backward_induction, domains, frontier, sensitivity, what_if
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.explore import Session, layout
from tailwise.explore.background import Worker
from tailwise.models.table_changes import Varied, numbers_of, vary

pytestmark = pytest.mark.compiled  # interpreted, how sure a plan is takes many seconds


def settled(session):
    assert session.wait(60.0)
    return session.view()


def test_beta_changes_the_action_at_the_switch_point():
    mdp = domains.make("grid-mdp")
    first = frontier(mdp).switches[0]
    assert first == pytest.approx(0.03402361, abs=1e-7)
    session = Session(mdp, beta=first * (1 - 1e-6))
    assert settled(session).moment.plan.label == "up"
    session.change(beta=first * (1 + 1e-6))
    view = settled(session)
    assert view.moment.plan.label == "right"
    assert view.frontier.at(view.settings.beta).label == "right"
    assert view.status.error == ""


def test_the_exact_optimum_stands_beside_a_search():
    mdp = domains.make("grid-mdp")
    session = Session(mdp, beta=0.5, kind="tree", iterations=100)
    view = settled(session)
    assert view.moment.exact.value == backward_induction(mdp, 0.5).value
    assert view.moment.trajectory.iterations[-1] == 100


def test_an_episode_adds_up_and_ends():
    mdp = domains.make("grid-mdp")
    session = Session(mdp, beta=0.05, iterations=50)
    total = 0.0
    for h in range(mdp.horizon):
        view = settled(session)
        assert view.place == h
        assert view.moment.accrued == pytest.approx(total)
        session.act(view.moment.plan.action)
        taken = settled(session).moments[h]
        assert taken.taken == view.moment.plan.action
        total += mdp.discount**h * taken.cost
        if session.view().total is not None:
            break
    view = session.view()
    rest = 0.0
    if len(view.moments) == mdp.horizon:  # the last step was played: the last state is charged
        rest = view.total - total
    assert view.total == pytest.approx(total + rest)
    assert all(moment.plan is not None for moment in view.moments)


def test_an_earlier_decision_can_be_taken_otherwise():
    session = Session(domains.make("grid-mdp"), beta=0.05, iterations=50)
    for _ in range(3):
        session.act(settled(session).moment.plan.action)
    assert len(settled(session).moments) == 4
    session.look(1)
    assert session.view().moment.state == session.view().moments[1].state
    session.act(0)
    view = settled(session)
    assert (len(view.moments), view.place, view.moments[1].taken) == (3, 2, 0)
    session.restart()
    assert len(settled(session).moments) == 1


def test_wrong_values_change_nothing():
    session = Session(domains.make("grid-mdp"), beta=0.05, iterations=50)
    before = settled(session).settings
    for wrong in ({"beta": "many"}, {"beta": None, "iterations": 0}, {"iterations": 1.5}, {"planner": "cvar-mcts"}):
        with pytest.raises(OptionError):
            session.change(**wrong)
    with pytest.raises(StateError):
        session.change(state="nowhere")
    with pytest.raises(StateError):
        session.act(99)
    assert session.view().settings == before
    with pytest.raises(ModelError):
        Session(object())


@pytest.mark.compiled
def test_another_first_state():
    mdp = domains.make("grid-mdp")
    session = Session(mdp, beta=0.05, iterations=50)
    session.change(state=mdp.state_name(7))
    view = settled(session)
    assert view.moments[0].state == 7
    assert view.frontier.at(0.05).erm == pytest.approx(view.moment.exact.value, rel=0.2)
    session.change(state="")
    assert settled(session).moments[0].state == mdp.start


@pytest.mark.compiled
def test_a_search_can_be_cancelled_and_goes_on():
    session = Session(domains.make("grid-mdp"), beta=0.05, kind="tree", iterations=10**9)
    while session.view().moment.plan is None:
        assert not session.wait(0.05)
    session.cancel()
    first = settled(session).moment.trajectory.iterations[-1]
    assert 0 < first < 10**9
    session.search_on()
    while session.view().moment.trajectory.iterations[-1] <= first:
        assert not session.wait(0.05)
    session.cancel()
    assert settled(session).status.label == ""


@pytest.mark.compiled
def test_a_simulator_that_plans_solve_exactly_is_explored_as_its_table():
    session = Session(domains.make("machine-maintenance", horizon=3), beta=0.1)
    session.wait()
    view = session.view()
    assert session.is_solved
    assert view.frontier.exact
    assert view.moment.plan.is_exact
    assert session.action_text(0, view.settings.state) == "run"


def test_simulators_are_explored_too():
    session = Session(Line(), beta=1.0, iterations=300, kind="tree")
    view = settled(session)
    assert view.moment.plan.label == "leave"
    assert view.frontier is None  # it takes a while, and is made when it is asked for
    session.act("walk")
    view = settled(session)
    assert view.moment.state == 1
    assert view.moments[0].cost in (1.0, 6.0)
    session.act("leave")
    assert settled(session).total == view.moment.accrued + 2.5


@pytest.mark.compiled
def test_a_failing_model_is_explained_and_the_session_lives():
    model = Line()
    session = Session(model, beta=1.0, iterations=50, kind="tree")
    settled(session)
    model.is_broken = True
    session.search_on()
    assert "the bridge is out" in settled(session).status.error
    model.is_broken = False
    session.restart()
    assert settled(session).status.error == ""


def test_new_work_takes_the_place_of_old():
    worker, seen, gate = Worker(), [], threading.Event()

    def endless(ticket):
        while True:
            gate.set()
            ticket.tell(1, 4)

    worker.start("endless", endless)
    assert gate.wait(10.0)
    assert worker.status.label == "endless"
    assert worker.status.share == 0.25
    worker.start("next", lambda ticket: seen.append(ticket.label))
    assert worker.wait(10.0)
    assert seen == ["next"]
    worker.start("failing", lambda ticket: 1 / 0)
    assert worker.wait(10.0)
    assert worker.status.error == "ZeroDivisionError: division by zero"


def test_a_frontier_never_keeps_a_search_waiting(monkeypatch):
    begun, gate = threading.Event(), threading.Event()

    def slow(model, progress):
        begun.set()
        gate.wait(20.0)
        progress(1, None)
        return frontier(model, [0.0])

    monkeypatch.setattr("tailwise.explore.background.frontier", slow)
    session = Session(domains.make("grid-mdp"), beta=0.03, iterations=50)
    assert begun.wait(20.0)
    session.change(beta=0.04)
    while session.view().moment.plan is None or session.view().settings.beta != session.view().moment.plan.beta:
        assert not session.wait(0.01)
    assert session.view().moment.plan.label == "right"
    assert session.view().frontier is None
    gate.set()
    assert settled(session).frontier is not None


def test_sliders_cover_what_they_say():
    assert layout.beta_at(0) == 0.0
    assert layout.beta_position(-1.0) == 0
    for position in range(161):
        assert layout.beta_position(layout.beta_at(position)) == position
    betas = np.array([layout.beta_at(k) for k in range(161)])
    assert (np.diff(betas) > 0).all()
    assert betas[-1] == 100.0
    for position in range(10, 61):
        assert layout.iterations_position(layout.iterations_at(position)) == position


def test_a_number_is_varied_beside_the_decision():
    mdp = domains.make("mdp-4")
    session = Session(mdp, beta=0.5, iterations=50)
    assert "cost[s1,risky]" in session.numbers
    turn = sensitivity(mdp, 0.5, ["cost[s1]"]).influences[0].above.factor
    for factor, label in ((turn * (1 - 1e-6), "safe"), (turn * (1 + 1e-6), "risky")):
        session.vary(number="cost[s1]", factor=factor)
        found = settled(session).answers
        assert (found.base.label, found.changed.label) == ("safe", label)
        expected = what_if(mdp, 0.5, [f"cost[s1]*={factor!r}"]).scenarios[1]
        assert found.changed.value == expected.value
    session.change(beta=0.0)
    assert settled(session).answers.changed.beta == 0.0
    session.vary(number="")
    assert settled(session).answers is None


def test_the_model_as_it_is_is_solved_once_for_a_beta_and_a_state():
    session = Session(domains.make("mdp-4"), beta=0.5, iterations=50)
    bases = []
    for moved in ({"factor": 1.5}, {"factor": 1.7}, {"number": "cost[s3]"}):
        session.vary(**{"number": "cost[s1]"} | moved)
        bases.append(settled(session).answers.base)
    assert bases[0] is bases[1] is bases[2]
    session.change(beta=0.0)
    assert settled(session).answers.base.beta == 0.0


def test_every_number_that_is_suggested_can_be_varied():
    for name in ("mdp-4", "grid-mdp"):
        mdp = domains.make(name)
        for number in numbers_of(mdp)[::7]:
            vary(mdp, Varied(number, 0.5))


def test_a_probability_is_varied_until_it_is_1():
    session = Session(domains.make("mdp-4"), iterations=50)
    number = next(one for one in session.numbers if one.startswith("p["))
    session.vary(number=number, factor=2.0)
    assert settled(session).answers.varied.factor <= 2.0


def test_what_cannot_be_varied_changes_nothing():
    session = Session(domains.make("mdp-4"), iterations=50)
    for asked in ({"number": "cost[nowhere]"}, {"number": "cost"}, {"number": "cost[s1]", "factor": 3.0}):
        with pytest.raises(OptionError):
            session.vary(**asked)
        assert session.view().varied == Varied()
    with pytest.raises(OptionError, match="solved at once"):
        Session(Line(), iterations=20, kind="tree").vary(number="cost[s1]")
