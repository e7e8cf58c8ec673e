"""Specifications, options and what ``load`` does with them."""

import subprocess
import sys

import pytest

import tailwise
from conftest import random_mdp
from tailwise.errors import FormatError, MissingExtraError, OptionError, UnknownNameError
from tailwise.formats import load, summarize
from tailwise.formats.registry import Spec, parse_spec, value_of


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("mdp-4", Spec("domain", "mdp-4")),
        ("a/b.CSV?base=1", Spec("csv", "a/b.CSV", (("base", 1),))),
        ("csv:weird.txt", Spec("csv", "weird.txt")),
        ("PRISM:m.txt?constants=N=4,p=0.5", Spec("prism", "m.txt", (("constants", "N=4,p=0.5"),))),
        ("rddl:Navigation_MDP_ippc2011/1", Spec("rddl", "Navigation_MDP_ippc2011/1")),
        ("x.npz?start=3&horizon=7", Spec("npz", "x.npz", (("start", "3"), ("horizon", 7)))),
        ("x.nm?goal=x=3%26y=2&N=1", Spec("prism", "x.nm", (("goal", "x=3&y=2"), ("N", 1)))),
        ("x.nm?until=goal&progress=false", Spec("prism", "x.nm", (("until", "goal"), ("progress", False)))),
    ],
)
def test_specifications(text, spec):
    assert parse_spec(text) == spec


def test_a_file_is_a_file_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tailwise.save(random_mdp(0), "what?a=1.csv")
    assert load("what?a=1.csv").equals(random_mdp(0))


@pytest.mark.parametrize("text", ["", "  ", "a/b", "model.xyz/", "ftp:thing", "x\0.csv"])
def test_what_is_no_specification(text):
    with pytest.raises(UnknownNameError, match="expected a file"):
        parse_spec(text)


def test_wrong_options_in_specifications():
    with pytest.raises(OptionError, match="'base' must be name=value"):
        parse_spec("x.csv?base")
    with pytest.raises(UnknownNameError, match=r"no domain is called 'mdp-5'.*mdp-4"):
        load("mdp-5")
    with pytest.raises(OptionError, match="expected a path"):
        load(17)
    with pytest.raises(FormatError, match="no such file"):
        load("nothing.csv")


def test_values_of_options():
    texts = ("3", "-2", "1e-3", "True", "left", "1_0", "0x10", "\u0663")
    assert [value_of(text) for text in texts] == [3, -2, 1e-3, True, "left", "1_0", "0x10", "\u0663"]


def test_tables_and_domains_take_the_common_options():
    mdp = random_mdp(0)
    assert load(mdp) is mdp
    changed = load(mdp, horizon=2, discount=0.5, start=1)
    assert (changed.horizon, changed.discount, changed.start) == (2, 0.5, 1)
    assert load("mdp-4?horizon=5", discount=0.5).horizon == 5
    with pytest.raises(OptionError, match="no option 'size'"):
        load("mdp-4?size=3")
    with pytest.raises(OptionError, match="a table take"):
        load(mdp, base=1)


def test_arguments_win_over_the_specification():
    assert load("mdp-4?horizon=5", horizon=6).horizon == 6


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("x.nm", "stormpy", "prism"), ("x.arrow", "pyarrow", "arrow"), ("rddl:A/1", "pyRDDLGym", "rddl")],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, name, module, extra):
    (tmp_path / name.replace("rddl:A/1", "unused")).write_text("mdp\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"tailwise\[{extra}\]"):
        load(name)


def test_importing_formats_brings_in_nothing_heavy():
    code = (
        "import sys, tailwise.formats; "
        "print([m for m in ('stormpy', 'pyRDDLGym', 'pyarrow', 'gymnasium') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Walk(tailwise.Simulator):
    start, horizon = 0, 4

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return state + action, 1.0, False


def test_simulators_by_name_take_horizon_and_discount_but_no_label(monkeypatch):
    from tailwise import domains

    monkeypatch.setattr(domains, "_DOMAINS", dict(domains._DOMAINS))
    domains.register("walk", "simulator")(lambda speed=1: Walk())
    walk = load("walk?speed=2", horizon=9, discount=0.5)
    assert (walk.horizon, walk.discount) == (9, 0.5)
    with pytest.raises(OptionError, match="start= is for tables"):
        load("walk", start="home")
    summary = summarize(walk)
    assert (summary.name, summary.kind, summary.start_actions, summary.start) == ("Walk", "simulator", 2, "0")


def test_environments_without_a_table_become_simulators():
    pytest.importorskip("gymnasium")
    model = load("gym:CartPole-v1", horizon=20, discount=0.9)
    assert (model.horizon, model.discount, model.sense) == (20, 0.9, "reward")
    assert load("gym:Pendulum-v1?levels=3").actions(None) is not None
    assert summarize(model).start_actions == 2
    with pytest.raises(OptionError, match="start= is for tables"):
        load("gym:CartPole-v1", start="3")
    with pytest.raises(UnknownNameError, match="no environment"):
        load("gym:Nothing-v0")


def test_start_states_of_environments_with_a_table():
    pytest.importorskip("gymnasium")
    assert load("gym:FrozenLake-v1?start=5").start == 5
    with pytest.raises(OptionError, match="start must be a whole number"):
        load("gym:FrozenLake-v1", start="home")


def test_summary_of_a_table_counts_and_ranges():
    mdp = tailwise.TabularMDP.from_outcomes(
        [0, 0, 1, 3], [0, 0, 2, 0], [1, 2, 1, 3], [0.5, 0.5, 1, 1], rewards=[-2.0, 5.0, 1.0, 9.0],
        done=[False, True, False, False], horizon=4, discount=0.5, terminal_rewards=[0, -1, 0, 3],
    )  # fmt: skip
    summary = summarize(mdp)
    assert (summary.states, summary.actions, summary.pairs, summary.outcomes) == (4, 3, 3, 4)
    assert (summary.lowest, summary.highest) == (-2.0, 9.0)
    assert (summary.lowest_terminal, summary.highest_terminal) == (-1.0, 3.0)
    assert (summary.horizon, summary.discount, summary.start, summary.start_actions) == (4, 0.5, "0", 1)
    assert summary.warnings == ("1 of 4 states cannot be reached from the start",)


def test_summary_of_costs_that_depend_on_the_step():
    mdp = random_mdp(1, per_step=True)
    totals = [
        outcome.cost
        for h in range(mdp.horizon)
        for state in range(mdp.num_states)
        for action in mdp.actions(state)
        for outcome in mdp.outcomes(state, int(action), h)
    ]
    summary = summarize(mdp)
    assert summary.lowest == pytest.approx(min(totals), abs=1e-12)
    assert summary.highest == pytest.approx(max(totals), abs=1e-12)


def test_tuples_and_lists_are_values_of_options():
    assert [value_of(text) for text in ("(3, 4)", "[1,'a']", "(3)", "(x)", "((((")] == [
        (3, 4), [1, "a"], "(3)", "(x)", "((((",
    ]  # fmt: skip
