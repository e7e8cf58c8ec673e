"""A search that is loaded goes on as the one that was saved: bit for bit, in another process too."""

import copy
import dataclasses
import enum
import functools
import math
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from tailwise import (
    AccMcts,
    BellmanBackup,
    BoundedRtdp,
    CompiledSimulator,
    CvarMcts,
    ErmMcts,
    LearnedModelSearch,
    NluMcts,
    RangeBonus,
    SearchOptions,
    Simulator,
    TreeSearch,
    Uct,
    Widening,
    domains,
    load_plan,
    load_search,
    make_planner,
)
from tailwise.bonuses import PolynomialBonus
from tailwise.errors import FormatError, ModelError, OptionError, SimulatorError
from tailwise.planners import HistoryMcts
from tailwise.reproduction.variants import SlippedAccMcts

GRID, FOUR = domains.make("grid-mdp"), domains.make("mdp-4")


def shop_step(stock, order, rng):
    left = stock + order - rng.poisson(2.0)
    return min(max(left, 0), 9), order + 4.0 * max(-left, 0) + 0.5 * max(left, 0), False


SHOP = CompiledSimulator(shop_step, start=3, horizon=8, actions=5)


class Place(NamedTuple):
    x: int
    y: float


class Kind(enum.Enum):
    DRY = "dry"
    WET = "wet"


@dataclasses.dataclass(frozen=True)
class Weather:
    place: Place
    kind: Kind
    seen: frozenset = frozenset()


class Walk(Simulator):
    """Its states are whatever ``wrap`` makes of an int."""

    horizon, discount, sense = 8, 0.95, "reward"

    def __init__(self, wrap, unwrap):
        self.wrap, self.unwrap, self.start = wrap, unwrap, wrap(3)

    def actions(self, state):
        return 4 if self.unwrap(state) % 2 else 2

    def step(self, state, action, rng):
        left = self.unwrap(state) + action - int(rng.integers(4, dtype=np.uint32))  # half a word of the stream
        return self.wrap(max(0, min(left, 6))), -1.5 * abs(left - 2), left > 8

    def outcomes(self, state, action):
        found = []
        for luck in range(4):
            left = self.unwrap(state) + action - luck
            found.append((0.25, self.wrap(max(0, min(left, 6))), -1.5 * abs(left - 2), left > 8))
        return found

    def terminal_cost(self, state):
        return float(self.unwrap(state))


WRAPS = {
    "int": (lambda k: k, lambda state: state),
    "tuple": (lambda k: (k, -0.5, "a\ud800", None, True, b"\0", frozenset([k])), lambda state: state[0]),
    "numpy": (lambda k: (np.int32(k), np.float64(0.1)), lambda state: int(state[0])),
    "named": (lambda k: Place(k, 0.1), lambda state: state.x),
    "dataclass": (lambda k: Weather(Place(k, 1e-300), Kind.WET), lambda state: state.place.x),
}


def walk(name="int"):
    return Walk(*WRAPS[name])


def square(total):
    return total * total


def lowest(state, h, rng):
    return 0


def likely(state, h):
    return 0


