"""``tailwise solve`` for aims other than one beta, and models that come without a horizon."""

import json

import pytest
from typer.testing import CliRunner

from tailwise import backward_induction, cvar_planning, domains, evar_planning, exceedance_planning, load, truncate
from tailwise.cli.app import app
from tailwise.errors import OptionError
from tailwise.risk import conditional_value_at_risk


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("aim", "amount", "planner"),
    [("evar", 0.5, evar_planning), ("cvar", 0.9, cvar_planning), ("exceed", 8.0, exceedance_planning)],
)
def test_json_says_what_the_planner_says(aim, amount, planner):
    content = json.loads(run("solve", "grid-mdp", f"--{aim}", str(amount), "--json").stdout)
    plan = planner(domains.make("grid-mdp"), amount)
    assert (content["value"], content["gap"], content["action"]) == (plan.value, plan.gap, plan.action)
    own, neutral = content["plans"]["this plan"], content["plans"]["risk-neutral"]
    assert neutral["mean"] == pytest.approx(backward_induction(domains.make("grid-mdp"), 0.0).value)
    assert own["mean"] >= neutral["mean"]
    assert own["worst"] <= neutral["worst"]
    if aim == "cvar":
        assert own["CVaR 0.9"] == pytest.approx(plan.value)
        assert own["CVaR 0.9"] < neutral["CVaR 0.9"]


@pytest.mark.compiled
def test_people_are_told_what_the_plan_means_later():
    assert "keep to that beta" in run("solve", "mdp-4", "--evar", "0.5").output
    text = run("solve", "grid-mdp", "--cvar", "0.9").output
    assert "Take right in state (4,0)." in text
    assert "depend on what was paid so far" in text


def test_exactly_one_aim():
    for arguments in ([], ["--beta", "1", "--cvar", "0.5"]):
        with pytest.raises(OptionError, match="give one aim"):
            run("solve", "mdp-4", *arguments)
    with pytest.raises(OptionError, match="plans from step 0, not 3"):
        run("solve", "mdp-4", "--cvar", "0.5", "--step", "3")
    with pytest.raises(OptionError, match="worst 5 %"):
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
def test_a_constraint_and_nested_cvar():
    content = json.loads(run("solve", "grid-mdp", "--cvar", "0.95", "--within", "15", "--json").stdout)
    assert content["plans"]["this plan"]["CVaR 0.95"] <= 15
    assert content["value"] == pytest.approx(content["plans"]["this plan"]["mean"])
    assert "ERM at 0.1 within 12" in run("solve", "grid-mdp", "--beta", "0.1", "--within", "12").output
    assert "Nested CVaR at 0.5" in run("solve", "grid-mdp", "--nested-cvar", "0.5").output
    with pytest.raises(OptionError, match="--within goes with"):
        run("solve", "grid-mdp", "--evar", "0.5", "--within", "3")
    with pytest.raises(OptionError, match="the least that any plan can have is"):
        run("solve", "grid-mdp", "--cvar", "0.95", "--within", "3")


def test_threads_change_nothing_and_who_keeps_to_one_says_so():
    for words in (["--beta", "0.5"], ["--evar", "0.9"]):
        outputs = [
            CliRunner().invoke(app, ["solve", "mdp-4", *words, "--threads", number], catch_exceptions=False).stdout
            for number in ("1", "2")
        ]
        assert outputs[0] == outputs[1]
    alone = (
        CliRunner().invoke(app, ["solve", "mdp-4", "--cvar", "0.9", "--threads", "2"], catch_exceptions=False).stdout
    )
    assert "searched in one thread, not 2: --cvar keeps to one" in alone


@pytest.mark.compiled
def test_aims_by_sampling():
    limits = ["--iterations", "1500", "-e", "300"]
    text = run("solve", "american-put", "--exceed", "3", *limits).output
    assert "Take exercise" in text
    assert "fresh episodes" in text
    content = json.loads(run("solve", "american-put", "--cvar", "0.3", "--within", "3.5", *limits, "--json").stdout)
    assert (content["label"], content["is_kept"], content["within"]) == ("hold", True, 3.5)
    with pytest.raises(OptionError, match="samples whole episodes"):
        run("solve", "grid-mdp", "--cvar", "0.9", "--iterations", "10", "--step", "2")


@pytest.mark.compiled
def test_planners_for_a_level():
    arguments = ["plan", "grid-mdp", "--beta", "0", "--level", "0.9", "-n", "1500", "--seed", "0"]
    for planner in ("cvar-mcts", "distributional"):
        text = run(*arguments, "--planner", planner).output
        assert "Take right" in text
        assert "CVaR" in text
    assert json.loads(run(*arguments, "--planner", "cvar-mcts", "--json").stdout)["level"] == 0.9
    with pytest.raises(OptionError, match="level"):
        run(*arguments, "--planner", "uct")


@pytest.mark.compiled
def test_a_tail_mean_needs_no_beta():
    arguments = ["grid-mdp", "-n", "1000", "--seed", "0", "--json"]
    named = json.loads(run("plan", *arguments, "--planner", "cvar-mcts").stdout)  # at its own level
    assert named["level"] == 0.95
    plans = [
        json.loads(run("plan", *arguments, "--level", "0.95", *more).stdout) for more in ([], ["-p", "distributional"])
    ]
    assert plans[0]["value"] == named["value"]
    assert (plans[1]["label"], plans[1]["pursued"][:4]) == ("right", "(x -")
    told = json.loads(run("evaluate", *arguments, "--level", "0.9", "--episodes", "20").stdout)
    assert (told["planner"], told["level"], told["optimum"]) == ("cvar-mcts", 0.9, None)
    assert told["tail"] == pytest.approx(conditional_value_at_risk(told["totals"], 0.9))


def test_a_missing_beta_is_named():
    for command in ("plan", "evaluate"):
        for more in ([], ["--planner", "uct"], ["--planner", "distributional"]):
            with pytest.raises(OptionError, match=r"--beta is missing.*Or give --level"):
                run(command, "grid-mdp", *more)
        with pytest.raises(OptionError, match="two aims"):
            run(command, "grid-mdp", "--beta", "0.1", "--level", "0.9")
