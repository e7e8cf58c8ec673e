"""``tailwise run``."""

import csv
import json

import pytest
from typer.testing import CliRunner

from tailwise.cli.app import app
from tailwise.errors import OptionError

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


def run(*arguments):
    found = CliRunner().invoke(app, ["run", *map(str, arguments)], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'models = ["mdp-4"]\nplanners = ["exact", {kind = "uct", label = "mean"}]\nobjectives = [{beta = 1.0}]\n'
        "episodes = 10\niterations = 20\n"
    )
    return path


def test_a_study_leaves_tables_and_a_report(study, tmp_path):
    pytest.importorskip("plotly")
    text = run(study, "--report", tmp_path / "study.html")
    assert "mdp-4: ERM at beta 1" in text
    with (tmp_path / "study" / "returns.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert {row["planner"] for row in rows} == {"exact", "mean"}
    assert "mean" in (tmp_path / "study.html").read_text()
    assert json.loads(run(study, "--json"))["rows"][0]["planner"] == "exact"


def test_parquet_holds_the_same(study, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    run(study, "--parquet", "--out", tmp_path / "other")
    table = parquet.read_table(tmp_path / "other" / "returns.parquet").to_pydict()
    assert table["episode"] == [*range(10)] * 2


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OptionError, match="there is no file"):
        run(tmp_path / "none.toml")