SEARCHES = {
    "erm": lambda: ErmMcts(GRID, 0.1, seed=3),
    "auto": lambda: ErmMcts(GRID, 0.1, seed=3, preset="auto"),
    "bellman": lambda: ErmMcts(GRID, 0.1, seed=3, backup=BellmanBackup(), bonus=RangeBonus(), max_memory=200_000),
    "three trees": lambda: ErmMcts(GRID, 0.1, seed=3, preset="auto", max_nodes=1200),
    "uct": lambda: Uct(FOUR, seed=3, recommend="value", max_nodes=700),
    "acc": lambda: AccMcts(FOUR, 0.1, seed=3),
    "nlu": lambda: NluMcts(GRID, square, seed=3),
    "acc of a simulator": lambda: AccMcts(walk(), 0.1, seed=3),
    "compiled": lambda: ErmMcts(SHOP, 0.2, seed=0, widening=Widening(k=2.0, alpha=0.3)),
    "python": lambda: ErmMcts(walk(), 0.2, seed=0),
    "widened": lambda: ErmMcts(walk("tuple"), 0.2, seed=0, widening=Widening(), rollout_policy=lowest),
    "learned": lambda: LearnedModelSearch(GRID, 0.1, seed=3),
    "learned python": lambda: LearnedModelSearch(walk(), 0.2, seed=3, widening=Widening()),
    "with a prior": lambda: ErmMcts(GRID, 0.1, seed=3, preset="auto", prior_policy=likely),
    "acc with a prior": lambda: AccMcts(FOUR, 0.1, seed=3, prior_policy=likely),
    "learned with a prior": lambda: LearnedModelSearch(walk(), 0.2, seed=3, prior_policy=likely),
    "bounded": lambda: BoundedRtdp(GRID, 0.1, seed=3),
    "bounded python": lambda: BoundedRtdp(walk("named"), 0.1, seed=3, width=0.0),
}
NEEDS = {"nlu": {"utility": square}, "widened": {"rollout_policy": lowest}}
NEEDS |= {name: {"prior_policy": likely} for name in SEARCHES if "prior" in name}
SOME = 300


def model_of(search):
    return search.problem


def moved(search, threads=1):
    """Search, and take a step that its model can take."""
    plan = search.plan(iterations=SOME, threads=threads)
    if isinstance(search, AccMcts | NluMcts):
        inner = model_of(search)
        rng = np.random.default_rng(0)
        state, cost, _ = inner.step(search.state, plan.action, rng)
        search.advance(plan.action, state, cost=cost)
    else:
        rng = np.random.default_rng(0)
        search.advance(plan.action, search.model.step(search.state, plan.action, rng)[0])
    return search


