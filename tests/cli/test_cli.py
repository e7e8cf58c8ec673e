"""The commands, as a user types them (in a process of their own where exit codes matter)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import newest
from tailwise import TabularMDP, backward_induction, domains, load_plan, save
from tailwise.cli.app import app
from tailwise.errors import OptionError
from tailwise.models import tabulate


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def shell(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tailwise", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_same_command_goes_on_from_its_checkpoint(tmp_path):
    def found(*options):
        content = json.loads(run("plan", "mdp-4", "--beta", "0.5", "-p", "tree", *options, "--json").stdout)
        return {name: value for name, value in content.items() if name != "seconds"}

    path, plan = tmp_path / "it.search", tmp_path / "it.plan"
    half = found("-n", "500", "--checkpoint", str(path))
    whole = found("-n", "1000", "--checkpoint", str(path), "--save", str(plan))
    assert (half["seed"], half["iterations"], whole["iterations"]) == (0, 500, 1000)
    assert whole == found("-n", "1000", "--seed", "0")
    assert load_plan(plan).value == whole["value"]
    output = " ".join(
        run("plan", "mdp-4", "-b", "0.5", "-p", "tree", "-n", "1e3", "--checkpoint", str(path)).output.split()
    )
    assert "1,000 iterations" in output
    assert f"checkpoint:{path}" in output.replace(" ", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--planner", "exact", "--checkpoint", "it"), "keeps no checkpoint"),
        (("--checkpoint", "it"), "exact keeps no checkpoint; .*: bounded, learned, tree"),
        (("--planner", "tree", "--seed", "1", "--checkpoint", "it.search"), "began otherwise"),
        (("--save", "no/it"), "--save must be a file in a folder that exists"),
    ],
)
def test_what_cannot_be_kept_is_said(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("plan", "mdp-4", "-b", "0.5", "-p", "tree", "-n", "10", "--checkpoint", "it.search")
    with pytest.raises(OptionError, match=message):
        run("plan", "mdp-4", "-b", "0.5", "-n", "50", *options)


def test_plan_shows_the_action_and_the_risk_table():
    result = run("plan", "grid-mdp", "--beta", "0.1", "--seed", "0")
    assert result.exit_code == 0
    assert "Take right" in result.output
    for word in ("exact ERM", "regret", "up", "down", "left", "99 %", "is solved at once", "proven best"):
        assert word in " ".join(result.output.split())
    output = run("plan", "grid-mdp", "--beta", "0.1", "--seed", "0", "--planner", "erm-mcts", "-n", "5e3").output
    for word in ("Take right", "90 % interval", "5,000 iterations", "--bonus"):
        assert word in " ".join(output.split())


@pytest.mark.compiled
@pytest.mark.parametrize("model", ["mdp-4", "battery"])
@pytest.mark.parametrize(
    "planner", ["erm-mcts", "acc-mcts", "acc-mcts-raw", "uct", "uct-polynomial", "bounded", "exact"]
)
def test_every_planner_shows_its_plan(planner, model):
    output = " ".join(
        run("plan", model, "--beta", "0.05", "--planner", planner, "-n", "50", "--seed", "0").output.split()
    )
    assert f"{planner}: " in output
    start = {"mdp-4": "s0", "battery": "(2, 2)"}[model]
    assert f"in state {start}." in output
    assert ("as good as" in output) == planner.startswith("acc")


def test_plan_stops_where_it_is_told_to():
    arguments = ("plan", "mdp-4", "--beta", "0.5", "--planner", "erm-mcts", "--seed", "0", "-n", "1e7", "--json")
    content = json.loads(run(*arguments, "--until", "stable:3e3").stdout)
    assert content["stopped"] == "until"
    assert content["planner"] == "erm-mcts"
    assert 3000 <= content["iterations"] < 10**7
    content = json.loads(run("plan", "mdp-4", "--beta", "0.5", "--until", "proven", "--json").stdout)
    assert (content["planner"], content["label"]) == ("exact", "safe")


FIRST = """
from types import SimpleNamespace

class First:
    def __init__(self, model, beta, *, seed=None):
        self.model = model
        self.reset()

    def reset(self, state=None, step=0):
        self.state, self.step = self.model.start if state is None else state, step

    def fresh(self, seed=None):
        return First(self.model, 0.0)

    def advance(self, action, state):
        self.state, self.step = state, self.step + 1

    def plan(self, iterations=None, seconds=None, *, until=None, progress=None):
        return SimpleNamespace(action=int(self.model.actions(self.state)[0]))
