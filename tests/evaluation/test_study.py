"""Studies: what is there is kept, what cannot be is said first, and pairs meet the same luck."""

import pytest

from conftest import random_mdp
from tailwise import domains, evaluate, make_planner
from tailwise.errors import OptionError, TailwiseError
from tailwise.evaluation import Study, compare, load_study
from tailwise.formats import save

SMALL = {"models": "mdp-4", "objectives": {"beta": 1.0}, "iterations": 20, "episodes": 12}


@pytest.mark.compiled  # interpreted, two minutes
def test_rows_are_what_evaluate_and_compare_say(tmp_path):
    found = Study(**SMALL, planners=["exact", "uct"], seeds=2).run(tmp_path)
    mdp, samples = domains.make("mdp-4"), []
    for kind in ("exact", "uct"):
        planner = make_planner(mdp, 1.0, kind=kind)
        player, work = (planner.fixed_policy, {}) if kind == "exact" else (planner, {"iterations": 20})
        samples.append([evaluate(mdp, player, episodes=12, seed=seed, **work) for seed in (0, 1)])
    columns = found.episode_columns()
    assert columns["total"] == [total for seeds in samples for one in seeds for total in one.costs]
    assert columns["seed"] == [0] * 12 + [1] * 12 + [0] * 12 + [1] * 12
    ((run, objective, parts),) = found.groups
    assert (run.kind, objective.beta, found.rows[0]["difference"]) == ("exact", 1.0, 0.0)
    versus = compare(parts[1][0], parts[0][0], 1.0)
    row = found.rows[1]
    assert (row["difference"], row["difference_low"]) == (versus.difference, versus.interval.low)
    assert row["mean"] == pytest.approx(parts[1][0].costs.mean(), rel=1e-12)


def test_a_study_goes_on_where_it_was_killed(tmp_path):
    study = Study(**SMALL, planners=["exact", "uct"], seeds=2)
    first = study.run(tmp_path).episode_columns()
    files = sorted((tmp_path / "runs").iterdir())
    kept = {path: path.stat().st_mtime_ns for path in files[1:]}
    files[0].unlink()
    counts = []
    assert study.run(tmp_path, progress=lambda done, of: counts.append((done, of))).episode_columns() == first
    assert {path: path.stat().st_mtime_ns for path in files[1:]} == kept
    assert counts[-1] == (4, 4)


def test_a_changed_model_is_played_anew(tmp_path):
    path = save(random_mdp(1), tmp_path / "model.csv")
    wanted = {**SMALL, "models": {"model": str(path), "horizon": 3}, "planners": "exact"}
    before = Study(**wanted).run(tmp_path / "out").rows
    save(random_mdp(2), path)
    assert Study(**wanted).run(tmp_path / "out").rows[0]["value"] != before[0]["value"]


def test_processes_do_not_change_the_results(tmp_path):
    study = Study(**SMALL, planners="exact", seeds=2)
    apart = study.run(tmp_path / "a", processes=2).episode_columns()
    assert apart == study.run(tmp_path / "b").episode_columns()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"planners": "nothing"}, "nothing"), ({"planners": ["uct", "uct"]}, "give each a label"),
        ({"planners": [{"bonus": 1.0}]}, "no table with kind"), ({"models": []}, "models is empty"),
        ({"objectives": {"beta": 1.0, "cvar": 0.9}}, "give one objective"), ({"objectives": ["beta"]}, "is no table"),
        ({"objectives": {"gamma": 1.0}}, "gamma is no objective"), ({"episodes": 0}, "episodes"),
        ({"seeds": 0}, "seeds"), ({"seeds": 1.5}, "seeds"), ({"models": 3}, "must be a list"),
        ({"planners": [{"kind": "uct", "bonus": {"a": 1}}]}, "is a table"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(wrong, said):
    with pytest.raises(TailwiseError, match=said):
        Study(**{**SMALL, "planners": "uct", **wrong})


def test_what_cannot_be_planned_is_said_before_anything_is_played(tmp_path):
    study = Study(**{**SMALL, "objectives": [{"beta": 1.0}, {"cvar": 0.9}]}, planners="uct")
    with pytest.raises(OptionError, match="does not pursue"):
        study.run(tmp_path)
    assert not list(tmp_path.iterdir())  # not even a folder


def test_a_file_says_what_it_lacks_and_has_too_much(tmp_path):
    path = tmp_path / "mine.toml"
    for text, said in (("a = ", "is no TOML"), ("plans = 1", "'plans' is none of"), ("models = 'mdp-4'", "is missing")):
        path.write_text(text)
        with pytest.raises(OptionError, match=said):
            load_study(path)
    path.write_text("models = 'mdp-4'\nplanners = ['exact']\nobjectives = [{beta = 0.5}]\nseeds = [3, 5]\n")
    study, out = load_study(path)
    assert [run.seed for run in study.runs] == [3, 5]
    assert out == tmp_path / "mine"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))  # as Windows may write it
    assert load_study(path)[1] == out
