"""Models without a horizon on the command line: each command answers, or names the way out in one error."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import tailwise
from tailwise import TabularMDP
from tailwise.cli.app import app
from tailwise.errors import InfiniteValueError, TailwiseError


@pytest.fixture
def path(tmp_path):
    """Patch, which works three times in ten, or call the maker."""
    mdp = TabularMDP.from_outcomes(
        [0, 0, 0], [0, 0, 1], [0, 0, 0], [0.7, 0.3, 1.0], [1.0, 1.0, 6.0], done=[False, True, True], horizon=None,
        action_labels=("patch", "call"),
    )  # fmt: skip
    tailwise.save(mdp, tmp_path / "repair.npz")
    return str(tmp_path / "repair.npz")


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_commands_that_answer(path, tmp_path):
    found = json.loads(run("solve", path, "--beta", 0.1, "--json").stdout)
    want = math.log(0.3 * math.exp(0.1) / (1.0 - 0.7 * math.exp(0.1))) / 0.1
    assert (found["horizon"], found["label"]) == (None, "patch")
    assert found["value"] == pytest.approx(want)
    assert "no horizon" in run("solve", path, "--beta", 0.1).output
    text = " ".join(run("plan", path, "--beta", 0.1, "--report", tmp_path / "plan.html").output.split())
    assert "Take patch" in text
    assert (tmp_path / "plan.html").exists()
    found = json.loads(run("evaluate", path, "--beta", 0.1, "--episodes", 200, "--seed", 0, "--json").stdout)
    assert found["optimum"] == pytest.approx(want)
    assert abs(np.mean(found["totals"]) - 10.0 / 3.0) < 1.0
    found = json.loads(run("frontier", path, "--betas", "0,0.3", "--json").stdout)
    assert len(found["points"]) == 2
    assert json.loads(run("solve", path, "--evar", 0.1, "--json").stdout)["label"] == "patch"
    assert "none" in run("info", path).output


def test_criteria(tmp_path):
    ring = TabularMDP.from_outcomes([0, 0, 1], [0, 1, 0], [1, 0, 0], np.ones(3), [1.0, 3.0, 2.0], horizon=None)
    tailwise.save(ring, tmp_path / "ring.npz")
    found = json.loads(run("solve", tmp_path / "ring.npz", "--beta", 0.1, "--criterion", "average", "--json").stdout)
    assert found["value"] == pytest.approx(1.5)
    assert found["rows"][0]["erm"] == pytest.approx(1.5)
    found = json.loads(
        run(
            "solve", tmp_path / "ring.npz", "--discount", 0.5, "--beta", 0.1, "--criterion", "recursive", "--json"
        ).stdout
    )
    assert found["value"] == pytest.approx((1.0 + 0.5 * 2.0) / 0.75)
    result = run("solve", tmp_path / "ring.npz", "--beta", 0.1)
    assert isinstance(result.exception, InfiniteValueError)
    assert "from state 0" in str(result.exception)


def test_commands_that_refuse_name_the_way_out(path):
    for command in (
        ("plan", path, "--beta", 0.1, "--planner", "erm-mcts"),
        ("solve", path, "--cvar", 0.9),
        ("evaluate", path, "--beta", 0.1, "--planner", "tree"),
        ("compare", path, "--beta", 0.1, "--episodes", 5),
        ("explore", path, "--no-browser"),
    ):
        result = run(*command)
        assert isinstance(result.exception, TailwiseError), command
        assert "horizon" in str(result.exception), command
    assert run("solve", "mdp-4", "--beta", 1, "--horizon", "none").exit_code == 0


def test_horizon_none_is_said(path):
    assert json.loads(run("solve", path, "--horizon", 3, "--beta", 0.1, "--json").stdout)["horizon"] == 3
    assert json.loads(run("solve", f"{path}?horizon=none", "--beta", 0.1, "--json").stdout)["horizon"] is None
    assert run("solve", path, "--horizon", "never", "--beta", 0.1).exit_code == 2
