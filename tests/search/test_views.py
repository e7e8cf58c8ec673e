"""The tree as people read it: living, frozen, walked and exported."""

import copy
import json
import pickle
import threading

import pytest

from tailwise import (
    CompiledSimulator,
    CvarMcts,
    ErmMcts,
    ExactPlanner,
    OffPolicyBackup,
    RangeBonus,
    Simulator,
    Widening,
    domains,
)
from tailwise.errors import OptionError, SimulatorError, StateError
from tailwise.search import views


class Walk(Simulator):
    """Rewards, names, and a random walk on letters."""

    horizon, discount, sense, start = 5, 0.9, "reward", "c"

    def actions(self, state):
        return ["left", "right"] if state != "a" else ["right"]

    def step(self, state, action, rng):
        move = (1 if action == "right" else -1) * (1 if rng.random() < 0.8 else -1)
        return "abcde"[min(max("abcde".index(state) + move, 0), 4)], float(state == "e"), False


def drift(state, action, rng):
    return state + action + rng.normal(), abs(state), False


def every_kind():
    return {
        "table": lambda seed: ErmMcts(domains.make("grid-mdp"), 0.1, seed=seed),
        "python": lambda seed: ErmMcts(Walk(), 0.5, seed=seed),
        "compiled": lambda seed: ErmMcts(
            CompiledSimulator(drift, start=0.0, horizon=4, actions=2), 0.1, seed=seed, widening=Widening()
        ),
        "rules": lambda seed: ErmMcts(
            domains.make("mdp-4"), 0.5, seed=seed, bonus=RangeBonus(), backup=OffPolicyBackup(), untried="random"
        ),
    }


@pytest.mark.parametrize("kind", every_kind())
def test_counts_add_up(kind):
    search = every_kind()[kind](1)
    plan = search.plan(iterations=400)
    nodes = list(search.root.walk())
    assert len(nodes) == plan.nodes
    assert search.root.visits == 401
    for node in nodes:
        assert node.visits == (1 if node.is_leaf else 1 + sum(action.visits for action in node.actions))
        for action in node.actions:
            assert sum(child.visits for child in action.children) <= action.visits
            for child in action.children:
                assert child.step == node.step + 1
                assert child.path == (*node.path, (action.action, child.state))
                assert action.child(child.state).visits == child.visits
    for action, row in zip(search.root.actions, plan.rows, strict=True):
        assert (action.label, action.visits, action.share) == (row.label, row.visits, row.share)
        assert action.erm == row.erm


def test_the_words_and_the_sense_are_the_models():
    search = ErmMcts(Walk(), 0.5, seed=0)
    plan = search.plan(iterations=500)
    root = search.root
    assert (root.state, root.step, root.path) == ("c", 0, ())
    assert [action.label for action in root.actions] == ["left", "right"]
    assert root.action("right").erm == plan.row("right").erm >= 0.0  # rewards, as the model has them
    child = root.action("right").child("d")
    assert child.path == (("right", "d"),)
    with pytest.raises(StateError, match="no action 'up'"):
        root.action("up")
    with pytest.raises(StateError, match="has not led to state 'z'"):
        root.action("right").child("z")
    assert "state 'c' at step 0" in str(root)


def test_walks_and_exports_are_bounded_and_say_what_they_leave_out():
    search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=0)
    search.plan(iterations=2000)
    root = search.root
    assert max(node.step for node in root.walk(max_depth=2)) == 2
    assert all(node.visits >= 10 for node in root.walk(min_visits=10))
    shallow = root.to_dict(max_depth=1, min_visits=5)
    assert json.loads(json.dumps(shallow)) == shallow
    for action, view in zip(shallow["actions"], root.actions, strict=True):
        assert len(action["children"]) + action["omitted"] == len(view.children)
        assert all(child["actions"] == [] or child["actions"][0]["children"] == [] for child in action["children"])
        if view.children and not action["omitted"]:
            assert sum(child["probability"] for child in action["children"]) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", every_kind())
def test_a_plans_tree_is_frozen(kind):
    search = every_kind()[kind](2)
    plan = search.plan(iterations=300)
    before = plan.root.to_dict()
    state = plan.root.action(plan.action).children[0].state
    search.plan(iterations=300)
    assert plan.root.to_dict() == before != search.root.to_dict()
    second = search.plan(iterations=1)
    middle = second.root.to_dict()
    search.advance(second.action, state)
    search.plan(iterations=100)
    assert plan.root.to_dict() == before
    assert second.root.to_dict() == middle
    search.reset()
    assert second.root.to_dict() == middle


