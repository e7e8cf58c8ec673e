"""Plans in files: everything but the tree comes back. Damaged plans and searches are refused."""

import dataclasses
import json
from typing import NamedTuple

import numpy as np
import pytest

from tailwise import (
    AccMcts,
    BoundedRtdp,
    ErmMcts,
    LearnedModelSearch,
    Simulator,
    domains,
    load_plan,
    load_search,
    make_planner,
)
from tailwise.errors import FormatError, OptionError

FOUR = domains.make("mdp-4")
PLANS = {
    "tree": lambda: ErmMcts(FOUR, 0.5, seed=0),
    "utility": lambda: AccMcts(FOUR, 0.5, seed=0),
    "learned": lambda: LearnedModelSearch(FOUR, 0.5, seed=0),
    "bounded": lambda: BoundedRtdp(FOUR, 0.5, seed=0),
    "exact": lambda: make_planner(FOUR, 0.5, seed=0),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_loaded_plan_says_what_it_said(name, tmp_path):
    plan = PLANS[name]().plan(iterations=200)
    path = plan.save(tmp_path / "it.plan")
    again = load_plan(path)
    assert type(again) is type(plan)
    assert again == plan
    assert str(again) == str(plan)
    assert json.dumps(again.to_dict()) == json.dumps(plan.to_dict())
    assert again.row(again.label) == plan.row(plan.label)
    for row in plan.rows:
        expected = plan.samples(row.action) if name != "bounded" else np.empty(0)
        np.testing.assert_array_equal(again.samples(row.action), expected)
    with pytest.raises(OptionError, match="this plan has no tree"):
        _ = again.root
    assert again.save(tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("iterations", [1, 3])
def test_what_is_not_known_yet_comes_back_as_such(name, iterations, tmp_path):
    plan = PLANS[name]().plan(iterations=iterations)
    assert load_plan(plan.save(tmp_path / "it.plan")) == plan


class Cell(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass(frozen=True)
class Ship:
    place: Cell


class Sea(Simulator):
    horizon, start = 3, Ship(Cell(1, 2))

    def actions(self, state):
        return [("go", 1), ("stay", 0)]

    def step(self, state, action, rng):
        return Ship(Cell(state.place.x + action[1], 2)), rng.random(), False


def test_states_of_a_models_own_classes_come_back_plain(tmp_path):
    plan = ErmMcts(Sea(), 0.5, seed=0).plan(iterations=50)
    again = load_plan(plan.save(tmp_path / "it"))
    assert again.to_dict() == plan.to_dict()
    assert again.state == {"place": [1, 2]}
    assert again.rows == plan.rows
    assert again.action == plan.action
    mine = dataclasses.replace(plan, state=Cell(1, 2))
    assert load_plan(mine.save(tmp_path / "it")) == mine


def damaged(whole, stride):
    for place in range(0, len(whole), stride):
        yield whole[:place]
        yield whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]


def test_damaged_and_foreign_plans_are_refused(tmp_path):
    search = ErmMcts(FOUR, 0.5, seed=0)
    path = search.plan(iterations=20).save(tmp_path / "it.plan")
    whole = path.read_bytes()
    for content in damaged(whole, 37):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"it\.plan: "):
            load_plan(path)
    with pytest.raises(FormatError, match="it holds a search; expected a plan"):
        load_plan(search.save(tmp_path / "it.search"))
    path.write_bytes(whole)
    with pytest.raises(FormatError, match="it holds a plan; expected a search"):
        load_search(path, FOUR)


def test_damaged_searches_are_refused_and_left_alone(tmp_path):
    search = ErmMcts(FOUR, 0.5, seed=0)
    search.plan(iterations=3)
    path = search.save(tmp_path / "it.search")
    for content in damaged(path.read_bytes(), 61):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"it\.search: "):
            load_search(path, FOUR)
        with pytest.raises(FormatError, match=r"it\.search: "):
            ErmMcts(FOUR, 0.5, seed=0).plan(iterations=3, checkpoint=path)
        assert path.read_bytes() == content
