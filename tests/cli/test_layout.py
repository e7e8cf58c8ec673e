"""Tables at 40, 80 and 200 columns: whole cells, whatever is left out is named (snapshots in ``layouts``)."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailwise.cli.app import app
from tailwise.cli.output import show_table

SNAPSHOTS = Path(__file__).parent / "layouts"
COMMANDS = {
    "plan": ("plan", "grid-mdp", "--beta", "0.1", "--seed", "0", "-n", "2000", "--planner", "erm-mcts"),
    "exact": ("plan", "grid-mdp", "--beta", "0.1", "--seed", "0"),
    "bounded": ("plan", "american-put", "--beta", "0.02", "--seed", "0", "--planner", "bounded"),
    "solve": ("solve", "grid-mdp", "--beta", "0.5"),
    "evaluate": ("evaluate", "mdp-4", "--beta", "1", "--planner", "exact", "-e", "50", "--seed", "0"),
    "compare": (
        "compare", "grid-mdp", "--beta", "0.1", "-p", "exact,exact-neutral", "-e", "50", "--integrate",
    ),
    "domains": ("domains",),
    "theory": ("theory", "schedule", "--horizon", "3", "--beta", "0.1"),
}  # fmt: skip


def shown(command, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    found = CliRunner().invoke(app, list(COMMANDS[command]), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    lines = re.sub(r"\d+\.\d\d(\s+)s\b", r"0.00\1s", found.stdout).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


@pytest.mark.compiled
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("command", COMMANDS)
def test_output_is_as_it_was(command, width, monkeypatch):
    text = shown(command, width, monkeypatch)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    snapshot = SNAPSHOTS / f"{command}-{width}.txt"
    assert text == snapshot.read_text(encoding="utf-8"), f"if this is meant, write the new output to {snapshot}"


def table(width, capsys, monkeypatch, **options):
    monkeypatch.setenv("COLUMNS", str(width))
    show_table(("name", "long heading", "x"), [("one", "1", "-"), ("[two]", "2.000000", "-")], **options)
    return capsys.readouterr().out


def test_a_table_gives_up_columns_before_it_is_stacked(capsys, monkeypatch):
    everything = table(60, capsys, monkeypatch)
    assert re.search(r"│ \[two\] │ +2.000000 │ - │", everything)
    assert "x" not in table(60, capsys, monkeypatch, spare=("x",))  # nothing but dashes
    narrow = table(20, capsys, monkeypatch, spare=("long heading",))
    assert "left out at this" in narrow
    assert "2.000000" not in narrow
    assert table(20, capsys, monkeypatch).splitlines() == [
        "name one", "  long heading  1", "name [two]", "  long heading  2.00", "                0000",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["20000", "20_000", "2e4", "2E4", "20000.0"])
def test_whole_numbers_as_people_write_them(text):
    from tailwise.cli.options import whole

    assert whole(text) == 20_000
    for wrong in ("2.5", "1e-3", "ten", "", "inf", "nan"):
        with pytest.raises((ValueError, OverflowError)):
            whole(wrong)
    assert isinstance(whole("1e3"), int)
