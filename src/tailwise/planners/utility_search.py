"""Search for the mean of a utility of the total cost: what AccMcts and NluMcts share.

The search runs on the accrued-cost view of the model (:mod:`tailwise.models.accrued`) with plain means
(accumulators at beta = 0), so the numbers of a plan are *utilities*. Where the utility has an
inverse, the plan also gives certainty equivalents: the sure total cost that is as good. Unlike the ERM of a plan of
:class:`tailwise.ErmMcts` they count what was paid before the root.

*NLU-MCTS* is the mean of any utility of the total (Hayes et al., 2023),

    min over policies of  E[u(sum_h discount^h c_h)]

for any function u of the whole episode's discounted total: an S-shaped one, a target to stay below,
a power. Such a problem has no dynamic programming over states, since what was paid so far still
matters; on pairs (state, accrued cost) it has, and the search runs there. As in the source the bonus
is UCT's. The constant is in the unit of u: scale it to the differences that matter.

*Acc-MCTS*: the entropic risk by way of accrued costs. The paper's adaptation of Hayes et al. (2023): the state is
extended with the discounted cost accrued so far, steps are free, and the end charges ``u(total)`` with ``u(x) =
exp(beta x)``; a search for the mean on that view minimises the entropic risk (paper, appendix "Risk-aware MCTS"). The
bonus is the polynomial one with constant sqrt(2), as in the paper's experiments.

Two forms of u. ``form="raw"`` is the paper's; its scale runs from 1 to ``exp(beta * total)``, beside which sqrt(2) is
anything from everything to nothing, and it overflows once ``beta * total > 709``. The default, ``form="rescaled"``, is
``(exp(beta (x - m)) - 1) / beta``: the same decisions, but in the unit of the costs, with slope 1 at the reference m
(for rewards beta turns its sign and u is maximised). If none is given, m is the entropic risk of uniformly random
episodes (a fixed sample: 256 on a table, 64 of a simulator), raised where that is needed to rule out overflow. (For a
negative beta: lowered.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise._random import Seed, generator, stream_words
from tailwise._validate import choice, real
from tailwise.bindings.kernel_model import roll_out
from tailwise.bonuses import LogBonus
from tailwise.errors import OptionError, SimulatorError
from tailwise.models.accrued import EXP_LIMIT, AccruedView, ExponentialUtility, known_cost, total_bounds
from tailwise.models.contract import choices_of, cost_fault, short
from tailwise.models.simulator import model_name
from tailwise.risk import erm
from tailwise.risk.objectives import ExpectedUtility
from tailwise.search import Plan, SearchKeywords, SearchOptions, StopReason, TreeSearch, options_of
from tailwise.search.action_rows import RootStatistics

_METHOD = "tree search for a utility, on accrued costs"


def lifted(options: SearchOptions, view: AccruedView) -> SearchOptions:
    """Return options on the view's states: a leaf's value v, a cost-to-go, becomes ``u(accrued + discount^h v)``."""
    if options.bounds is not None:
        raise OptionError("bounds are those of an ERM of plain costs: a search on accrued costs does not take them")
    prior = options.prior_policy
    if prior is not None:
        options = dataclasses.replace(options, prior_policy=lambda state, h: prior(state[0], h))
    given = [name for name in ("widening", "rollout_policy", "leaf_value") if getattr(options, name) is not None]
    if not given:
        return options
    if view.is_table:
        raise OptionError(f"on accrued costs {' and '.join(given)} work for simulators only; this model is a table")
    policy, value = options.rollout_policy, options.leaf_value
    functions: dict[str, Any] = {}
    if policy is not None:
        functions["rollout_policy"] = lambda state, h, rng: policy(state[0], h, rng)
    if value is not None:
        functions["leaf_value"] = lambda state, h: view.utility_of(
            state[1] + float(view.powers[h]) * float(value(state[0], h))
        )
    return dataclasses.replace(options, **functions)


class UtilitySearch(TreeSearch):
    """A search on the accrued-cost view of a model; see :class:`AccMcts` and :class:`NluMcts`.

    Parameters
    ----------
    view : AccruedView
        The model with its utility.
    options : SearchOptions
        How to search; ``beta`` must be 0.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    """

    model: AccruedView

    def __init__(self, view: AccruedView, options: SearchOptions, *, seed: Seed = None) -> None:
        super().__init__(view, lifted(options, view), seed=seed)

    @property
    def state(self) -> Hashable:
        """The model's state at the root."""
        return self._pair[0]

    @property
    def accrued(self) -> float:
        """Discounted cost (or reward) paid before the root."""
        return float(self._pair[1])

    @property
    def _pair(self) -> tuple[Hashable, float]:
        """The view's state at the root."""
        pair: Any = self.root_state
        return pair[0], pair[1]

    def reset(self, state: Any = None, step: int = 0, *, accrued: float = 0.0) -> None:
        """Forget the tree and start a fresh one.

        Parameters
        ----------
        state : optional
            Root state of the model; its start if not given.
        step : int, default 0
            Step of the root, 0 to H - 1.
        accrued : float, default 0.0
            Discounted cost (or reward) of the steps before it; it matters to a utility of the total.

        Raises
        ------
        StateError
            If the model has no such state.
        OptionError
            If ``step`` or ``accrued`` is out of range.
        """
        paid = real(accrued, "accrued")
        super().reset(self.model.root(state, paid), step)

    def advance(self, action: Any, state: Any, *, cost: float | None = None) -> None:
        """Re-root after ``action`` was taken and ``state`` was observed.

        Parameters
        ----------
        action : int or str
            What was done.
        state : object
            The model's state that followed.
        cost : float, optional
            What the step cost (or earned), not discounted. On a table it is needed only where two outcomes of
            the action lead to this state at different costs; on a simulator always.

        Raises
        ------
        StateError
            If the action is not allowed here, the model has no such state, or no outcome leads to it.
        OptionError
            If the horizon was reached already, or ``cost`` is needed and not given.
        """
        if self.step >= self.model.horizon:
            raise OptionError(f"the horizon ({self.model.horizon} steps) is reached; call reset() to start again")
        h = self.step
        paid = known_cost(self.model.model, self.state, action, state, h) if cost is None else real(cost, "cost")
        accrued = self.accrued + float(self.model.powers[h]) * paid
        super().advance(action, self.model.root(state, accrued))

    def _single_thread_reason(self) -> str:
        if self.model.is_table:
            return super()._single_thread_reason()
        return "the view of a simulator with accrued costs is plain Python, which keeps to one"

    def merged_plan(self, parts: list[RootStatistics], seconds: float, stopped: StopReason) -> Plan:
        """Return the plan that trees at this root make together, in utilities."""
        with np.errstate(over="ignore"):  # near its limit a utility's spread is infinite, and so is the interval
            plan = super().merged_plan(parts, seconds, stopped)
        utility, rows, sure = self.model.utility, plan.rows, None
        if isinstance(utility, ExponentialUtility):
            sure = utility.inverse(plan.value)
            rows = tuple(dataclasses.replace(row, certainty_equivalent=utility.inverse(row.erm)) for row in rows)
        return dataclasses.replace(
            plan, rows=rows, objective=ExpectedUtility(utility), method=_METHOD, accrued=self.accrued,
            certainty_equivalent=sure,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"{type(self).__name__}(utility={self.model.utility!s})"


class NluMcts(UtilitySearch):
    """Monte Carlo tree search for the mean of a nonlinear utility of the total.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem. The view of a simulator runs in Python.
    utility : callable float -> float
        Utility of the discounted total, in the model's own sense: of the total *cost*, and minimised; or,
        for a model with rewards, of the total *reward*, and maximised. It must be finite on every total
        that can occur. Compiled where numba can, else called back (about a microsecond an episode).
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **keywords
        Fields of :class:`tailwise.SearchOptions`, such as ``bonus``: ``LogBonus()`` if not given, its constant in
        the unit of the utility. ``widening``, ``rollout_policy`` and ``leaf_value`` are for simulators: both functions
        are of the model's own states, and a leaf's value is a cost-to-go, not a utility.

    Raises
    ------
    ModelError
        If ``model`` is neither a table nor a simulator.
    OptionError
        If ``utility`` cannot be called.

    Examples
    --------
    Probability that the total exceeds 2, made as small as can be:

    >>> from tailwise import NluMcts, domains
    >>> def above_two(total):
    ...     return 1.0 if total > 2.0 else 0.0
    >>> search = NluMcts(domains.make("mdp-4"), above_two, seed=0)
    >>> search.plan(iterations=3000).label
    'safe'
    """

    def __init__(
        self,
        model: Any,
        utility: Callable[[float], float],
        *,
        seed: Seed = None,
        **keywords: Unpack[SearchKeywords],
    ) -> None:
        if not callable(utility):
            raise OptionError(f"utility must be a function of the total, not {utility!r}; for exp(beta x) use AccMcts")
        if keywords.get("bonus") is None:
            keywords["bonus"] = LogBonus()
        super().__init__(AccruedView(model, utility), options_of(0.0, keywords), seed=seed)


def utility_planner(model: Any, objective: ExpectedUtility, *, seed: Seed = None, **options: Any) -> NluMcts:
    """Return the search for an objective."""
    return NluMcts(model, objective.utility, seed=seed, **options)


_PILOTS, _SIMULATED_PILOTS = 256, 64


class AccMcts(UtilitySearch):
    """Monte Carlo tree search for the entropic risk measure on accrued costs (the paper's Acc-MCTS).

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem. The view of a simulator runs in Python.
    beta : float
        Finite risk level at step 0 (1/cost): positive averse, 0 the mean, negative seeking.
    form : "rescaled" or "raw", default "rescaled"
        The utility: ``(exp(beta (x - m)) - 1) / beta``, or the paper's ``exp(beta x)``; see
        :class:`tailwise.models.ExponentialUtility` for what they are of rewards.
    reference : float, optional
        The point m of the rescaled form: a total cost, or a total reward of a model that has rewards.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **keywords
        Fields of :class:`tailwise.SearchOptions`, such as ``bonus``. ``widening``, ``rollout_policy`` and
        ``leaf_value`` are for simulators: both functions are of the model's own states, and a leaf's value is a
        cost-to-go, not a utility.

    Raises
    ------
    ModelError
        If ``model`` is neither a table nor a simulator.
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> from tailwise import AccMcts, domains
    >>> search = AccMcts(domains.make("mdp-4"), beta=0.5, seed=0)
    >>> plan = search.plan(iterations=2000)
    >>> plan.label, plan.aim.endswith("rescaled"), 1.5 < plan.certainty_equivalent < 3.0
    ('safe', True, True)
    >>> search.advance(plan.action, state=1)
    >>> search.step, search.accrued
    (1, 0.0)
    """

    def __init__(
        self,
        model: Any,
        beta: float,
        *,
        form: str = "rescaled",
        reference: float | None = None,
        seed: Seed = None,
        **keywords: Unpack[SearchKeywords],
    ) -> None:
        level = real(beta, "beta", hint="0 is the mean, positive averse, negative seeking")
        if choice(form, "form", ("rescaled", "raw")) == "raw":
            if reference is not None:
                raise OptionError('reference belongs to form="rescaled"; the raw form has none')
            point = None
        else:
            point = pilot_reference(model, level) if reference is None else reference
        utility = ExponentialUtility(beta=level, reference=point, sense=getattr(model, "sense", "cost"))
        super().__init__(AccruedView(model, utility), options_of(0.0, keywords), seed=seed)

    def get_params(self) -> dict[str, object]:
        """Return the arguments of the constructor; ``reference`` is the one that was found, where none was given."""
        utility: Any = self.model.utility
        return {**super().get_params(), "reference": utility.reference}


def pilot_reference(model: Any, beta: float) -> float:
    """Return the reference of the rescaled utility: the ERM of random episodes, of tables safe from overflow."""
    rng = generator(0)
    view = AccruedView(model, float)
    if not view.is_table:
        losses = _simulated_episodes(view, rng)
        return erm(losses, beta) if model.sense == "cost" else 0.0 - erm(losses, beta)
    losses = np.empty(_PILOTS)
    _random_episodes(model.data, model.start, model.horizon, model.discount, stream_words(rng), losses)
    point = erm(losses, beta)
    low, high = total_bounds(model)
    if beta > 0:
        point = max(point, high - (EXP_LIMIT - 1.0) / beta)
    elif beta < 0:
        point = min(point, low - (EXP_LIMIT - 1.0) / beta)
    return float(model.signed(point))


def _simulated_episodes(view: AccruedView, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the total losses of uniformly random episodes of a simulator."""
    model, totals = view.model, np.empty(_SIMULATED_PILOTS)
    for k in range(totals.size):
        state, done, total, h = view.start, False, 0.0, 0
        while not done and h < view.horizon:
            try:
                choices = choices_of(view.actions(state))
                state, total, done = view.step(state, choices[int(rng.random() * len(choices))], rng, h)
                h += 1
            except Exception as error:
                raise SimulatorError(
                    f"{model_name(model)} failed in state {short(state[0])} at step {h} of a random episode, "
                    f"played to find the utility's reference: {type(error).__name__}: {error}; tailwise.check_model "
                    "says more"
                ) from error
        totals[k] = view.signed(total)
        fault = cost_fault(float(totals[k]))
        if fault:
            raise SimulatorError(f"the total cost of a random episode of {model_name(model)} {fault}")
    return totals


@kernel
def _random_episodes(table, start, horizon, discount, stream, totals):  # type: ignore[no-untyped-def]
    """Fill ``totals`` with the discounted losses of uniformly random episodes."""
    for k in range(totals.size):
        totals[k], _, _ = roll_out(table, start, 0, horizon, discount, stream)


def raw_planner(model: Any, beta: float, *, seed: Seed = None, **options: Any) -> AccMcts:
    """Return the search with the paper's utility."""
    return AccMcts(model, beta, form="raw", seed=seed, **options)