@pytest.mark.compiled
@pytest.mark.parametrize("name", SEARCHES)
def test_a_loaded_search_goes_on_to_the_bit(name, tmp_path):
    threads = 3 if name == "three trees" else 1
    search = moved(SEARCHES[name](), threads)
    search.plan(iterations=SOME // 3)
    again = load_search(search.save(tmp_path / "one"), model_of(search), **NEEDS.get(name, {}))
    assert type(again) is type(search)
    assert (again.state, again.step, again._seed_text) == (search.state, search.step, search._seed_text)
    assert again.save(tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()
    more = {
        "iterations": SOME,
        "threads": threads + 1 if threads > 1 else 1,
    }  # a further tree has the seed it would have
    found, expected = again.plan(**more), search.plan(**more)
    assert dataclasses.replace(found, seconds=0.0) == dataclasses.replace(expected, seconds=0.0)
    assert again.save(tmp_path / "two").read_bytes() == search.save(tmp_path / "one").read_bytes()
    if search.step + 1 < search.model.horizon and not isinstance(search, AccMcts | NluMcts):
        target = search.model.step(search.state, expected.action, np.random.default_rng(1))[0]
        for one in (search, again):
            one.advance(expected.action, target)
        found, expected = again.plan(iterations=SOME), search.plan(iterations=SOME)
        assert dataclasses.replace(found, seconds=0.0) == dataclasses.replace(expected, seconds=0.0)


@pytest.mark.compiled
@pytest.mark.parametrize("name", SEARCHES)
def test_where_a_call_is_cut_does_not_matter(name, tmp_path):
    """Neither for what is found nor for a byte of the file, whatever the sizes of the pieces."""
    limits = {"iterations": 3 * SOME, "threads": 2 if name == "three trees" else 1}
    expected = SEARCHES[name]().plan(**limits, checkpoint=tmp_path / "whole")
    asked = iter([False] * 2 + [True] * 3)
    SEARCHES[name]().plan(**limits, checkpoint=tmp_path / "part", every=0.0, until=lambda plan: next(asked))
    found = SEARCHES[name]().plan(**limits, checkpoint=tmp_path / "part", every=0.0)
    assert dataclasses.replace(found, seconds=0.0) == dataclasses.replace(expected, seconds=0.0)
    assert (tmp_path / "part").read_bytes() == (tmp_path / "whole").read_bytes()
    plain = SEARCHES[name]()
    plain.plan(**limits)
    again = load_search(tmp_path / "part", model_of(plain), **NEEDS.get(name, {}))
    assert again.save(tmp_path / "part").read_bytes() == plain.save(tmp_path / "plain").read_bytes()


@pytest.mark.parametrize("name", WRAPS)
def test_states_come_back_the_same(name, tmp_path):
    search = ErmMcts(walk(name), 0.2, seed=0)
    search.plan(iterations=60)
    again = load_search(search.save(tmp_path / "it"), walk(name))
    before, after = search._binding._known.states, again._binding._known.states
    assert after == before
    assert [repr(state) for state in after] == [repr(state) for state in before]


class Odd:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return isinstance(other, Odd) and self.k == other.k

    def __hash__(self):
        return hash(self.k)

    def __repr__(self):
        return f"Odd({self.k})"


@dataclasses.dataclass(frozen=True)
class Forgetful:
    k: int

    def __post_init__(self):
        object.__setattr__(self, "secret", self.k)


@pytest.mark.parametrize(
    ("kind", "reason"), [(Odd, "neither a plain value nor"), (Forgetful, "beside its fields: secret")]
)
def test_a_state_that_a_file_cannot_hold_is_named(kind, reason, tmp_path):
    search = ErmMcts(Walk(kind, lambda state: state.k), 0.2, seed=0)
    search.plan(iterations=20)
    with pytest.raises(
        SimulatorError, match=rf"{kind.__name__}\(.* of Walk cannot be kept in a file: .*{reason}.*plan.save"
    ):
        search.save(tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_another_model_is_refused(tmp_path):
    path = ErmMcts(GRID, 0.1, seed=3).save(tmp_path / "it")
    for other in (FOUR, GRID.with_options(horizon=GRID.horizon + 1), GRID.with_options(start=1), walk()):
        with pytest.raises(ModelError, match="the search is of another model"):
            load_search(path, other)
    with pytest.raises(ModelError, match="cannot be planned on"):
        load_search(path, "grid-mdp")
    path = ErmMcts(walk(), 0.1, seed=3).save(tmp_path / "it")
    other = walk()
    other.terminal_cost = lambda state: 1.0
    with pytest.raises(ModelError, match="the search is of another model"):
        load_search(path, other)


def cube(total):
    return total * total * total


def test_functions_are_given_again_and_compared(tmp_path):
    path = NluMcts(FOUR, square, seed=3).save(tmp_path / "it")
    with pytest.raises(
        OptionError, match=r"has utility=square, a function.*load_search\(path, model, utility=\.\.\.\)"
    ):
        load_search(path, FOUR)
    with pytest.raises(OptionError, match="utility is not the function square"):
        load_search(path, FOUR, utility=cube)
    with pytest.raises(OptionError, match="has no function 'leaf_value'"):
        load_search(path, FOUR, utility=square, leaf_value=lowest)

    def above(level):
        return lambda total: float(total > level)

    path = NluMcts(FOUR, above(2.0), seed=3).save(tmp_path / "it")
    with pytest.raises(OptionError, match="is not the function"):
        load_search(path, FOUR, utility=above(3.0))
    load_search(path, FOUR, utility=above(2.0))


class Above:
    def __init__(self, level):
        self.level = level

    def __call__(self, total):
        return float(total > self.level)

    def method(self, total):
        return self(total)


def power(exponent, total):
    return abs(total) ** exponent


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (Above(2.0), Above(2.0), Above(3.0)),
        (Above(2.0).method, Above(2.0).method, Above(3.0).method),
        (functools.partial(power, 2), functools.partial(power, 2), functools.partial(power, 3)),
        (math.exp, math.exp, math.sqrt),
        (lambda total: square(total), lambda total: square(total), lambda total: cube(total)),
    ],
)
def test_callables_of_all_kinds_are_told_apart(one, same, other, tmp_path):
    path = NluMcts(FOUR, one, seed=3).save(tmp_path / "it")
    load_search(path, FOUR, utility=same)
    with pytest.raises(OptionError, match="is not the function"):
        load_search(path, FOUR, utility=other)


def test_what_is_not_known_to_be_whole_is_not_saved(tmp_path):
    class Bonus(PolynomialBonus):
        pass

    with pytest.raises(OptionError, match="bonus of this ErmMcts cannot be kept in a file"):
        ErmMcts(FOUR, 0.5, bonus=Bonus()).save(tmp_path / "it")
    assert not list(tmp_path.iterdir())


class Counting(ErmMcts):
    """Has an option and a state of its own."""

    def __init__(self, mdp, beta, *, seed=None, times=1):
        super().__init__(mdp, beta, seed=seed)
        self.times, self.planned = times, 0

    def plan(self, *limits, **options):
        self.planned += self.times
        return super().plan(*limits, **options)

    def state_dict(self):
        return {**super().state_dict(), "planned": self.planned}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.planned = state["planned"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Counting(FOUR, 0.5, seed=2, times=3),
        lambda: SlippedAccMcts(FOUR, 0.5, seed=2),
        lambda: TreeSearch(walk(), SearchOptions(beta=0.5, rollout_policy=lowest, untried="random"), seed=2),
    ],
    ids=["own", "slipped", "options"],
)
def test_parameters_and_state_make_a_search_whatever_its_class(make, tmp_path):
    search = make()
    search.plan(iterations=SOME)
    functions = {"rollout_policy": lowest} if type(search) is TreeSearch else {}
    again = load_search(search.save(tmp_path / "it"), search.problem, **functions)
    twin = copy.deepcopy(search)
    other = type(search)(search.problem, **search.get_params(), seed=9)
    other.load_state_dict(search.state_dict())
    plans = [one.plan(iterations=SOME).rows for one in (search, again, twin, other)]
    assert plans[1:] == plans[:-1]
    if isinstance(search, Counting):
        assert [one.planned for one in (search, again, twin, other)] == [6, 6, 6, 6]
        assert search.get_params() == {"beta": 0.5, "times": 3}
        assert (search.fresh(seed=1).times, search.problem) == (3, FOUR)


