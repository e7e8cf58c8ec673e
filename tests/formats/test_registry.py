"""Formats of one's own: registered by one call, known to load, save, specifications and other packages."""

import sys

import pytest

from conftest import random_mdp
from formats.small_files import write
from tailwise import Simulator
from tailwise.errors import OptionError, UnknownNameError
from tailwise.formats import list_formats, load, register_format, registry, save

COIN = '''
"""A module of somebody else: bets on a coin, one number a line."""
from pathlib import Path
from tailwise import TabularMDP
from tailwise.formats import register_format

def read_bets(path: Path, *, chance=0.5):
    """Bets on a coin, one a line."""
    bets = [float(line) for line in path.read_text().split()]
    count = len(bets)
    return TabularMDP.from_outcomes(
        [0] * 2 * count, [*range(count)] * 2, [0] * 2 * count, [chance] * count + [1 - chance] * count,
        [*bets, *(-bet for bet in bets)], horizon=7,
    )

def write_bets(mdp, path):
    path.write_text("".join(f"{mdp.outcomes(0, int(a))[0].cost}\\n" for a in mdp.actions(0)))

register_format("bets", read_bets, extensions=(".bets", ".bets.txt"), write=write_bets)
'''


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    list_formats()
    monkeypatch.setattr(registry, "_FORMATS", dict(registry._FORMATS))


@pytest.fixture
def bets(tmp_path):
    exec(compile(COIN, "bets", "exec"), {})
    return write(tmp_path, day__bets="1\n2.5\n")


def test_a_format_of_ones_own_is_loaded_by_extension_name_and_options(bets):
    mdp = load(bets)
    assert (mdp.horizon, mdp.num_actions, mdp.outcomes(0, 1)[0].cost) == (7, 2, 2.5)
    assert load(bets, horizon=3, discount=0.5).horizon == 3  # applied to what it returns
    assert load(f"{bets}?chance=0.25&horizon=4").outcomes(0, 0)[0].probability == 0.25
    copy = bets.rename(bets.with_name("day.txt"))
    assert load(f"bets:{copy}").equals(mdp)
    assert load(copy, kind="bets").equals(mdp)
    assert load(copy.rename(copy.with_name("day.bets.txt"))).equals(mdp)
    with pytest.raises(OptionError, match="unknown option 'base'; bets files take horizon, discount, start, chance"):
        load(copy.with_name("day.bets.txt"), base=1)


def test_it_saves_where_it_can_write(tmp_path, bets):
    assert load(save(load(bets), tmp_path / "copy.bets")).equals(load(bets))
    with pytest.raises(UnknownNameError, match="tables are saved as"):
        save(load(bets), tmp_path / "copy.nm")


def test_names_instead_of_files_and_simulators(monkeypatch):
    class Walk(Simulator):
        start, horizon = 0, 4

        def actions(self, state):
            return 2

        def step(self, state, action, rng):
            return state + action, 1.0, False

    register_format("walk", lambda target, *, speed=1: Walk(), is_file=False)
    assert load("walk:north?speed=2&horizon=9").horizon == 9
    register_format("any", lambda target, **options: (target, options), is_file=False)
    assert load("any:x?a=1&start=3", discount=0.5) == ("x", {"a": 1, "start": "3", "discount": 0.5})


def test_a_later_one_replaces_an_earlier_one_and_unknown_endings_are_listed(tmp_path, bets):
    register_format("bets", lambda path: random_mdp(0), extensions=(".bets",))
    assert load(bets).equals(random_mdp(0))
    with pytest.raises(UnknownNameError, match=r"expected a file \(.*\.bets.*\), .*gym:NAME, .*FORMAT:PATH"):
        load(write(tmp_path, day__unknown="1"))


@pytest.mark.parametrize(("name", "extension"), [("x", ".x"), ("a b", ".x"), ("fine", "x"), ("fine", ".")])
def test_what_cannot_be_a_name_or_an_extension(name, extension):
    with pytest.raises(OptionError, match="must"):
        register_format(name, lambda path: None, extensions=(extension,))


def test_formats_of_installed_packages_are_found(tmp_path, monkeypatch):
    """By an entry point that names the module; what a user registered before wins, and hides no other."""
    (tmp_path / "bets_of_others.py").write_text(COIN)
    monkeypatch.syspath_prepend(tmp_path)

    class Point:
        def load(self):
            __import__("bets_of_others")

    monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: [Point()])
    for module in [name for name in sys.modules if name.startswith("tailwise.formats.kinds")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(registry, "_FORMATS", {})
    for name in ("npz", "tra", "csv"):
        register_format(name, lambda path: random_mdp(1), extensions=(f".{name}",))
    assert {"bets", "umb", "prism"} <= {item.name for item in list_formats()}
    assert load(save_by_hand(tmp_path)).equals(random_mdp(1))
    found = next(item for item in list_formats() if item.name == "excel")
    assert found.summary == "Transition list, first sheet of an Excel workbook (openpyxl)."


def save_by_hand(tmp_path):
    path = tmp_path / "any.npz"
    path.write_bytes(b"")
    return path


def test_every_built_in_format_says_what_it_is():
    assert all(item.summary and len(item.summary) < 90 and "partial" not in item.summary for item in list_formats())
    assert {item.name for item in list_formats() if item.write} == {"csv", "arrow", "parquet", "npz"}
