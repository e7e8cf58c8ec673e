"""``tailwise whatif``."""

import json

import pytest
from typer.testing import CliRunner

from tailwise.cli.app import app
from tailwise.errors import FormatError, OptionError

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


def run(*arguments):
    found = CliRunner().invoke(app, ["whatif", "mdp-4", *arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_scenarios_and_turns_as_json(tmp_path):
    table = tmp_path / "scenarios.csv"
    table.write_text("scenario,change\nbad,cost[s1]*=2\nbad,cost[s3]*=2\n")
    content = json.loads(
        run("--beta", "0.5", "--set", "cost[s1]*=4", "--scenarios", str(table), "--vary", "cost[s1]", "--json")
    )
    assert [one["name"] for one in content["scenarios"]] == ["as it is", "bad", "cost[s1]*=4"]
    assert content["scenarios"][2]["label"] == "risky"
    assert content["influences"][0]["above"][1] == "risky"


@pytest.mark.compiled
def test_for_people():
    text = run("--cvar", "0.9", "--horizon", "6", "--set", "cost[s1]*=4", "--vary", "cost[s1]")
    assert "as it is" in text
    assert "turns" in text


def test_a_report_has_tables_and_a_tornado(tmp_path):
    pytest.importorskip("plotly")
    page = tmp_path / "page.html"
    run("--beta", "0.5", "--set", "cost[s1]*=4", "--vary", "cost[s1]", "--report", str(page), "--unit", "EUR")
    text = page.read_text()
    assert "turns at \\u00d71.91: risky" in text
    assert "ERM at beta 0.5 in EUR" in text
    assert "cost[s1]*=4" in text


def test_bad_input_is_named(tmp_path):
    with pytest.raises(OptionError, match="--report must be a file"):
        run("--beta", "0.5", "--set", "cost", "--report", str(tmp_path))
    with pytest.raises(OptionError, match="nothing is changed"):
        run("--beta", "0.5")
    with pytest.raises(OptionError, match="is no change"):
        run("--beta", "0.5", "--set", "cost")
    empty = tmp_path / "empty.csv"
    with pytest.raises(FormatError, match="cannot be read"):
        run("--beta", "0.5", "--scenarios", str(empty))
    empty.write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="columns scenario and change"):
        run("--beta", "0.5", "--scenarios", str(empty))
