"""Logs as models, and learned tables as files."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import tailwise
from tailwise import TabularMDP, learn_model, load, load_episodes, save, solve
from tailwise.cli.app import app
from tailwise.errors import FormatError
from tailwise.logs import LearnedTable, SeenPrior, TablePrior, WorstCasePrior


def history(seed=0, machines=60):
    rng, columns = np.random.default_rng(seed), {name: [] for name in ("machine", "week", "state", "action", "cost")}
    for machine in range(machines):
        worn = 0
        for week in range(4):
            service = int(rng.random() < 0.4)
            row = (machine, week, ("good", "worn")[worn], ("run", "service")[service], 3 * service + 5 * worn)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
            worn = int(rng.random() < (0.1 if service else 0.4))
    return columns


def as_csv(path, columns):
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def run(*words):
    found = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.mark.parametrize("prior", ["auto", WorstCasePrior(cost=40.0), SeenPrior(), "table"])
def test_a_saved_table_promises_what_it_promised(tmp_path, prior):
    log = load_episodes(history())
    if prior == "table":
        prior = TablePrior(
            TabularMDP.from_arrays(np.full((2, 2, 2), 0.5), np.ones((2, 2)), order="SAS", horizon=4), 7.0
        )
    model = learn_model(log, prior=prior)
    again = load(save(model, tmp_path / "model.npz"))
    assert isinstance(again, LearnedTable)
    assert again.equals(model)
    assert again.notes == model.notes
    assert again.evidence.prior.words == model.evidence.prior.words
    np.testing.assert_array_equal(again.coverage.counts, model.coverage.counts)
    one, other = (solve(table, 0.1).promise for table in (model, again))
    assert one.lines == other.lines
    np.testing.assert_array_equal(one.draws, other.draws)
    assert str(one.off_policy) == str(other.off_policy)
    assert again.evidence.episodes.notes == log.notes
    plain = load(f"npz:{tmp_path / 'model.npz'}")
    assert type(plain) is TabularMDP


def test_a_damaged_log_in_a_file_is_named(tmp_path):
    path = save(learn_model(load_episodes(history())), tmp_path / "model.npz")
    content = path.read_bytes()
    at = content.index(b"learned_losses.npy") + 400
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(FormatError):
        load(path)


def test_a_log_is_told_from_a_transition_list_by_its_columns(tmp_path):
    model = load(as_csv(tmp_path / "history.csv", history()), horizon=3)
    assert isinstance(model, LearnedTable)
    assert model.horizon == 3
    wide = "id,state_0,action_0,cost_0,state_1,action_1,cost_1\n1,a,x,1,b,y,2\n2,a,y,2,a,x,1\n"
    (tmp_path / "wide.csv").write_text(wide)
    assert isinstance(load(tmp_path / "wide.csv"), LearnedTable)
    (tmp_path / "list.csv").write_text("state,action,next_state,prob,cost\n0,0,0,1,1\n")
    assert type(load(tmp_path / "list.csv")) is TabularMDP
    renamed = {"unit": "machine", "t": "week", "wear": "state", "did": "action", "paid": "cost"}
    own = as_csv(tmp_path / "own.csv", {name: history()[meant] for name, meant in renamed.items()})
    told = load(f"log:{own}?episode=unit&step=t&state=wear&action=did&cost=paid&prior=worst")
    assert told.evidence.prior.words.startswith("the worst case")
    with pytest.raises(FormatError, match="no column for the state"):
        load(own, kind="log")
    pytest.importorskip("pyarrow")
    from pyarrow import parquet, table

    parquet.write_table(table(history()), tmp_path / "history.parquet")
    assert load(tmp_path / "history.parquet").equals(load(tmp_path / "history.csv"))


def test_every_command_takes_a_log(tmp_path):
    path = as_csv(tmp_path / "history.csv", history())
    policy = solve(load(path), 0.1)
    for words in (["--episodes"], []):
        assert run("solve", path, *words, "--beta", "0.1", "--json")["value"] == pytest.approx(policy.value)
    assert run("plan", "--episodes", path, "--beta", "0.1", "--json")["label"] == policy.plan().label
    played = run("evaluate", path, "--episodes", "20", "--beta", "0.1", "--planner", "exact", "--json")
    assert len(played["totals"]) == 20
    assert run("info", path, "--log", "--json")["states"] == 2
    assert run("beta", path, "--episodes", "--level", "0.9", "--json")["beta"] > 0.0
    out = tmp_path / "model.npz"
    CliRunner().invoke(app, ["convert", str(path), str(out)], catch_exceptions=False)
    assert solve(load(out), 0.1).promise.value == pytest.approx(policy.value)
    assert tailwise.frontier(load(out)).exact
