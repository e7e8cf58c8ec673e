"""Moving the root below a large tree: nothing is copied; what is left behind is freed bit by bit, and used again."""

import copy

import numpy as np
import pytest

from tailwise import ErmMcts, Simulator, domains, load_search
from tailwise.search import arena as units
from tailwise.search import tree as trees


class Ragged(Simulator):
    """States with one to four actions, some of which end the episode."""

    horizon, start = 7, (0, 1)

    def actions(self, state):
        return 1 + state[0] % 4

    def step(self, state, action, rng):
        place = (3 * state[0] + action + int(rng.integers(3))) % 11
        return (place, state[1]), float((place * 7 + action) % 5), place == 10


def models():
    return {"table": domains.make("grid-mdp"), "python": Ragged()}


def searches(monkeypatch, model, **options):
    """The same search twice: the first copies what it keeps, the second never does."""
    for most in (2**30, 0):
        monkeypatch.setattr(trees, "_MOST_COPIED", most)
        search = ErmMcts(model, 0.2, seed=4, **options)
        search.plan(iterations=400)
        yield search


def episode(search, steps=4, iterations=300):
    """Plan and move on, to the state seen most; yield each plan."""
    for _ in range(steps):
        action = max(search.root.actions, key=lambda one: one.visits)
        search.advance(action.action, action.children[0].state)
        yield search.plan(iterations=iterations)


def units_of(search):
    """The units of an arena by what they are: in the tree, dead, a free leaf, a free node."""
    arena = search._tree.arena
    ints, counters = arena.ints, arena.counters
    found = {"tree": [], "dead": [], "leaf": [], "node": []}
    pending, dead = [int(counters[units.ROOT])], []
    at = int(counters[units.DEAD])
    while at:
        dead.append(at)
        at = int(ints[4 * at])
    for kind, waiting in (("tree", pending), ("dead", dead)):
        while waiting:
            unit = waiting.pop()
            size = 1 + int(ints[4 * unit + units.NUM_ACTIONS])
            found[kind] += range(unit, unit + size)
            links = [4 * unit + units.LEFT, 4 * unit + units.RIGHT]
            links += [4 * action + units.CHILD for action in range(unit + 1, unit + size)]
            waiting += [int(ints[link]) for link in links if ints[link]]
    for kind, head in (("leaf", units.FREE_LEAF), ("node", units.FREE_NODE)):
        at = int(counters[head])
        while at:
            size = 1 if kind == "leaf" else 1 + int(ints[4 * at + units.NUM_ACTIONS])
            found[kind] += range(at, at + size)
            at = int(ints[4 * at + units.LEFT])
    return found, int(counters[units.USED])


@pytest.mark.parametrize("name", models())
def test_a_tree_that_stays_where_it_is_grows_as_one_that_is_copied(name, monkeypatch):
    moved, stayed = searches(monkeypatch, models()[name])
    monkeypatch.setattr(trees, "_MOST_COPIED", 2**30)
    expected = [(plan.rows, plan.value, plan.simulator_steps) for plan in episode(moved)]
    monkeypatch.setattr(trees, "_MOST_COPIED", 0)
    assert repr([(plan.rows, plan.value, plan.simulator_steps) for plan in episode(stayed)]) == repr(expected)
    assert stayed.root.to_dict() == moved.root.to_dict()


@pytest.mark.parametrize("name", models())
def test_every_unit_is_in_the_tree_or_waits_to_be_used_again(name, monkeypatch):
    _, search = searches(monkeypatch, models()[name])
    for _ in episode(search, iterations=40):
        found, used = units_of(search)
        everything = sorted(unit for kind in found.values() for unit in kind)
        if name == "table":
            assert everything == list(range(1, used))
        else:
            assert len(set(everything)) == len(everything) <= used - 1
    search._tree.sweep()
    found, _ = units_of(search)
    assert not found["dead"]
    assert search._tree.num_nodes == len(list(search.root.walk()))


def test_memory_is_used_again(monkeypatch):
    _, search = searches(monkeypatch, models()["table"])
    largest = used = 0
    for _ in episode(search, steps=10):
        found, used = units_of(search)
        largest = max(largest, len(found["tree"]))
    assert used <= 1.1 * largest < 0.5 * 10 * 300 * 5


@pytest.mark.parametrize("limit", [{"max_nodes": 300}, {"max_memory": 40_000}])
def test_what_is_left_behind_makes_room_within_a_limit(limit, monkeypatch):
    _, search = searches(monkeypatch, models()["python"], **limit)
    for plan in episode(search):
        assert plan.iterations > 0
        assert plan.nodes <= limit.get("max_nodes", plan.nodes)
        assert plan.bytes <= limit.get("max_memory", plan.bytes)


def test_a_plan_shows_its_tree_after_the_root_has_moved(monkeypatch):
    _, search = searches(monkeypatch, models()["python"])
    plan = search.plan(iterations=1)
    before = plan.root.to_dict()
    for _ in episode(search, steps=2):
        assert plan.root.to_dict() == before


def test_two_moves_without_a_plan_between(monkeypatch):
    moved, stayed = searches(monkeypatch, models()["table"])
    found = []
    for search, most in ((moved, 2**30), (stayed, 0)):
        monkeypatch.setattr(trees, "_MOST_COPIED", most)
        first = search.root.actions[0]
        search.advance(first.action, first.children[0].state)
        second = max(search.root.actions, key=lambda one: one.visits)
        search.advance(second.action, second.children[0].state)
        search.plan(iterations=300)
        found.append(search.root.to_dict())
    assert found[0] == found[1]


def test_copies_and_files_between_a_move_and_a_plan(monkeypatch, tmp_path):
    model = models()["table"]
    _, search = searches(monkeypatch, model)
    first = search.root.actions[0]
    search.advance(first.action, first.children[0].state)
    others = [copy.deepcopy(search), load_search(search.save(tmp_path / "search.tws"), model)]
    search.plan(iterations=200)
    for other in others:
        other.plan(iterations=200)
        assert other.root.to_dict() == search.root.to_dict()
        np.testing.assert_array_equal(other._tree.arena.counters, search._tree.arena.counters)


def test_only_the_tree_below_the_root_is_listed_after_a_move(monkeypatch):
    found = []
    for search in searches(monkeypatch, models()["python"]):
        for action in search.root.actions:
            for child in action.children:
                moved = copy.deepcopy(search)
                moved.advance(action.action, child.state)
                found.append((action.action, child.state, sorted(moved._tree.handles().tolist())))
    half = len(found) // 2
    assert half > 2
    assert found[:half] == found[half:]
