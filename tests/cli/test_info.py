"""``tailwise info``: numbers for people and for programs."""

import json

import pytest
import typer
from typer.testing import CliRunner

from formats.small_files import ONE_BASED, write
from tailwise.cli.app import add
from tailwise.errors import FormatError


def run(*arguments):
    app = typer.Typer()
    add(app, "info")
    app.callback()(lambda: None)
    return CliRunner().invoke(app, ["info", *map(str, arguments)])


def test_a_table_for_people(tmp_path):
    path = write(tmp_path, model__csv=ONE_BASED)
    result = run(path, "--state", "2", "--horizon", "7")
    assert result.exit_code == 0, result.output
    lines = {line[:26].strip(): line[26:].strip() for line in result.stdout.splitlines()}
    assert lines["states"] == "3"
    assert lines["state-action pairs"] == "4"
    assert lines["outcomes"] == "7"
    assert lines["reward of a step"] == "-2 .. 3"
    assert lines["start"] == "2"
    assert lines["horizon"] == "7"
    assert "note: ids in the file count from 1" in result.stdout
    endless = run(path, "--horizon", "none").stdout
    assert "none" in next(line for line in endless.splitlines() if line.startswith("horizon"))


def test_json_is_one_object(tmp_path):
    result = run(write(tmp_path, model__csv=ONE_BASED), "--json", "--discount", "0.5")
    found = json.loads(result.stdout)
    assert (found["states"], found["actions"], found["outcomes"], found["sense"]) == (3, 2, 7, "reward")
    assert (found["lowest"], found["highest"], found["discount"], found["horizon"]) == (-2.0, 3.0, 0.5, 100)


def test_markup_in_names_is_shown_as_it_is(tmp_path):
    import tailwise

    mdp = tailwise.TabularMDP.from_outcomes([0], [0], [0], [1], [1], horizon=1, state_labels=["[bold]x[/nope]"])
    result = run(tailwise.save(mdp, tmp_path / "model.npz"))
    assert result.exit_code == 0, result.output
    assert "[bold]x[/nope]" in result.stdout


def test_a_simulator_shows_what_it_knows():
    pytest.importorskip("pyRDDLGym")
    pytest.importorskip("rddlrepository")
    result = run("rddl:Option_or/0")
    assert "simulator; numbers are rewards" in result.stdout
    assert "outcomes" not in result.stdout
    assert json.loads(run("rddl:Option_or/0", "--json").stdout)["states"] is None


def test_errors_are_ours(tmp_path):
    result = run(tmp_path / "nothing.csv")
    assert isinstance(result.exception, FormatError)


REAL = {"ruin.csv": (11, 11, 66, 111, 0, 1), "machine.csv": (10, 2, 20, 45, -20, 0)}


@pytest.mark.parametrize("name", REAL)
def test_real_files(data_folder, name):
    found = json.loads(run(data_folder / name, "--json").stdout)
    keys = ("states", "actions", "pairs", "outcomes", "lowest", "highest")
    assert tuple(found[key] for key in keys) == REAL[name]


@pytest.mark.compiled
def test_frontier_reads_its_model_once(tmp_path, monkeypatch):
    import tailwise.formats
    from tailwise.cli.app import app

    read = []
    plain = tailwise.formats.load
    monkeypatch.setattr(tailwise.formats, "load", lambda *given, **more: read.append(given) or plain(*given, **more))
    result = CliRunner().invoke(app, ["frontier", "mdp-4", "--betas", "0.1,1", "--json"])
    assert result.exit_code == 0
    assert len(read) == 1