def test_a_large_trees_view_is_dropped_and_says_so(monkeypatch):
    monkeypatch.setattr(views, "_MOST_BYTES", 1000)
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    plan = search.plan(iterations=50)
    assert plan.root.visits == 51
    search.plan(iterations=50)
    with pytest.raises(OptionError, match="read it before planning on"):
        plan.root.visits  # noqa: B018


def test_a_plan_travels_without_its_tree():
    plan = ErmMcts(domains.make("mdp-4"), 0.5, seed=0).plan(iterations=50)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    with pytest.raises(OptionError, match="no tree"):
        again.root  # noqa: B018


# ----------------------------------------------------------- copies and threads


@pytest.mark.parametrize("kind", every_kind())
def test_a_deep_copy_has_the_same_future_and_none_in_common(kind):
    search = every_kind()[kind](3)
    plan = search.plan(iterations=200)
    search.advance(plan.action, plan.root.action(plan.action).children[0].state)
    search.plan(iterations=50)
    other = copy.deepcopy(search)
    first = search.plan(iterations=300)
    assert [r.erm for r in other.plan(iterations=300).rows] == pytest.approx(
        [r.erm for r in first.rows], rel=0, nan_ok=True
    )
    assert other.root.to_dict() == search.root.to_dict()
    other.plan(iterations=100)
    assert search.root.visits < other.root.visits


def test_a_search_is_not_pickled_nor_copied_in_part():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    for way in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="deepcopy"):
            way(search)


def test_threads_take_turns():
    """Four threads on one search: every iteration counts, as in one thread."""
    search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=0)
    search.plan(iterations=1)
    threads = [threading.Thread(target=search.plan, args=(5000,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = ErmMcts(domains.make("grid-mdp"), 0.1, seed=0)
    alone.plan(iterations=20_001)
    assert search.root.visits == 20_002
    assert [a.erm for a in search.root.actions] == [a.erm for a in alone.root.actions]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda m: CvarMcts(m, 0.9, seed=0), marks=pytest.mark.compiled),  # interpreted, ten minutes
        lambda m: ExactPlanner(m, 0.1, seed=0),
    ],
)
def test_planners_without_a_tree_take_turns_too(make):
    """Of three threads on one planner, whoever comes next finds what the one before has left."""
    model, found = domains.make("mdp-4"), []
    together, alone = make(model), make(model)
    together.plan(iterations=64)
    threads = [threading.Thread(target=lambda: found.append(together.plan(iterations=64))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = [str(alone.plan(iterations=64).rows) for _ in range(4)]
    assert sorted(str(plan.rows) for plan in found) == sorted(wanted[1:])
    with pytest.raises(OptionError, match="at work already"):
        together.plan(iterations=64, progress=lambda done, used: together.plan(iterations=8))
    assert str(copy.deepcopy(together).plan(iterations=64).rows) == str(together.plan(iterations=64).rows)


def test_a_callback_must_not_use_the_search_that_calls_it():
    search = ErmMcts(domains.make("mdp-4"), 0.5, seed=0)
    with pytest.raises(OptionError, match="at work already"):
        search.plan(iterations=100, progress=lambda done, used: search.plan(iterations=1))
    assert search.plan(iterations=10).iterations == 10


class Fragile(Walk):
    is_broken = False

    def step(self, state, action, rng):
        if self.is_broken and rng.random() < 0.2:
            raise ValueError("no")
        return super().step(state, action, rng)


@pytest.mark.parametrize("expansion", ["leaf", "path"])
def test_what_a_failing_iteration_added_is_gone(expansion):
    def seen(node):
        taken = [action for action in node.actions if action.visits]
        return node.state, node.visits, [(a.visits, a.erm, [seen(child) for child in a.children]) for a in taken]

    model = Fragile()
    search = ErmMcts(model, 0.5, seed=0, expansion=expansion)
    search.plan(iterations=20)
    model.is_broken = True
    for _ in range(5):
        while True:  # one at a time, so that the tree before the failure is known
            before = seen(search.root)
            try:
                search.plan(iterations=1)
            except SimulatorError:
                break
        assert seen(search.root) == before
        assert len(list(search.root.walk())) == search._tree.num_nodes


def test_the_most_visited_children_come_first():
    search = ErmMcts(domains.make("grid-mdp"), 0.1, seed=0)
    search.plan(iterations=300)
    for node in search.root.walk():
        for action in node.actions:
            every = action.children
            first, others, visits = action.most_visited(1)
            assert [child.visits for child in first] == [child.visits for child in every[:1]]
            assert others == len(every[1:])
            assert visits == sum(child.visits for child in every[1:])
