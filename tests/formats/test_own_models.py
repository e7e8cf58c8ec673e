"""Models of one's own by name, ``python:MODULE:NAME``: what they may be, where they are found, what is refused."""

import itertools
import sys
import types
from pathlib import Path

import pytest

from conftest import random_mdp
from tailwise import domains, load, make_planner
from tailwise.errors import ModelError, OptionError, TailwiseError
from tailwise.evaluation import Study, study
from tailwise.formats import save

MODULE = """
from tailwise import Simulator


class Coin(Simulator):
    start, horizon = 0, 3

    def actions(self, state):
        return 2

    def step(self, state, action, rng):
        return state, PRICE * float(rng.random()), False


def coin(horizon=4):
    found = Coin()
    found.horizon = horizon
    return found


class Shy(Coin):
    step = None


class Policy:
    def __init__(self, model, beta=None, *, seed=None):
        pass

    def act(self, state, h):
        return 0


made, nothing, broken = Coin(), None, lambda: 1 / 0
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module that Python does not find, and in which one stands."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE.replace("PRICE", "1.0"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path, name
    sys.modules.pop(name, None)


def test_classes_functions_and_models_are_made_with_their_options(folder):
    _, name = folder
    assert (load(f"python:{name}:Coin").horizon, load(f"python:{name}:Coin").name) == (3, "Coin")
    assert load(f"python:{name}:coin").horizon == 4
    assert load(f"python:{name}:coin?horizon=6").horizon == 6
    assert load(f"python:{name}:Coin", horizon=7).horizon == 7
    assert load(f"python:{name}:made?horizon=9").horizon == 9
    assert load(f"python:{name}:made").horizon == 3  # that of others is left alone


@pytest.mark.parametrize(
    ("named", "error", "message"),
    [
        (":nothing", ModelError, "is None, and no model"),
        (":broken", ModelError, "cannot be made: ZeroDivisionError"),
        (":gone", ModelError, "has no attribute 'gone'"),
        (":Shy", ModelError, "and no model: it has no step"),
        (":made?size=3", OptionError, "is made already, and takes no option 'size'"),
        (":Coin?size=3", ModelError, "cannot be made: TypeError"),
        ("", OptionError, "must be python:MODULE:NAME"),
        ("x:y", ModelError, "No module named"),
    ],
)
def test_what_is_no_model_is_said(folder, named, error, message):
    with pytest.raises(error, match=message):
        load(f"python:{folder[1]}{named}")


def test_a_model_that_is_not_loaded_yet_is_told_how():
    with pytest.raises(ModelError, match=r"tailwise.load\('gym:CartPole-v1'\)"):
        make_planner("gym:CartPole-v1", 0.1)
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(ModelError, match="wrap it: GymnasiumSimulator"):
        make_planner(gymnasium.make("CartPole-v1"), 0.1)


def test_an_environment_of_ones_own_is_found_by_module_and_class(folder):
    pytest.importorskip("gymnasium")
    path, name = folder
    with (path / f"{name}.py").open("a") as file:
        file.write(
            "\nimport gymnasium\n\nclass Env(gymnasium.Env):\n"
            "    action_space = observation_space = gymnasium.spaces.Discrete(2)\n"
            "    def reset(self, *, seed=None, options=None):\n"
            "        super().reset(seed=seed)\n        return 0, {}\n"
            "    def step(self, action):\n        return 0, float(self.np_random.random()), False, False, {}\n"
            "\ngymnasium.register('Own-v0', entry_point=Env, max_episode_steps=5)\n"
        )
    assert load(f"python:{name}:Env?horizon=4").horizon == 4
    assert load(f"gym:{name}:Own-v0").horizon == 5
    with pytest.raises(TailwiseError, match="your own module registers: MODULE:ID"):
        load("gym:Unheard-v0")


def test_a_policy_where_a_planner_is_wanted_is_refused_before_the_work(folder):
    with pytest.raises(OptionError, match="which has no plan, advance, reset, fresh, state, step"):
        make_planner(domains.make("mdp-4"), 0.1, kind=f"{folder[1]}:Policy")


def test_studies_play_anew_what_a_changed_module_or_file_with_options_changes(folder, monkeypatch):
    path, name = folder
    save(random_mdp(1), path / "model.csv")

    def keys():
        models = [f"python:{name}:Coin", "mdp-4", "model.csv?start=1", "model.csv"]
        planners = ["uct", f"{name}:Policy"]
        return [run.key for run in Study(models=models, planners=planners, objectives={"beta": 1.0}, iterations=9).runs]

    before = keys()
    save(random_mdp(2), path / "model.csv")
    filed = keys()
    assert [a == b for a, b in zip(before, filed, strict=True)] == [True] * 4 + [False] * 4
    with (path / f"{name}.py").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(OptionError, match="has changed since it was imported: start Python anew"):
        keys()
    monkeypatch.setattr(study, "_IMPORTED", {})  # as in a process that imports it now
    assert [a == b for a, b in zip(filed, keys(), strict=True)] == [False, False, True, False] + [True, False] * 2


def test_studies_play_anew_what_a_module_beside_ones_own_changes(folder, monkeypatch):
    """However it is imported; and one that nothing imports does not matter."""
    path, name = folder
    (path / f"{name}_parts").mkdir()
    files = [f"{name}_prices.py", f"{name}_parts/__init__.py", f"{name}_parts/deep.py", "unused.py"]
    for file in files:
        (path / file).write_text("PRICE = 1.0\n")
    (path / files[1]).write_text("from . import deep\n")
    with (path / f"{name}.py").open("a") as file:
        file.write(f"import {name}_parts\n\ndef late():\n    from {name}_prices import PRICE\n")

    def key():
        monkeypatch.setattr(study, "_IMPORTED", {})  # as in a process that imports it now
        found = Study(models=[f"python:{name}:Coin"], planners=["uct"], objectives={"beta": 1.0}, iterations=9)
        return found.runs[0].key

    seen = [key()]
    for file in files:
        (path / file).write_text((path / file).read_text() + "# changed\n")
        seen.append(key())
    assert [a == b for a, b in itertools.pairwise(seen)] == [False, False, False, True]
    sys.modules.pop(f"{name}_parts", None)
    sys.modules.pop(f"{name}_parts.deep", None)


def test_what_is_named_and_never_imported_has_not_changed_since_it_was(folder):
    path, name = folder
    (path / f"{name}_late.py").write_text("PRICE = 1.0\n")
    with (path / f"{name}.py").open("a") as file:
        file.write(f"\ndef late():\n    from {name}_late import PRICE\n")

    def key():
        found = Study(models=[f"python:{name}:Coin"], planners=["uct"], objectives={"beta": 1.0}, iterations=9)
        return found.runs[0].key

    before = key()
    (path / f"{name}_late.py").write_text("PRICE = 2.0\n")
    assert key() != before


@pytest.mark.parametrize("module", ["json", "scipy.optimize", "tailwise.domains.simulators"])
def test_of_what_is_installed_the_module_alone_is_read(module):
    assert len(study._sources(module)) == 1


def test_a_modules_name_may_be_deeper_than_its_path(monkeypatch):
    made = types.ModuleType("made")
    made.__file__ = study.__file__
    monkeypatch.setattr(study, "own_module", lambda name: made)
    assert study._sources("a" + ".a" * 40) == [Path(study.__file__).resolve()]


def test_a_module_without_a_file_has_nothing_to_change(folder):
    path, _ = folder
    (path / "parts_of_nothing").mkdir()
    runs = Study(models=["python:parts_of_nothing:Coin"], planners=["uct"], objectives={"beta": 1.0}, iterations=9).runs
    assert len(runs) == 1
