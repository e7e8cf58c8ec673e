"""``tailwise evaluate``, ``compare`` and ``reproduce``: output for programs and people; errors, of ``beta`` too."""

import csv
import itertools
import json

import pytest
import typer
from typer.testing import CliRunner

from tailwise.cli.app import add
from tailwise.errors import ModelError, OptionError, RunError, UnknownNameError
from tailwise.exact import backward_induction
from tailwise.planners import make_planner

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted

app = typer.Typer()
for command in ("beta", "evaluate", "compare", "reproduce"):
    add(app, command)
runner = CliRunner()


def run(*arguments):
    found = runner.invoke(app, list(arguments), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout  # without the notice, on standard error, that kernels are being compiled


def test_evaluate_prints_one_json_object():
    arguments = (
        "evaluate",
        "mdp-4",
        "--beta",
        "1",
        "-e",
        "8",
        "-n",
        "30",
        "--seed",
        "1",
        "--resamples",
        "200",
        "--json",
    )
    content = json.loads(run(*arguments))
    assert content["episodes"] == len(content["totals"]) == 8
    assert content["optimum"] == pytest.approx(1.79130674)
    (estimate,) = (e for e in content["estimates"] if e["value"] == content["erm"])
    assert estimate["low"] <= content["erm"] <= estimate["high"]
    assert estimate["target"] == "ERM at beta 1 of the total cost of an episode played by exact"
    assert json.loads(run(*arguments, "--threads", "2")) == content


def test_every_episode_goes_to_a_table(tmp_path):
    path = tmp_path / "out.csv"
    content = json.loads(
        run("evaluate", "mdp-4", "--beta", "1", "-p", "uct", "-e", "4", "-n", "20", "--seed", "3", "--json",
            "--returns", str(path))
    )  # fmt: skip
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row.pop("total")) for row in rows] == content["totals"]
    assert [int(row.pop("episode")) for row in rows] == [*range(4)]
    settings = {"model": "mdp-4", "objective": "ERM at beta 1", "planner": "uct", "seed": "3", "iterations": "20"}
    assert all(row == {**settings, "seconds": ""} for row in rows)


def test_every_episode_that_was_compared_goes_to_a_table(tmp_path):
    parquet, path = pytest.importorskip("pyarrow.parquet"), tmp_path / "out.parquet"
    run("compare", "mdp-4", "--beta", "1", "-p", "exact,uct", "-n", "20", "-e", "3", "--returns", str(path))
    rows = parquet.read_table(path).to_pydict()
    assert rows["planner"] == ["exact"] * 3 + ["uct"] * 3
    assert rows["iterations"] == [None] * 3 + [20] * 3
    assert rows["episode"] == [0, 1, 2] * 2
    assert set(rows["seed"]) == {0}


def test_evaluate_for_people():
    text = run("evaluate", "mdp-4", "--beta", "0.5", "--planner", "exact", "-e", "500", "--seed", "0")
    assert "ERM at beta 0.5" in text
    assert "exact optimum, ERM at beta 0.5: 1.77921" in text
    assert "may be missing from 500 episodes" in " ".join(text.split())


@pytest.mark.compiled
def test_compare_pairs_all_with_the_first():
    content = json.loads(
        run(
            "compare", "grid-mdp", "--beta", "0.1", "--planners", "exact,exact-neutral,uct", "-n", "20,40",
            "-e", "40", "--resamples", "200", "--integrate", "--json",
        )
    )  # fmt: skip
    rows = content["planners"]
    assert [(row["planner"], row["iterations"]) for row in rows] == [
        ("exact", None), ("exact-neutral", None), ("uct", 20), ("uct", 40),
    ]  # fmt: skip
    assert rows[0]["difference"] == 0.0
    assert rows[0]["equal"] == 40
    assert rows[0]["closed_loop_erm"] == pytest.approx(content["optimum"])
    assert rows[1]["closed_loop_erm"] > content["optimum"]
    assert all(row["better"] + row["equal"] + row["worse"] == 40 for row in rows)


