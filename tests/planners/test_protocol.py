"""The planner protocol, and planners by name: those of strangers take part without an edit of the library."""

import importlib.metadata
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tailwise import ERM, CVaR, ExpectedUtility, Planner, backward_induction, domains, evaluate, make_planner
from tailwise.errors import ModelError, OptionError, StateError, UnknownNameError
from tailwise.evaluation import compare
from tailwise.models import TabularMDP
from tailwise.planners import PlannerKind, find_planner, list_planners, registry

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


class Stranger:
    """A third party's planner, with the members of the protocol and nothing else: it follows a solution."""

    def __init__(self, model, beta=0.5, *, seed=None):
        self.model, self.beta, self.seed = model, beta, seed
        self.solution = backward_induction(model, beta)
        self.reset()

    def reset(self, state=None, step=0):
        self.state, self.step = self.model.start if state is None else state, step

    def fresh(self, seed=None):
        return type(self)(self.model, self.beta, seed=seed)

    def advance(self, action, state):
        self.state, self.step = state, self.step + 1

    def plan(self, iterations=None, seconds=None, *, until=None, progress=None):
        return SimpleNamespace(action=self.solution.act(self.state, self.step))


class Bookkeeper(Stranger):
    """Wants to know what was paid, and keeps it."""

    paid: float = 0.0

    def reset(self, state=None, step=0, *, accrued=0.0):
        super().reset(state, step)
        self.paid = accrued

    def advance(self, action, state, *, cost=None):
        self.paid += self.model.discount**self.step * cost
        super().advance(action, state)
        self.log.append((self.step, self.paid))

    log: list = []


def test_planners_have_the_protocol_and_policies_have_not():
    mdp = domains.make("mdp-4")
    for kind in list_planners():
        objective = next(one for one in (ERM(0.5), CVaR(0.9), ExpectedUtility(abs)) if kind.pursues(one))
        model = domains.make("tiger") if kind.hidden else mdp
        assert isinstance(make_planner(model, objective, kind=kind.name, seed=0), Planner), kind.name
    assert isinstance(Stranger(mdp), Planner)
    assert not isinstance(backward_induction(mdp, 0.5), Planner)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("reuse", [True, False])
def test_a_strangers_planner_is_played_as_the_policy_that_it_follows(threads, reuse):
    mdp = domains.make("mdp-4")
    expected = evaluate(mdp, backward_induction(mdp, 0.5), episodes=30, seed=2)
    played = evaluate(mdp, Stranger(mdp), episodes=30, seed=2, threads=threads, reuse=reuse)
    assert np.array_equal(played.costs, expected.costs)
    assert played.decisions.shape == (30, mdp.horizon, 2)
    assert compare(played, expected, 0.5).equal == 30


@pytest.mark.parametrize("reuse", [True, False])
def test_a_planner_to_which_the_past_matters_is_told(reuse):
    mdp = domains.make("mdp-4")
    Bookkeeper.log.clear()
    seen = []

    class Watched(Bookkeeper):
        def plan(self, *limits, **options):
            seen.append((self.step, self.paid))
            return super().plan(*limits, **options)

    total = evaluate(mdp, Watched(mdp), episodes=1, seed=3, reuse=reuse).costs[0]
    assert [h for h, _ in seen] == list(range(mdp.horizon))
    assert seen[-1][1] > 0.0
    assert seen[-1][1] <= total + 1e-12
    assert bool(Bookkeeper.log) == reuse


def test_a_stranger_may_be_named_in_full(monkeypatch):
    module = ModuleType("their_planners")
    module.Stranger = Stranger
    monkeypatch.setitem(sys.modules, "their_planners", module)
    mdp = domains.make("mdp-4")
    assert isinstance(make_planner(mdp, 0.5, kind="their_planners:Stranger", seed=1), Stranger)
    with pytest.raises(UnknownNameError, match="cannot be loaded: AttributeError"):
        make_planner(mdp, 0.5, kind="their_planners:Stronger")
    with pytest.raises(UnknownNameError, match="cannot be loaded: ModuleNotFoundError"):
        make_planner(mdp, 0.5, kind="no_such_package:Planner")
    with pytest.raises(OptionError, match=r"does not take the option width=3"):
        make_planner(mdp, 0.5, kind="their_planners:Stranger", width=3)


def test_a_stranger_may_come_by_an_entry_point(monkeypatch):
    module = ModuleType("their_planners")
    module.Stranger, module.number = Stranger, 3
    monkeypatch.setitem(sys.modules, "their_planners", module)
    points = [
        importlib.metadata.EntryPoint("stranger", "their_planners:Stranger", registry.GROUP),
        importlib.metadata.EntryPoint("broken", "their_planners:number", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    kind = find_planner("stranger")
    assert isinstance(kind, PlannerKind)
    assert kind.summary.startswith("A third party's planner")
    with pytest.raises(OptionError, match="expected a class"):
        find_planner("broken")
    with pytest.raises(UnknownNameError, match="did you mean 'stranger'"):
        find_planner("strangr")


def test_names_and_options_that_do_not_fit_are_named():
    mdp = domains.make("mdp-4")
    with pytest.raises(UnknownNameError, match="did you mean 'erm-mcts'"):
        make_planner(mdp, 0.5, kind="erm-mcst")
    with pytest.raises(OptionError, match=r"does not take the option bonus=1\.0: name a planner that does"):
        make_planner(mdp, 0.5, kind="learned", bonus=1.0)
    with pytest.raises(OptionError, match="bonus must be"):
        make_planner(mdp, 0.5, kind="uct", bonus=-1.0)
    with pytest.raises(OptionError, match="beta"):
        make_planner(mdp, float("nan"), kind="erm-mcts")
    with pytest.raises(ModelError, match="lists its outcomes"):
        make_planner(object(), 0.5, kind="exact")


def test_an_action_that_is_not_allowed_is_named():
    mdp = TabularMDP.from_outcomes([0, 0, 1], [0, 1, 0], [1, 1, 1], [1, 1, 1], [1.0, 2.0, 0.0], horizon=2)

    class Wrong(Stranger):
        def plan(self, *limits, **options):
            return SimpleNamespace(action=1)

    with pytest.raises(StateError, match="action 1 is not allowed in state 1"):
        evaluate(mdp, Wrong(mdp), episodes=1, seed=0)
