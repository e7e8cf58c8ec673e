"""Objectives other than one beta on the command line, and models that come without a horizon."""

import json

import pytest
from typer.testing import CliRunner

from tailwise import CVaR, EVaR, Exceedance, backward_induction, domains, load, solve, truncate
from tailwise.cli.app import app
from tailwise.errors import OptionError
from tailwise.risk import conditional_value_at_risk


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("option", "amount", "words", "kind"),
    [
        ("--evar", 0.5, "EVaR at level 0.5", EVaR),
        ("--cvar", 0.9, "CVaR at level 0.9", CVaR),
        ("--exceed", 8.0, "probability of a total worse than 8", Exceedance),
    ],
)
def test_json_says_what_the_solver_says(option, amount, words, kind):
    content = json.loads(run("solve", "grid-mdp", option, str(amount), "--json").stdout)
    policy = solve(domains.make("grid-mdp"), kind(amount))
    assert (content["value"], content["gap"], content["action"]) == (policy.value, policy.gap, policy.action)
    assert content["aim"] == words
    own, neutral = content["measures"]["this policy"], content["measures"]["risk-neutral"]
    assert neutral["mean"] == pytest.approx(backward_induction(domains.make("grid-mdp"), 0.0).value)
    assert own["mean"] >= neutral["mean"]
    assert own["worst"] <= neutral["worst"]
    if option == "--cvar":
        assert own["CVaR 0.9"] == pytest.approx(policy.value)
        assert own["CVaR 0.9"] < neutral["CVaR 0.9"]


@pytest.mark.compiled
def test_people_are_told_what_the_policy_means_later():
    assert "keep to that beta" in " ".join(run("solve", "mdp-4", "--evar", "0.5").output.split())
    text = " ".join(run("solve", "grid-mdp", "--cvar", "0.9").output.split())
    assert "in state (4,0)." in text
    assert "Take right" in text
    assert "depend on what was paid so far" in text


def test_exactly_one_objective():
    for arguments in ([], ["--beta", "1", "--cvar", "0.5"]):
        for command in ("plan", "solve", "evaluate", "compare"):
            with pytest.raises(OptionError, match=r"--beta is missing|give one objective.* not --beta and --cvar"):
                run(command, "mdp-4", *arguments)
    with pytest.raises(OptionError, match="planned from step 0, not 3"):
        run("solve", "mdp-4", "--cvar", "0.5", "--step", "3")
    with pytest.raises(OptionError, match="--evar must be"):
        run("solve", "mdp-4", "--evar", "95")


@pytest.mark.compiled
def test_a_file_without_a_horizon_gets_one(tmp_path):
    path = tmp_path / "coin.csv"
    path.write_text(
        "idstatefrom,idaction,idstateto,probability,reward\n0,0,0,0.5,0\n0,0,0,0.5,1\n0,1,0,1,0.4\n", encoding="utf-8"
    )
    content = json.loads(run("solve", str(path), "--beta", "0.5", "--discount", "0.8", "--json").stdout)
    model = load(path, discount=0.8)
    finite = truncate(model, 1e-6 / 0.2, beta=0.5)
    assert content["horizon"] == finite.horizon < 100
    long = backward_induction(model.with_options(horizon=300), 0.5).value
    assert content["value"] == pytest.approx(long, abs=1e-6 / 0.2)
    text = run("solve", str(path), "--beta", "0.5", "--discount", "0.8").output
    assert f"cut to {finite.horizon} decisions" in text
    assert "100 is assumed" not in text
    assert json.loads(run("solve", str(path), "--beta", "1", "--horizon", "7", "--json").stdout)["horizon"] == 7


@pytest.mark.compiled
def test_a_budget_and_nested_cvar():
    content = json.loads(run("solve", "grid-mdp", "--cvar", "0.95", "--within", "15", "--json").stdout)
    assert content["measures"]["this policy"]["CVaR 0.95"] <= 15
    assert content["value"] == pytest.approx(content["measures"]["this policy"]["mean"])
    assert "ERM at beta 0.1 within 12" in run("solve", "grid-mdp", "--beta", "0.1", "--within", "12").output
    assert "nested CVaR at level 0.5" in run("solve", "grid-mdp", "--nested-cvar", "0.5").output
    with pytest.raises(OptionError, match="--within goes with"):
        run("solve", "grid-mdp", "--evar", "0.5", "--within", "3")
    with pytest.raises(OptionError, match=r"the least that any p.* can have is"):
        run("solve", "grid-mdp", "--cvar", "0.95", "--within", "3")


@pytest.mark.compiled
def test_threads_change_nothing():
    for words in (["--beta", "0.5"], ["--evar", "0.9"]):
        outputs = [json.loads(run("solve", "mdp-4", *words, "--threads", number, "--json").stdout) for number in "12"]
        for output in outputs:
            output.pop("seconds")
        assert outputs[0] == outputs[1]


@pytest.mark.compiled
def test_objectives_by_sampling():
    limits = ["--iterations", "500", "-e", "100"]
    text = " ".join(run("solve", "american-put", "--exceed", "3", *limits).output.split())
    assert "take exercise" in text.lower()
    assert "fresh episodes" in text
    content = json.loads(run("solve", "american-put", "--cvar", "0.3", "--within", "3.5", *limits, "--json").stdout)
    assert (content["label"], content["is_kept"], content["within"]) == ("hold", True, 3.5)
    with pytest.raises(OptionError, match="samples whole episodes"):
        run("solve", "grid-mdp", "--cvar", "0.9", "--iterations", "10", "--step", "2")


@pytest.mark.compiled
def test_the_same_options_on_every_command():
    limits = ["-n", "1500", "--seed", "0"]
    for planner in ("cvar-mcts", "distributional"):
        text = run("plan", "grid-mdp", "--cvar", "0.9", *limits, "--planner", planner).output
        assert "Take right" in text
        assert "CVaR at level 0.9" in text
    with pytest.raises(OptionError, match="CVaR"):
        run("plan", "grid-mdp", "--cvar", "0.9", *limits, "--planner", "uct")
    few = ["-n", "200", "--seed", "0", "-e", "10", "--json"]
    told = json.loads(run("evaluate", "grid-mdp", "--cvar", "0.9", "-p", "cvar-mcts", *few).stdout)
    assert (told["planner"], told["measure"], told["optimum"]) == ("cvar-mcts", "CVaR at level 0.9", None)
    assert told["value"] == pytest.approx(conditional_value_at_risk(told["totals"], 0.9))
    assert told["estimates"][0]["measure"] == told["measure"]