def test_what_was_chosen_is_still_said_after_loading(tmp_path):
    search = make_planner(walk(), 0.2, seed=3, bounds=(-20.0, 20.0), terminal_bounds=(0.0, 20.0))
    search.plan(iterations=20)
    again = load_search(search.save(tmp_path / "it"), walk())
    found, expected = again.plan(iterations=20), search.plan(iterations=20)
    assert (found.planner, found.reason) == (expected.planner, expected.reason)
    assert found.reason


def test_states_that_no_file_can_hold_are_copied_all_the_same():
    search = ErmMcts(Walk(Odd, lambda state: state.k), 0.2, seed=0)
    search.plan(iterations=60)
    twin = copy.deepcopy(search)
    assert twin.plan(iterations=60).rows == search.plan(iterations=60).rows


def test_a_search_of_an_older_version_is_named(tmp_path):
    path = Uct(FOUR, seed=1).save(tmp_path / "it")
    path.write_bytes(path.read_bytes().replace(b"tailwise search 7", b"tailwise search 6", 1))
    for use in (lambda: load_search(path, FOUR), lambda: Uct(FOUR, seed=1).plan(iterations=9, checkpoint=path)):
        with pytest.raises(FormatError, match="its format has version 6, this tailwise reads version 7"):
            use()


def test_a_search_at_the_horizon_can_be_saved(tmp_path):
    mdp = FOUR.with_options(horizon=1)
    search = ErmMcts(mdp, 0.5, seed=0)
    search.plan(iterations=10)
    search.advance(0, 1)
    again = load_search(search.save(tmp_path / "it"), mdp)
    assert (again.state, again.step) == (1, 1)
    again.reset()
    assert again.plan(iterations=10).iterations == 10


