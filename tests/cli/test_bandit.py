"""``tailwise bandit``: one JSON object, repeatable, tables for people, pictures on disk."""

import json

import pytest
import typer
from typer.testing import CliRunner

from tailwise.bandits import make_bandit
from tailwise.cli.app import add
from tailwise.errors import OptionError, RunError, UnknownNameError

app = typer.Typer()
add(app, "bandit")
runner = CliRunner()
SMALL = ("--pulls", "300", "--replications", "30", "--seed", "1")


def run(*arguments):
    found = runner.invoke(app, ["bandit", *arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_run_as_json_repeats_with_its_seed():
    first = run("run", "stationary", "--beta", "1", *SMALL, "--json")
    assert first == run("run", "stationary", "--beta", "1", *SMALL, "--threads", "2", "--json")
    content = json.loads(first)
    assert content["risks"] == make_bandit("stationary").risks(1.0).tolist()
    assert content["pulls"][-1] == 300
    assert sum(content["shares"]) == pytest.approx(1.0)
    assert all(s >= a for s, a in zip(content["stream_bias"], content["average_bias"], strict=True))


@pytest.mark.parametrize("algorithm", ["erm-ucb", "lipschitz", "ucb1", "thompson"])
def test_run_for_people(algorithm):
    text = run("run", "non-deterministic", "--beta", "0.5", "--algorithm", algorithm, *SMALL)
    assert "mostly low" in text
    assert "rho_stream" in text


def test_compare():
    content = json.loads(run("compare", "gamble", "--beta", "3", *SMALL, "--json"))
    assert [row["algorithm"] for row in content["algorithms"]] == ["erm-ucb", "lipschitz", "ucb1", "thompson"]
    assert all(0 <= row["share_of_best_arm"] <= 1 for row in content["algorithms"])
    assert "share of best arm" in run("compare", "gamble", "--beta", "3", *SMALL)


@pytest.mark.compiled
def test_rates():
    content = json.loads(run("rates", "--pulls", "600", "--replications", "40", "--json"))
    assert len(content["rows"]) == 48
    assert {row["theory"] for row in content["rows"]} == {-0.5}
    assert "no slower" in run("rates", "--pulls", "600", "--replications", "40")


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_figures(kind, tmp_path):
    pytest.importorskip("matplotlib")
    options = ("--format", kind, "--pulls", "100", "--replications", "20", "--json")
    folder = tmp_path / "not" / "there"
    content = json.loads(run("figures", "--out", str(folder), *options))
    names = {path.name for path in folder.iterdir()}
    stems = ["beta", "convergence-drifting", "convergence-non-deterministic", "convergence-stationary"]
    assert names == {f"{stem}.{kind}" for stem in [*stems, "estimators", "tails"]}
    assert len(content["files"]) == 6
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[kind]
    assert all(path.read_bytes().startswith(start) for path in folder.iterdir())


def test_errors(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("")
    cases = [
        (("run", "casino", "--beta", "1"), UnknownNameError, "stationary, drifting"),
        (("run", "gamble", "--beta", "1", "-a", "greedy"), UnknownNameError, "erm-ucb, lipschitz"),
        (("run", "gamble", "--beta", "1", "--pulls", "1"), OptionError, "pulls"),
        (("figures", "--out", str(tmp_path), "--format", "gif"), OptionError, "format"),
        (
            ("figures", "--out", str(tmp_path / "file"), "--pulls", "30", "--replications", "20"),
            RunError,
            "choose another folder",
        ),
    ]
    for arguments, error, message in cases:
        with pytest.raises(error, match=message):
            runner.invoke(app, ["bandit", *arguments], catch_exceptions=False)


def test_the_smallest_runs_are_answered_without_warnings():
    text = run("run", "stationary", "--beta", "1", "--pulls", "20", "--replications", "1", "--seed", "0")
    assert "rho_stream" in text
    with pytest.raises(OptionError, match="replications must be at least 2"):
        runner.invoke(app, ["bandit", "rates", "--pulls", "60", "--replications", "1"], catch_exceptions=False)


@pytest.mark.compiled
def test_rates_of_few_replications():
    assert len(json.loads(run("rates", "--pulls", "30", "--replications", "3", "--json"))["rows"]) == 48
