"""Learned tables are posterior means; promises and feared models say what they must."""

import numpy as np
import pytest

from tailwise import (
    CVaR,
    EVaR,
    Expectation,
    RobustKL,
    RobustL1,
    Simulator,
    TabularMDP,
    WorstCase,
    backward_induction,
    evaluate,
    learn_model,
    load,
    load_episodes,
    make_planner,
    solve,
)
from tailwise.errors import FormatError
from tailwise.exact import feared_model
from tailwise.logs import PooledPrior, WorstCasePrior, off_policy

LOG = {
    "patient": range(40), "state": ["ill"] * 40, "action": ["wait", "treat"] * 20,
    "next_state": ["well", "well", "dead", "well"] * 10, "cost": [0, 5, 100, 5] * 10,
}  # fmt: skip


def random_table(seed, sense="costs"):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(4), (4, 2))
    return TabularMDP.from_arrays(chances, **{sense: rng.normal(size=(4, 2, 4))}, order="SAS", horizon=5, discount=0.9)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # at the largest betas, interpreted
@pytest.mark.parametrize("sense", ["costs", "rewards"])
@pytest.mark.parametrize("beta", [0.7, -0.4, 1e308, -1e308])
def test_expected_cost_of_the_feared_model_less_the_divergence_is_the_erm(beta, sense):
    for seed in range(5):
        policy = backward_induction(random_table(seed, sense), beta)
        feared = policy.feared_model
        sign = 1.0 if sense == "costs" else -1.0
        assert abs(sign * feared.expected - feared.divergence / beta - sign * policy.value) <= 1e-9


def test_evar_is_the_worst_expectation_in_a_ball():
    policy = solve(random_table(3), EVaR(0.8), tolerance=1e-9)
    feared = feared_model(policy)
    assert feared.radius == pytest.approx(-np.log(0.2))
    assert feared.divergence == pytest.approx(feared.radius, rel=1e-2)
    assert feared.expected == pytest.approx(policy.value, rel=1e-3)


@pytest.mark.parametrize("sense", ["costs", "rewards"])
@pytest.mark.parametrize("objective", [RobustKL(0.2), RobustL1(0.5)])
def test_a_robust_mean_is_the_mean_of_the_worst_model(objective, sense):
    for seed in range(3):
        mdp = random_table(seed, sense)
        policy = solve(mdp, objective)
        feared = policy.feared_model
        assert feared.expected == pytest.approx(policy.value, abs=1e-9)
        for h in range(mdp.horizon):
            worst = feared.probabilities(h)
            for first, last in zip(mdp.outcome_offsets[:-1], mdp.outcome_offsets[1:], strict=True):
                q, p = worst[first:last], mdp.probabilities[first:last]
                away = np.sum(q[q > 0] * np.log(q[q > 0] / p[q > 0])) if objective.ball == "KL" else abs(q - p).sum()
                assert q.sum() == pytest.approx(1.0)
                assert away <= objective.radius + 1e-9
        assert any("as if" in line for line in policy.plan().fears())


def test_rows_are_posterior_means():
    model = learn_model(load_episodes(LOG), prior=PooledPrior(weight=4.0, spread=0.1))
    for action in range(2):
        outcomes = model.outcomes(0, action)
        assert sum(outcome.probability for outcome in outcomes) == pytest.approx(1.0)
    assert model.coverage.tried("ill", "wait") == 20
    assert model.coverage.counts[0].tolist() == [20, 20]


def test_a_plan_says_where_it_leans_on_what_was_never_tried():
    log = {**LOG, "action": ["wait", "wait"] * 20}
    log["patient"], log["state"] = list(range(40)), ["ill"] * 39 + ["other"]
    log["action"] = ["wait"] * 39 + ["treat"]
    plain = learn_model(load_episodes(log), start="ill")
    assert ("ill", "treat") in {(p.state_name, p.action_name) for p in plain.coverage.never_tried}
    assert not solve(plain, 0.0).promise.never_tried
    hopeful = learn_model(load_episodes(log), prior=WorstCasePrior(cost=-1000.0), start="ill")
    policy = solve(hopeful, 0.0)
    assert [p.action_name for p in policy.promise.never_tried] == ["treat"]
    assert any("never tried" in note for note in policy.plan().notes)


def test_a_promise_holds_the_value_and_what_the_log_achieved():
    policy = solve(learn_model(load_episodes(LOG)), 0.0)
    promise = policy.promise
    assert promise.interval.low <= promise.value <= promise.interval.high
    assert promise.logged.value == 27.5
    assert promise.interval == policy.mdp.promise(policy).interval


def test_a_promise_says_where_few_models_hold_what_the_mean_counts():
    """Forty were treated and are well; one waited and was ill: a little of that is in the mean of treatment, too."""
    log = {
        "episode": [*range(40), 40, 40], "step": [0] * 41 + [1], "state": ["s"] * 41 + ["ill"],
        "action": ["treat"] * 40 + ["wait", "stay"], "next_state": ["well"] * 40 + ["ill", "end"],
        "cost": [1.0] * 41 + [100.0],
    }  # fmt: skip
    model = learn_model(load_episodes(log), prior=PooledPrior(weight=0.05, spread=0.1))
    promise = solve(model, 0.0).promise
    assert promise.interval.high < promise.value < promise.draws.max()
    assert 0.0 < (promise.draws > promise.value).mean() < 0.1  # in few, but much worse
    assert promise.lines[0].endswith("leaves possible, few of which hold what the mean counts")
    assert "few of which" not in str(solve(learn_model(load_episodes(LOG)), 0.0).promise)