"""


def test_a_strangers_planner_on_the_command_line(tmp_path, monkeypatch):
    (tmp_path / "first_action.py").write_text(FIRST)
    monkeypatch.syspath_prepend(tmp_path)
    name = "first_action:First"
    assert run("plan", "mdp-4", "--beta", "1", "--planner", name).stdout == "Take 0.\n"
    content = json.loads(run("evaluate", "mdp-4", "--beta", "1", "-p", name, "-e", "5", "--seed", "0", "--json").stdout)
    assert (content["planner"], content["episodes"]) == (name, 5)
    assert name in run("compare", "mdp-4", "--beta", "1", "-p", f"{name},auto", "-n", "10", "-e", "5").output


def test_plan_ends_where_its_memory_does():
    text = run("plan", "grid-mdp", "--beta", "0.1", "--planner", "tree", "-n", "1e5", "--max-memory", "1e5")
    with pytest.raises(OptionError, match="--max-memory must be at least 4096"):
        run("plan", "mdp-4", "--beta", "0.1", "--max-memory", "-5")
    assert "the tree reached max_memory" in " ".join(text.stdout.split())


def test_plan_json_is_one_object():
    options = ("--iterations", "3000", "--seed", "1", "--planner", "erm-mcts", "--json")
    result = run("plan", "mdp-4", "--beta", "0.5", *options)
    content = json.loads(result.stdout)
    assert content["label"] == "safe"
    assert sum(row["visits"] for row in content["rows"]) == content["iterations"] == 3000
    assert content["stopped"] == "iterations"
    again = json.loads(run("plan", "mdp-4", "--beta", "0.5", *options).stdout)
    assert again["rows"] == content["rows"]


def test_plan_elsewhere_and_later():
    content = json.loads(run("plan", "mdp-4", "-b", "1", "-n", "50", "--state", "s2", "--step", "19", "--json").stdout)
    assert content["state"] == 2
    assert content["root_beta"] == pytest.approx(0.9**19)
    assert content["value"] == pytest.approx(0.05)


@pytest.mark.parametrize("beta", [-0.1, 0.0, 0.1, 5.0])
def test_solve_json(beta):
    content = json.loads(run("solve", "grid-mdp", "--beta", str(beta), "--json").stdout)
    solution = backward_induction(domains.make("grid-mdp"), beta)
    assert content["value"] == solution.value
    assert content["optimal_actions"] == solution.optimal_actions(0, solution.mdp.start).tolist()
    values = {row["label"]: row["erm"] for row in content["rows"]}
    assert values["up"] == solution.q_values[0, solution.mdp.start, 0]


def test_solve_takes_simulators_that_list_their_outcomes():
    content = json.loads(run("solve", "battery", "--beta", "0.02", "--json").stdout)
    assert content["value"] == backward_induction(tabulate(domains.make("battery")), 0.02).value
    # from a state that the start reaches only later on, with all the steps that are left
    elsewhere = domains.make("battery")
    elsewhere.start = (0, 5)
    content = json.loads(run("solve", "battery", "--beta", "0.02", "--state", "(0,5)", "--json").stdout)
    assert content["value"] == backward_induction(tabulate(elsewhere), 0.02).value


def test_solve_writes_the_policy_as_a_table(tmp_path):
    table = tmp_path / "weeks.csv"
    for objective in (("--beta", "0.5"), ("--cvar", "0.9")):
        run("solve", "grid-mdp", *objective, "--policy", str(table))
        assert table.read_text().startswith("step,state,action,")
    for wrong in (tmp_path / "weeks.pdf", tmp_path / "none" / "weeks.csv"):
        with pytest.raises(
            OptionError, match=r"--policy .*must (end with \.csv, \.xlsx, \.parquet|be a file in a folder)"
        ):
            run("solve", "grid-mdp", "--beta", "1", "--policy", str(wrong))
    with pytest.raises(OptionError, match="over states that are seen"):
        run("solve", "tiger", "--beta", "0.1", "--policy", str(table))


def test_solve_shows_ties():
    output = " ".join(run("solve", "grid-mdp", "--beta", "0.5").output.split())
    assert "3 actions are equally good: down, left and right" in output


def test_domains():
    assert "grid-mdp" in run("domains").output
    names = [d["name"] for d in json.loads(run("domains", "--json").stdout)["domains"]]
    assert {"mdp-4", "grid-mdp"} <= set(names)


def test_gymnasium_models():
    pytest.importorskip("gymnasium")
    content = json.loads(
        run("plan", "gym:FrozenLake-v1", "--beta", "1", "--horizon", "60", "--json", "-n", "500").stdout
    )
    assert content["sense"] == "reward"
    newest("CliffWalking-v1")
    slippery = run("solve", "gym:CliffWalking-v1?is_slippery=true", "--beta", "0.01", "--horizon", "40", "--json")
    assert json.loads(slippery.stdout)["sense"] == "reward"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "grid-mpd", "--beta", "1"], "grid-mdp"),
        (["plan", "grid-mdp", "--beta", "nan"], "beta"),
        (["plan", "grid-mdp", "--beta", "much"], "--beta"),
        (["plan", "grid-mdp", "--beta", "1", "--iterations", "0"], "iterations must be at least 1"),
        (["plan", "grid-mdp", "--beta", "1", "--state", "(9,9)"], "(9,9)"),
        (["plan", "grid-mdp", "--beta", "1", "--horizon", "-2"], "horizon"),
        (["plan", "grid-mdp", "--beta", "1", "--horizon", "99999999999999999999"], "at most 10000000"),
        (["plan", "grid-mdp", "--beta", "1", "--seed", "-2"], "seed"),
        (["solve", "grid-mdp", "--beta", "1", "--step", "15"], "step must be from 0 to 14, not 15"),
        (["plan", "grid-mdp", "--beta", "1", "--iterations", "1.5"], "1.5"),
        (["plan", "grid-mdp", "--beta", "1", "--bonus", "2"], "exact (chosen, since a table"),
        (
            ["plan", "grid-mdp", "--beta", "1", "--planner", "exact", "--bonus", "2"],
            "exact does not take the option bonus=2.0",
        ),
        (["plan", "grid-mdp", "--beta", "1", "--until", "soon"], "proven, gap:WIDTH or stable:ITERATIONS"),
        (["solve", "nothing.csv", "--beta", "1"], "nothing.csv"),
        (["solve", "battery", "--beta", "1", "--state", "(1,2,3)"], "is not like the start"),
        (["plan", "grid-mdp"], "beta"),
        (["fly"], "fly"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(arguments, message):
    result = shell(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_solving_from_a_state_without_actions_is_refused(tmp_path):
    path = tmp_path / "ends.npz"
    save(TabularMDP.from_outcomes([0], [0], [1], [1.0], [2.0], done=[True], horizon=3), path)
    result = shell("solve", str(path), "--beta", "1", "--state", "1")
    assert result.returncode == 2
    assert result.stderr == "tailwise: error: no action is allowed in state 1; there is nothing to decide\n"


def test_output_that_cannot_show_or_hold_everything():
    narrow = subprocess.run(
        [sys.executable, "-m", "tailwise", "solve", "mdp-4", "--beta", "1"],
        capture_output=True, timeout=300, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert narrow.returncode == 0
    assert b"1.79130674" in narrow.stdout
    if not Path("/dev/full").exists():
        return
    for options in ([], ["--json"]):
        with Path("/dev/full").open("w") as full:
            failed = subprocess.run(
                [sys.executable, "-m", "tailwise", "domains", *options],
                stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False,
            )  # fmt: skip
        assert failed.returncode == 1
        assert failed.stderr.startswith("tailwise: error: ")
        assert failed.stderr.count("\n") == 1


def test_version_and_help():
    assert run("--version").output.startswith("tailwise 0.")
    assert "plan" in run("--help").output


@pytest.mark.parametrize("module", ["typer", "tailwise.cli.app", "rich.table"])
def test_ctrl_c_during_the_imports_is_answered_too(module):
    code = f"""
import sys, importlib.abc
class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
sys.argv = ["tailwise", "domains"]
from tailwise.__main__ import main
main()
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (found.returncode, found.stderr, found.stdout) == (130, "tailwise: interrupted\n", "")


def test_the_help_names_the_command_that_lists_every_planner():
    from tailwise.planners import list_planners

    for command in ("plan", "evaluate"):
        assert "'tailwise planners' lists" in " ".join(run(command, "--help").output.replace("│", " ").split())
    words = set(run("planners").output.replace("│", " ").replace(",", " ").split())
    assert {kind.name for kind in list_planners()} <= words
