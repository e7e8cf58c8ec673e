"""Plots for notebooks, and what results show of themselves there."""

import json

import numpy as np
import pytest

from tailwise import (
    BoundedRtdp,
    ErmMcts,
    Simulator,
    TabularMDP,
    backward_induction,
    check_model,
    check_simulator,
    domains,
    evaluate,
    frontier,
    make_planner,
)
from tailwise.errors import OptionError
from tailwise.evaluation import compare
from tailwise.exact import return_distribution
from tailwise.exact.reachability import reached_by
from tailwise.report import recorded_plan
from tailwise.report.policy_charts import policy_chart

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted
pytest.importorskip("plotly", reason="plotly is not installed: no plots")
from tailwise.report import plots  # noqa: E402

BAD = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def grid():
    mdp = domains.make("grid-mdp")
    return mdp, backward_induction(mdp, 0.1)


def test_a_distribution_has_all_the_probability(grid):
    mdp, solution = grid
    law = return_distribution(mdp, solution)
    shown = plots.distribution({"one": law, "two": evaluate(mdp, solution, episodes=50, seed=0)}, beta=0.1)
    bars = [trace for trace in shown.data if trace.type == "bar"]
    for axis in ("y", "y2"):
        assert sum(np.sum(bar.y) for bar in bars if (bar.yaxis or "y") == axis) == pytest.approx(1.0)
    tail = sum(np.sum(bar.y) for bar in bars if (bar.yaxis or "y") == "y" and bar.name == "worst cases")
    assert tail == pytest.approx(law.exceedance(law.var(0.95)))
    (erm,) = {trace.x[0] for trace in shown.data if trace.name == "ERM at beta 0.1" and (trace.yaxis or "y") == "y"}
    assert erm == pytest.approx(solution.value)


@pytest.mark.parametrize("sense", ["cost", "reward"])
def test_an_exceedance_is_that_of_the_law(sense):
    amounts = {f"{sense}s": [[0.0, 1.0], [2.0, 4.0]]}
    mdp = TabularMDP.from_arrays([[[0.5, 0.5]] * 2, [[0.9, 0.1]] * 2], order="SAS", horizon=4, **amounts)
    law = return_distribution(mdp, backward_induction(mdp, 0.1))
    (curve,) = plots.exceedance(law).data
    worse = {float(x): float(y) for x, y in zip(curve.x, curve.y, strict=True)}
    inner = law.costs[1:-1]
    assert inner.size
    for total in inner:
        assert worse[float(total)] == pytest.approx(law.exceedance(float(total)))


def test_the_walls_of_a_grid_are_walls(grid):
    mdp, solution = grid
    walls, cells = policy_chart(solution).traces
    assert np.argwhere(np.isfinite(walls["z"])).tolist() == [[1, 1], [2, 1], [3, 1]]
    assert cells["z"][4, 0] == solution.value
    assert not reached_by(mdp, np.ones(mdp.num_rows, bool))[mdp.find_state("(2,1)")]
    assert "pit: 69.971" in policy_chart(solution).caption


def test_other_states_are_rows():
    solution = backward_induction(domains.make("mdp-4"), 0.5)
    chart = policy_chart(solution)
    (trace,) = chart.traces
    assert trace["y"] == ["s0", "s1", "s2", "s3"]
    assert trace["colorbar"]["ticktext"] == ["risky", "safe"]
    assert (trace["z"] == solution.policy.T).all()
    with pytest.raises(LookupError):
        plots.policy(solution, step=20)


def test_every_plot_is_a_figure(grid):
    mdp, solution = grid
    plan = recorded_plan(ErmMcts(mdp, 0.1, seed=0), iterations=200)
    figures = [
        plots.distribution(plan), plots.exceedance(plan), plots.convergence(plan), plots.tree(plan),
        plots.tree(plan.root, most=50), plots.tree(solution), plots.policy(solution),
        plots.frontier(frontier(mdp, [0.0, 0.05])),
    ]  # fmt: skip
    for figure in figures:
        content = json.dumps(json.loads(figure.to_json()))
        assert '"@' not in content  # all colours are set
        assert figure.data


def test_what_cannot_be_drawn_says_why(grid):
    mdp, _ = grid
    plan = ErmMcts(mdp, 0.1, seed=0).plan(iterations=20)
    with pytest.raises(OptionError, match="recorded_plan"):
        plots.convergence(plan)
    with pytest.raises(OptionError, match="has no tree"):
        plots.tree(make_planner(mdp, 0.1, kind="exact").plan(iterations=4))
    with pytest.raises(OptionError, match="not of int"):
        plots.distribution(3)
    with pytest.raises(OptionError, match="is empty"):
        plots.distribution({})


class Odd(Simulator):
    horizon = 2
    start = 0

    def actions(self, state):
        return 1

    def step(self, state, action, rng):
        return 0, float("nan"), False


def test_results_show_themselves_as_tables_of_text():
    mdp = TabularMDP.from_arrays(
        [[[0.5, 0.5]] * 2, [[0.9, 0.1]] * 2], costs=[[0.0, 1.0], [2.0, 4.0]], order="SAS", horizon=3, name=BAD,
        action_labels=(BAD, "*b*"), state_labels=(BAD, "two"),
    )  # fmt: skip
    solution = backward_induction(mdp, 0.5)
    returns = evaluate(mdp, solution, episodes=20, seed=0, label=BAD)
    faults = check_simulator(Odd())
    assert not faults.ok
    results = [
        ErmMcts(mdp, 0.5, seed=0).plan(iterations=50), make_planner(mdp, 0.5, kind="acc-mcts", seed=0).plan(50),
        solution, returns, compare(returns, returns, 0.5, resamples=100), frontier(mdp, [0.0, 0.5]), mdp,
        check_model(mdp), faults,
    ]  # fmt: skip
    for result in results:
        text = result._repr_html_()
        assert "<script" not in text
        assert text.startswith("<div>")
        assert ("&lt;script&gt;" in text) == (result is not faults)
    assert "*b*" in results[0]._repr_html_()
    bounded = BoundedRtdp(mdp, 0.5, seed=0).plan(iterations=1)
    assert "ERM is in" in bounded._repr_html_()
    row = bounded.rows[0]
    assert f"{row.lower:.5g} to {row.upper:.5g}" in bounded._repr_html_()  # and not the middle of its bounds
    assert results[-1].violations[0].where in results[-1]._repr_html_()