# ----------------------------------------------------------------- checkpoints


def test_a_call_made_again_goes_on_where_its_checkpoint_stands(tmp_path):
    whole = Uct(FOUR, seed=1)
    expected = whole.plan(iterations=900, checkpoint=tmp_path / "whole")
    path = tmp_path / "part"
    asked = iter([False] * 3 + [True])
    Uct(FOUR, seed=1).plan(iterations=900, checkpoint=path, every=0.0, until=lambda plan: next(asked))
    again = Uct(FOUR, seed=1)
    part = again.plan(iterations=900, checkpoint=path)
    assert dataclasses.replace(part, seconds=0.0) == dataclasses.replace(expected, seconds=0.0)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()
    done = Uct(FOUR, seed=1).plan(iterations=900, checkpoint=path)  # nothing is left to do
    assert dataclasses.replace(done, seconds=0.0) == dataclasses.replace(expected, seconds=0.0)
    with pytest.raises(OptionError, match="holds 900 iterations of this search already, more than iterations=800"):
        Uct(FOUR, seed=1).plan(iterations=800, checkpoint=path)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()


def test_the_next_call_of_the_same_search_takes_over_its_own_file(tmp_path):
    path = tmp_path / "it"
    search, other = Uct(FOUR, seed=1), Uct(FOUR, seed=1)
    for _ in range(2):
        assert search.plan(iterations=100, checkpoint=path).iterations == 100
        other.plan(iterations=100)
    assert load_search(path, FOUR).plan(iterations=5).rows == other.plan(iterations=5).rows


def test_a_checkpoint_of_anything_else_is_left_alone(tmp_path):
    path = tmp_path / "it"
    Uct(FOUR, seed=1).plan(iterations=100, checkpoint=path)
    before = path.read_bytes()
    moved_on = Uct(FOUR, seed=1)
    moved_on.plan(iterations=10)
    for search, reason in (
        (Uct(FOUR, seed=2), "began otherwise: with another seed"),
        (Uct(FOUR), "began otherwise: with another seed"),
        (moved_on, "began otherwise"),
        (Uct(FOUR, seed=1, max_nodes=5), "it is of other options"),
        (ErmMcts(FOUR, 0.0, seed=1), "it is of another kind"),
        (Uct(GRID, seed=1), "it is of another model"),
    ):
        with pytest.raises(OptionError, match=reason):
            search.plan(iterations=100, checkpoint=path)
    (tmp_path / "text").write_text("a letter\n")
    with pytest.raises(FormatError, match="it is not a search that tailwise saved"):
        Uct(FOUR, seed=1).plan(iterations=100, checkpoint=tmp_path / "text")
    assert (tmp_path / "text").read_text() == "a letter\n"
    assert path.read_bytes() == before


def test_saving_in_a_callback_is_refused_and_copies_save_alike(tmp_path):
    search = Uct(FOUR, seed=1)
    with pytest.raises(OptionError, match="at work already"):
        search.plan(iterations=100, until=lambda plan: search.save(tmp_path / "it"))
    twin = copy.deepcopy(search)
    assert twin.save(tmp_path / "a").read_bytes() == search.save(tmp_path / "b").read_bytes()


CONTINUE = """
import sys
from tailwise import domains, load_search
search = load_search(sys.argv[1], domains.make("grid-mdp"))
search.plan(iterations=300)
search.save(sys.argv[1])
"""


DESCRIBE = """
from tailwise._values import function_name
from tailwise._values import pack
print(function_name(lambda total, level=frozenset("abc"): "x" if total in {"p", "q", "r"} else None))
print(pack((frozenset("abcdef"), frozenset([(8, "a"), (0, "b")]), frozenset([8, 0, 16])), []))
"""


def test_functions_and_sets_are_described_alike_in_every_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", DESCRIBE],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in "123"
    }
    assert len(found) == 1


