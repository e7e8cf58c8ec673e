"""Objective by model by planner: the table that the docs show and the command prints is what is declared and done."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailwise import domains, make_planner
from tailwise.cli.app import app
from tailwise.errors import ModelError, OptionError
from tailwise.planners import list_planners, objective_cells
from tailwise.planners.registry import as_markdown
from tailwise.risk.objectives import (
    ERM,
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    ExpectedUtility,
    NestedCVaR,
    RobustKL,
    RobustL1,
    WorstCase,
)

EXAMPLES = (
    Expectation(), ERM(0.5), EVaR(0.9), CVaR(0.9), NestedCVaR(0.9), RobustKL(0.1), RobustL1(0.1), Exceedance(2.0),
    WorstCase(), ExpectedUtility(abs),
    Expectation().within(CVaR(0.9), 3.0),
)  # fmt: skip


class Box:
    """Can be sampled, and nothing else."""

    start, horizon, discount, sense = 0, 2, 1.0, "cost"

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return state, float(action), False


def test_the_docs_show_the_table():
    page = (Path(__file__).parents[2] / "docs" / "planners.md").read_text(encoding="utf-8")
    assert f"<!-- objective cells -->\n{as_markdown(objective_cells())}\n" in page


def test_every_cell_does_what_it_says():
    """Each objective with each kind, on a table and on a black box: built, or one error that names who can."""
    cells = {cell.objective: cell for cell in objective_cells()}
    assert list(cells) == [type(objective).__name__ for objective in EXAMPLES]
    for model in (domains.make("mdp-4"), Box()):
        for objective in EXAMPLES:
            cell = cells[type(objective).__name__]
            able = cell.sampled if isinstance(model, Box) else (*cell.listing, *cell.sampled)
            for kind in (*[kind.name for kind in list_planners()], "auto"):
                if kind in able or (kind == "auto" and able):
                    assert make_planner(model, objective, kind=kind, seed=0).kind in able
                    continue
                with pytest.raises((OptionError, ModelError)) as caught:
                    make_planner(model, objective, kind=kind)
                if able:
                    assert any(name in str(caught.value) for name in able)


def test_the_command_prints_the_table():
    runner = CliRunner()
    text = runner.invoke(app, ["planners"], catch_exceptions=False).stdout
    assert all(kind.name in text for kind in list_planners())
    found = json.loads(runner.invoke(app, ["planners", "--json"], catch_exceptions=False).stdout)
    assert found["objectives"][1]["objective"] == "ERM"
    assert found["objectives"][1]["listing"][0] == "exact"
    assert {kind["name"] for kind in found["planners"]} >= {"exact", "erm-mcts"}
