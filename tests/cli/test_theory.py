"""``tailwise theory``: one JSON object, a table for people, errors that name the condition."""

import json

import pytest
import typer
from typer.testing import CliRunner

from tailwise.cli.app import add
from tailwise.errors import ConditionError, OptionError
from tailwise.theory import schedule, smallest_xi

app = typer.Typer()
add(app, "theory")
runner = CliRunner()


def run(*arguments):
    found = runner.invoke(app, ["theory", *arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_schedule_as_json_is_the_schedule():
    content = json.loads(
        run("schedule", "--horizon", "4", "--beta", "0.5", "--eta", "0.6", "--form", "tight", "--json")
    )
    plan = schedule(horizon=4, beta=0.5, eta=0.6, form="tight")
    assert content["horizon"] == 4
    assert [row["log_constant"] for row in content["depths"]] == plan.log_constants.tolist()
    assert content["overflows"] == plan.overflows.tolist()
    assert content["constants"][0] is None or content["constants"][0] > 1  # infinity has no JSON number
    assert content["bonus_exponent"] == pytest.approx(0.24)


def test_schedule_for_people_names_the_practical_constant_and_the_overflow():
    text = run("schedule", "-H", "6", "-b", "1", "--discount", "0.9")
    assert "ln constant" in text
    assert "beyond the largest double" in text
    assert "sqrt(2)" in text


def test_constants_in_all_forms():
    content = json.loads(run("constants", "--beta", "0.5", "--radius", "2", "--gap", "0.2", "--json"))
    assert set(content["forms"]) == {"printed", "corrected", "tight"}
    assert content["forms"]["printed"]["log_c"] < content["forms"]["corrected"]["log_c"]
    assert content["eta_prime"] == pytest.approx(0.5)
    assert "ln theta''" in run("constants", "--beta", "0.5")


def test_smallest_xi():
    assert json.loads(run("xi", "-H", "7", "--json"))["smallest_xi"] == smallest_xi(7)
    assert "148" in run("xi", "-H", "3")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("schedule", "-H", "3", "-b", "0"), ConditionError, "beta > 0"),
        (("schedule", "-H", "3", "-b", "1", "--eta", "0.2"), ConditionError, "1/2 <= eta < 1"),
        (("schedule", "-H", "3", "-b", "1", "--xi", "100"), ConditionError, "too small"),
        (("schedule", "-H", "3", "-b", "1", "--form", "true"), OptionError, "form"),
        (("constants", "-b", "1", "--alpha", "1.5"), ConditionError, "alpha > 2"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        runner.invoke(app, ["theory", *arguments], catch_exceptions=False)