@pytest.mark.compiled
def test_another_process_goes_on_to_the_bit(tmp_path):
    search = moved(SEARCHES["erm"]())
    path = search.save(tmp_path / "it")
    subprocess.run([sys.executable, "-c", CONTINUE, str(path)], check=True)
    search.plan(iterations=300)
    assert search.save(tmp_path / "here").read_bytes() == path.read_bytes()


@pytest.mark.compiled
def test_several_trees_go_on_where_their_checkpoint_stands(tmp_path):
    def make():
        return ErmMcts(GRID, 0.1, seed=3, max_nodes=800)

    options = {"iterations": 1000, "threads": 3}
    whole, asked = make(), iter([False] * 2 + [True])
    expected = whole.plan(**options, checkpoint=tmp_path / "whole")
    path = tmp_path / "part"
    make().plan(**options, checkpoint=path, every=0.0, until=lambda plan: next(asked))
    with pytest.raises(OptionError, match="holds this call with threads=3, not 2"):
        make().plan(iterations=1000, threads=2, checkpoint=path)
    for _ in range(2):
        found = make().plan(**options, checkpoint=path)
        assert dataclasses.replace(found, seconds=0.0) == dataclasses.replace(expected, seconds=0.0)
        assert found.stopped == "max_nodes"
        assert path.read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("make", [lambda: make_planner(FOUR, 0.5, seed=0), lambda: CvarMcts(FOUR, 0.9, seed=0)])
def test_planners_that_keep_no_file_say_so(make, tmp_path):
    with pytest.raises(OptionError, match=r"a \w+ cannot be kept in a file; save its plan"):
        make().save(tmp_path / "it")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["n" * 300, "null\0byte", "no/folder"])
def test_paths_that_are_none_are_refused(name, tmp_path):
    search, path = ErmMcts(FOUR, 0.5, seed=0), tmp_path / name
    plan = search.plan(iterations=10)
    for use in (
        search.save, plan.save, load_plan, lambda path: load_search(path, FOUR),
        lambda path: search.plan(iterations=10, checkpoint=path),
    ):  # fmt: skip
        with pytest.raises(FormatError, match=r"cannot be (read|written)"):
            use(path)


def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    search = Uct(FOUR, seed=1)
    monkeypatch.setattr(search, "prepare", lambda iterations: pytest.fail("the work begins first"))
    with pytest.raises(FormatError, match="cannot be written"):
        search.plan(iterations=10, checkpoint=tmp_path / "missing" / "file")


@pytest.mark.parametrize("name", ["tiger", "light-dark"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_search_over_histories_goes_on_from_a_file(name, moved, tmp_path):
    model = domains.make(name)
    search = HistoryMcts(model, 0.1, seed=4, particles=200)
    plan = search.plan(iterations=300)
    if moved:
        rng = np.random.default_rng(0)
        state = model.sample_start(rng)
        target, _, _ = model.step(state, plan.action, rng)
        search.advance(plan.action, model.observe(state, plan.action, target, rng))
        search.plan(iterations=100)
    again = load_search(search.save(tmp_path / "it"), domains.make(name))
    assert (again.step, again.get_params()) == (search.step, search.get_params())
    for _ in range(2):
        here, there = search.plan(iterations=200), again.plan(iterations=200)
        assert there.rows == here.rows
        assert (there.nodes, there.bytes) == (here.nodes, here.bytes)
    assert again.belief.tilted == search.belief.tilted
    with pytest.raises(ModelError, match="another model"):
        load_search(tmp_path / "it", domains.make("light-dark" if name == "tiger" else "tiger"))


def test_hidden_states_that_no_file_can_hold_are_named(tmp_path):
    model = domains.make("light-dark")
    search = HistoryMcts(model, 0.1, seed=4, particles=20)
    search.plan(iterations=20)
    search.belief.particles[3] = object()
    with pytest.raises(SimulatorError, match="cannot be kept in a file"):
        search.save(tmp_path / "it")
    assert not any(tmp_path.iterdir())
