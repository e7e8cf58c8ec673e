"""One way to follow long work: a bar on a terminal, nothing elsewhere, a function where one is given."""

import io
import re
from contextlib import redirect_stderr

import pytest

from tailwise import (
    CVaR,
    CvarMcts,
    EVaR,
    ExactPlanner,
    Exceedance,
    Expectation,
    NestedCVaR,
    backward_induction,
    choose_beta,
    domains,
    evaluate,
    frontier,
    make_planner,
    plan_many,
    sampled_planning,
    solve,
    truncate,
)
from tailwise._progress import activity, followed, followed_plan
from tailwise.bandits import ErmUcb, make_bandit, simulate
from tailwise.errors import OptionError
from tailwise.models import tabulate
from tailwise.reproduction import ConvergenceStudy, convergence_study


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def seen(screen):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())


@pytest.fixture(scope="module")
def grid():
    return domains.make("grid-mdp")


WORK = {
    "solving": lambda mdp, told: backward_induction(mdp, 0.1, progress=told),
    "solving for each beta": lambda mdp, told: solve(mdp, EVaR(0.95), progress=told),
    "solving for each threshold": lambda mdp, told: solve(mdp, CVaR(0.95), progress=told),
    "solving for each price of the risk": lambda mdp, told: solve(
        mdp, Expectation().within(CVaR(0.95), 15.0), progress=told
    ),
    "solving for the probability": lambda mdp, told: solve(mdp, Exceedance(8.0), progress=told),
    "solving  ": lambda mdp, told: solve(mdp, NestedCVaR(0.95), progress=told),
    "solving for each beta  ": lambda mdp, told: choose_beta(mdp, budget=45.0, probability=0.05, progress=told),
    "sampling": lambda mdp, told: sampled_planning(
        mdp, Expectation().within(CVaR(0.9), 40.0), iterations=200, episodes=50, progress=told
    ),
    "sweeping over the table": lambda mdp, told: truncate(mdp.with_options(discount=0.9), 1e-3, progress=told),
    "listing states": lambda mdp, told: tabulate(domains.make("machine-maintenance"), progress=told),
    "solving ": lambda mdp, told: ExactPlanner(mdp, 0.1).decision(progress=told),
    "playing": lambda mdp, told: evaluate(mdp, backward_induction(mdp, 0.1), episodes=9000, seed=0, progress=told),
    "planning": lambda mdp, told: plan_many(mdp, 0.1, [0, 1, 2], iterations=10, progress=told),
    "searching": lambda mdp, told: make_planner(mdp, 0.1).plan(iterations=1000, progress=told),
    "solving for each beta ": lambda mdp, told: frontier(mdp, [0.0, 0.05], progress=told),
    "searching ": lambda mdp, told: CvarMcts(mdp, 0.9, seed=0).plan(iterations=200, progress=told),
    "pulling ": lambda mdp, told: simulate(
        make_bandit("stationary"), ErmUcb(0.1), pulls=100, replications=7, seed=0, progress=told
    ),
    "pulling": lambda mdp, told: convergence_study(
        ConvergenceStudy(("stationary",), betas=(0.1, 1.0), pulls=300, replications=4), progress=told
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_a_bar_on_a_terminal_and_nothing_elsewhere(name, grid, terminal):
    with redirect_stderr(terminal):
        WORK[name](grid, True)
    shown = seen(terminal)
    assert name.strip() in shown
    assert "0:00:0" in shown  # the time
    with redirect_stderr(io.StringIO()) as file:
        WORK[name](grid, True)
    assert file.getvalue() == ""


@pytest.mark.parametrize("name", WORK)
def test_a_function_is_told(name, grid, capfd):
    told = []
    WORK[name](grid, lambda *now: told.append(now))
    done = [first for first, _ in told]
    assert done == sorted(done)
    assert done[-1] > 0
    if name.strip() != "searching":  # whose second number is the time
        total = told[-1][1]
        assert total is None or done[-1] == total
    WORK[name](grid, None)
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if "compiling the kernels" not in line] == []  # which is said where it takes long


@pytest.mark.parametrize("name", WORK)
def test_what_the_function_raises_ends_the_work(name, grid):
    def stop(*_):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        WORK[name](grid, stop)


def test_long_work_without_a_terminal_says_once_how_long_it_will_take(monkeypatch):
    clock = iter([0.0, 0.5, 2.0, 3.0])
    monkeypatch.setattr("tailwise._progress.time.perf_counter", lambda: next(clock))
    with redirect_stderr(io.StringIO()) as file, followed(True, "playing", 1e6) as tick:
        for done in (100, 1000, 2000):
            tick(done)
            with followed(True, "inner", 5.0) as inner:
                inner(1.0)
    assert file.getvalue() == "tailwise: playing: 1,000 of 1,000,000 after 2 s, about 28 min left\n"


def test_a_function_that_cannot_be_told_is_an_error_before_the_work(grid):
    for wrong in (lambda: None, lambda done: None, 3):
        with pytest.raises(OptionError, match="progress must be"):
            evaluate(grid, make_planner(grid, 0.1), episodes=3, progress=wrong)


def test_standard_output_is_not_that_of_an_activity(terminal, capsys):
    with redirect_stderr(terminal), activity("reading"):
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in seen(terminal)


def test_rate_share_and_time_left(terminal):
    with redirect_stderr(terminal), followed(True, "working [bold]", 200.0) as tick:
        for done in (50, 100, 150):
            tick(done)
    shown = seen(terminal)
    assert "working [bold]" in shown  # no markup
    assert "75 %" in shown
    assert "/s" in shown
    assert terminal.getvalue().endswith("\x1b[2K")  # and the line is taken away


def test_a_search_that_is_limited_by_time(terminal):
    with redirect_stderr(terminal), followed_plan(True, None, 4.0) as tick:
        tick(1000, 1.0)
        tick(2000, 2.0)
    assert "50 %" in seen(terminal)
    assert "/s" not in seen(terminal)


def test_of_nested_work_the_outermost_is_shown(terminal):
    with redirect_stderr(terminal), followed(True, "outer", 2.0) as outer, followed(True, "inner", 5.0) as inner:
        outer(1.0)
        inner(3.0)
    assert "inner" not in seen(terminal)
    with redirect_stderr(terminal), followed(True, "again", 1.0) as tick:
        tick(0.5)


def test_an_activity_inside_another_changes_its_line(terminal):
    with redirect_stderr(terminal), activity("reading"):
        with activity("building [b]") as say:
            say("built 7")
        with activity("checking"):
            pass
    for text in ("reading ...", "building [b] ...", "built 7 ...", "checking ..."):
        assert text in seen(terminal)
    with redirect_stderr(io.StringIO()) as file, activity("reading"), activity("inner") as say:
        say("changed")
    assert file.getvalue() == ""


def test_what_is_neither(grid):
    with pytest.raises(OptionError, match="progress must be True, False, None or a function"):
        backward_induction(grid, 0.1, progress="yes")


def test_runs_of_a_bandit_are_the_same_in_parts():
    bandit, size = make_bandit("stationary"), {"pulls": 50, "replications": 7, "seed": 3}
    told = []
    followed_run = simulate(bandit, ErmUcb(0.1), progress=lambda *now: told.append(now), threads=2, **size)
    alone = simulate(bandit, ErmUcb(0.1), **size)
    assert (followed_run.average == alone.average).all()
    assert told == [(done, 7) for done in range(1, 8)]
