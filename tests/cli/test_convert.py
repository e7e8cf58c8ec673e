"""``tailwise convert``: any model in, a table out."""

import json

import pytest
import typer
from typer.testing import CliRunner

from formats.small_files import ONE_BASED, PRISM_MODEL, write
from tailwise import Simulator
from tailwise.cli.app import add
from tailwise.errors import FormatError, ModelError
from tailwise.formats import load


def run(*arguments):
    app = typer.Typer()
    add(app, "convert")
    app.callback()(lambda: None)
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


def test_what_is_written_is_what_was_read(tmp_path):
    path = write(tmp_path, model__csv=ONE_BASED)
    for name in ("out.npz", "out.csv"):
        result = run(path, tmp_path / name, "--horizon", "9", "--state", "3")
        assert result.exit_code == 0, result.output
        assert load(tmp_path / name).equals(load(path, horizon=9, start=3))
        assert "3 states, 2 actions, 7 outcomes" in result.stdout.replace("\n", " ")


def test_json_is_one_object(tmp_path):
    result = run(write(tmp_path, model__csv=ONE_BASED), tmp_path / "out.npz", "--json")
    found = json.loads(result.stdout)
    assert (found["states"], found["outcomes"], found["bytes"]) == (
        3,
        7,
        (tmp_path / "out.npz").stat().st_size,
    )


def test_an_existing_file_is_safe(tmp_path):
    path = write(tmp_path, model__csv=ONE_BASED)
    before = path.read_bytes()
    result = run(path, path)
    assert isinstance(result.exception, FormatError)
    assert "--force" in str(result.exception)
    assert path.read_bytes() == before
    assert run(path, path, "--force").exit_code == 0
    assert load(path).state_labels == ("1", "2", "3")


def test_from_prism_with_options_in_the_specification(tmp_path):
    pytest.importorskip("stormpy")
    path = write(tmp_path, model__prism=PRISM_MODEL)
    result = run(f"{path}?constants=N=4&reward=energy&until=goal", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    assert load(tmp_path / "out.npz").equals(load(path, constants="N=4", reward="energy", until="goal"))


class Coin(Simulator):
    start, horizon = 0, 3

    def actions(self, state):
        return 1

    def step(self, state, action, rng):
        return state, float(rng.random() < 0.5), False

    def outcomes(self, state, action):
        return [(0.5, state, 0.0, False), (0.5, state, 1.0, False)]


def test_a_simulator_that_lists_its_outcomes_becomes_a_table(tmp_path, monkeypatch):
    from tailwise import domains

    domains.list_domains()  # the copy is thrown away: all domains must be in the original before
    monkeypatch.setattr(domains, "_DOMAINS", dict(domains._DOMAINS))
    domains.register("coin", "simulator")(Coin)
    result = run("coin", tmp_path / "out.csv")
    assert result.exit_code == 0, result.exception
    assert [(o.probability, o.cost) for o in load(tmp_path / "out.csv").outcomes(0, 0)] == [(0.5, 0.0), (0.5, 1.0)]


def test_other_simulators_cannot_be_converted(tmp_path):
    pytest.importorskip("pyRDDLGym")
    pytest.importorskip("rddlrepository")
    result = run("rddl:Option_or/0", tmp_path / "out.npz")
    assert isinstance(result.exception, ModelError)
    assert not (tmp_path / "out.npz").exists()


def test_a_model_whose_state_is_not_seen_has_no_table_to_save(tmp_path):
    result = run("tiger", tmp_path / "out.csv")
    assert isinstance(result.exception, ModelError)
    assert "no table that is saved says what is observed" in str(result.exception)
    assert not (tmp_path / "out.csv").exists()