def test_robust_plans_take_their_balls_from_the_posterior():
    model = learn_model(load_episodes(LOG))
    longer = learn_model(
        load_episodes({name: list(column) * 4 for name, column in LOG.items()} | {"patient": range(160)})
    )
    tight, wide = (solve(model, RobustL1(confidence=share)) for share in (0.1, 0.9))
    assert solve(model, 0.0).value < tight.value < wide.value
    for objective in (RobustKL(confidence=0.9), RobustL1(confidence=0.9)):
        assert (longer.credible_radii(objective) < model.credible_radii(objective)).all()
    assert wide.promise.objective == Expectation()


def test_a_promise_is_the_same_in_any_unit():
    found = []
    for unit in (1.0, 2.0**-42):
        costs = unit * np.tile([0.2, 0.9, 0.6, 0.5], 10)
        log = {**LOG, "next_state": ["ill", "well", "ill", "ill"] * 10, "cost": costs}
        promise = solve(learn_model(load_episodes(log), horizon=3), CVaR(0.5)).promise
        found.append([promise.value / unit, promise.interval.low / unit, promise.interval.high / unit])
    assert found[1] == pytest.approx(found[0], rel=1e-9)


def test_posterior_draws_are_alternatives():
    model = learn_model(load_episodes(LOG))
    drawn = model.draws(300, seed=1)
    mean = np.mean([table.probabilities for table in drawn.tables], axis=0)
    np.testing.assert_allclose(mean, model.probabilities, atol=0.03)
    once = solve(drawn, 0.02)  # with one decision, drawing the model anew at each step is the same
    assert once.value == pytest.approx(solve(drawn.mixed(), 0.02).value, rel=1e-9)
    assert all(type(table) is TabularMDP for table in drawn.tables)


def test_the_report_says_what_is_promised_and_feared(tmp_path):
    pytest.importorskip("plotly")
    model = learn_model(load_episodes(LOG), prior=WorstCasePrior(cost=150.0))
    for plan in (solve(model, 0.01).plan(), make_planner(model, 0.01, seed=0).plan()):
        page = plan.report(tmp_path / "report.html").read_text(encoding="utf-8")
        assert "What it promises, and what the log achieved" in page
        assert "between" in page
        assert "The model that it fears" in page
        assert "as if" in page


def test_a_plan_says_what_it_fears_from_where_it_stands():
    mdp = random_table(1)
    policy = solve(mdp, 0.3)
    later = policy.plan(mdp.start, 2)
    assert later.fears() == policy.rooted(mdp.start, 2).feared_model.lines
    assert any("%" in line and "instead of" in line for line in later.fears())
    assert make_planner(mdp, 0.3).plan().fears() == policy.plan().fears() != later.fears()
    assert policy.plan().fears(most=0) == ()
    assert solve(mdp, 0.0).plan().fears() == ()
    assert solve(mdp, EVaR(0.9)).plan().fears()[0].count("radius 2.3") == 1


def test_the_command_writes_a_model_that_others_read(tmp_path):
    from typer.testing import CliRunner

    from tailwise.cli.app import app

    path, out = tmp_path / "log.csv", tmp_path / "model.npz"
    rows = zip(*LOG.values(), strict=True)
    path.write_text("\n".join(",".join(map(str, row)) for row in (list(LOG), *rows)) + "\n")
    found = CliRunner().invoke(app, ["learn", str(path), "--out", str(out), "--json"])
    assert found.exit_code == 0, found.output
    assert '"episodes": 40' in found.output
    saved, model = load(out), learn_model(load_episodes(path))
    assert saved.equals(TabularMDP(**{name: getattr(model, name) for name in TabularMDP.__dataclass_fields__}))
    again = CliRunner().invoke(app, ["learn", str(path), "--out", str(out)])
    assert isinstance(again.exception, FormatError)


class Dear(Simulator):
    """Costs are exponential: no table that merges them at their means has the largest."""

    horizon, discount, sense, start = 2, 1.0, "cost", 0

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return int(rng.random() < 0.5), rng.exponential(1.0 + 0.3 * action) + 0.5 * (action == 0), False


def test_what_was_paid_beyond_a_learned_table_counts():
    rng, rows = np.random.default_rng(0), []
    for episode in range(400):
        state = 0
        for step in range(2):
            action = int(rng.integers(2))
            after, cost, _ = Dear().step(state, action, rng)
            rows.append((episode, step, state, action, after, cost))
            state = after
    names = ("episode", "step", "state", "action", "next_state", "cost")
    log = load_episodes(dict(zip(names, zip(*rows, strict=True), strict=True)))
    model = learn_model(log, horizon=2)
    policy = solve(model, CVaR(0.9), effort=0.1)
    assert policy.minds_the_past
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    dearest, followed = model.losses.max(), []
    assert any(one[-1] > dearest for one, _ in pairs)
    for one, two in pairs:
        planned = policy.act(two[2], 1, one[-1])
        assert planned == policy.act(two[2], 1, min(one[-1], dearest))
        if (policy.action, planned) == (one[3], two[3]):
            followed.append(one[-1] + two[-1])
    assert off_policy(model, policy, WorstCase(), log).value == pytest.approx(max(followed))
    assert evaluate(Dear(), policy, episodes=2000, seed=0).episodes == 2000