def test_compare_for_people_fits_the_page():
    text = run("compare", "mdp-4", "--beta", "1", "--planners", "erm-mcts,uct-polynomial", "-n", "20", "-e", "5")
    assert "erm-mcts" in text
    assert "…" not in text


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("evaluate", "mdp-4", "--beta", "1", "--planner", "erm-mcst"), UnknownNameError, "did you mean 'erm-mcts'"),
        (("evaluate", "mdp-4", "--beta", "1", "-e", "0"), OptionError, "episodes must be from 1 to"),
        (("evaluate", "mdp-4", "--beta", "nan"), OptionError, "beta must be a finite number"),
        (("evaluate", "mdp-5", "--beta", "1"), UnknownNameError, "mdp-5"),
        (("evaluate", "mdp-4", "--beta", "1", "--bonus", "2"), OptionError, "does not take the option bonus=2.0"),
        (("evaluate", "mdp-4", "--beta", "1", "-n", "0"), OptionError, "iterations must be at least 1"),
        (("evaluate", "gym:no-such", "--beta", "1", "--confidence", "2"), OptionError, "confidence must be"),
        (
            ("evaluate", "gym:no-such", "--beta", "1", "--returns", "x.foo"),
            OptionError,
            "--returns x.foo must end with .csv",
        ),
        (("evaluate", "gym:no-such", "--beta", "1", "--returns", "no/x.csv"), OptionError, "in a folder that exists"),
        (("compare", "gym:no-such", "--beta", "1", "--returns", "."), OptionError, "--returns must be a file"),
        (("compare", "gym:no-such", "--beta", "1", "-e", "0"), OptionError, "episodes must be from 1 to"),
        (("compare", "gym:no-such", "--beta", "1", "--threads", "0"), OptionError, "threads must be from 1"),
        (("compare", "gym:no-such", "--beta", "1", "--resamples", "9"), OptionError, "resamples must be from 100 to"),
        (("compare", "gym:no-such", "--beta", "1", "-n", "10,0"), OptionError, "iterations must be at least 1"),
        (("compare", "mdp-4", "--beta", "1", "--planners", ","), OptionError, "names no planner"),
        (("compare", "mdp-4", "--beta", "1", "-p", "exact,tree,exact"), OptionError, "--planners names exact twice"),
        (("compare", "mdp-4", "--beta", "1", "-n", "100,1e2"), OptionError, "--iterations names 100 twice"),
        (("beta", "gym:no-such", "--level", "2"), OptionError, "level must be"),
        (("compare", "mdp-4", "--beta", "1", "-n", "ten"), OptionError, "whole numbers separated by commas"),
        (("reproduce", "mdp-5", "--out", "x"), OptionError, "problem must be one of"),
        (("reproduce", "--out", "x", "--threads", "0"), OptionError, "threads must be from 1 to 1024"),
        (("reproduce", "--out", "x", "--seeds", "0"), OptionError, "seeds must be at least 2"),
        (("reproduce", "--out", "x", "--variant", "y"), UnknownNameError, "no variant is called 'y'"),
    ],
)
def test_bad_input_is_named(arguments, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        runner.invoke(app, list(arguments), catch_exceptions=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.compiled
def test_exact_policies_play_simulators_that_list_their_outcomes():
    rows = json.loads(
        run("compare", "battery", "--beta", "0.02", "-p", "auto,exact-neutral", "-n", "1", "-e", "6", "--json")
    )["planners"]
    assert rows[0]["planner"] == "auto (exact)"
    assert rows[1]["iterations"] is None
    one, two = (
        json.loads(run("evaluate", "battery", "--beta", "0.02", "-p", kind, "-e", "6", "--seed", "0", "--json"))
        for kind in ("exact", "auto")
    )
    assert one["erm"] == two["erm"]
    assert len(one["totals"]) == 6
    assert one["totals"] == two["totals"]
    with pytest.raises(OptionError, match="works on tables only"):
        runner.invoke(app, ["compare", "battery", "--beta", "0.02", "--integrate"], catch_exceptions=False)


def stop_after(monkeypatch, calls):
    """Let Ctrl-C come while the planner decides for the ``calls``-th time."""
    from tailwise.evaluation.closed_loop import Player

    decide, count = Player.decide, itertools.count(1)

    def counted(self, *arguments):
        if next(count) == calls:
            raise KeyboardInterrupt
        return decide(self, *arguments)

    monkeypatch.setattr(Player, "decide", counted)


def test_ctrl_c_keeps_what_was_played(monkeypatch):
    whole = ("mdp-4", "--beta", "1", "-p", "uct", "-n", "20", "-e", "8", "--seed", "0", "--resamples", "200", "--json")
    everything = json.loads(run("evaluate", *whole))
    stop_after(monkeypatch, 5 * 20 + 7)  # in the sixth episode
    found = runner.invoke(app, ["evaluate", *whole], catch_exceptions=False)
    content = json.loads(found.stdout)
    assert found.exit_code == 130
    assert content["totals"] == everything["totals"][:5]
    assert found.stderr == ""  # the entry point adds one line
    assert content["notes"] == ["interrupted: 5 of 8 episodes were played"]


@pytest.mark.parametrize(
    ("calls", "rows", "episodes"), [(8 * 20 + 5 * 20 + 7, 2, 5), (3 * 20 + 1, 1, 3), (8 * 20 + 3, 1, 8)]
)
def test_ctrl_c_keeps_what_was_compared(calls, rows, episodes, monkeypatch):
    arguments = [
        "compare",
        "mdp-4",
        "--beta",
        "1",
        "-p",
        "uct-polynomial,uct,erm-mcts",
        "-n",
        "20",
        "-e",
        "8",
        "--json",
    ]
    stop_after(monkeypatch, calls)
    found = runner.invoke(app, arguments, catch_exceptions=False)
    content = json.loads(found.stdout)
    assert found.exit_code == 130
    assert len(content["planners"]) == rows
    last = content["planners"][-1]
    assert last["episodes"] == last["better"] + last["equal"] + last["worse"] == episodes


def test_planners_for_tables_say_so():
    with pytest.raises(ModelError, match="needs a model that lists its outcomes"):
        make_planner(object(), 0.5, kind="exact")


@pytest.mark.compiled
def test_reproduce_writes_a_report_and_resumes(tmp_path):
    pytest.importorskip("matplotlib")
    small = ("--seeds", "2", "--variant", "authors", "--most-iterations", "20", "--threads", "2")
    text = run("reproduce", "mdp-4", "--out", str(tmp_path / "a"), *small)
    assert "report.html" in text
    everything = {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file() and p.name != "timing.log"}
    content = json.loads(run("reproduce", "mdp-4", "--out", str(tmp_path / "a"), *small, "--resume", "--json"))
    assert len(content["rows"]) == 9
    assert everything == {p: p.read_bytes() for p in everything}
    exact = backward_induction(__import__("tailwise").domains.make("mdp-4"), 0.1).value
    assert content["rows"][0]["exact"] == exact
    with pytest.raises(RunError, match="already"):
        runner.invoke(app, ["reproduce", "mdp-4", "--out", str(tmp_path / "a"), *small], catch_exceptions=False)
