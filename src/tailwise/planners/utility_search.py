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
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, Unpack

import numpy as np

from tailwise._random import Seed
from tailwise._validate import real
from tailwise.bonuses import LogBonus
from tailwise.errors import OptionError
from tailwise.models.accrued import AccruedView, ExponentialUtility, known_cost
from tailwise.risk.objectives import ExpectedUtility
from tailwise.search import Plan, SearchKeywords, SearchOptions, StopReason, TreeSearch, options_of
from tailwise.search.action_rows import RootStatistics

_METHOD = "tree search for a utility, on accrued costs"


def lifted(options: SearchOptions, view: AccruedView) -> SearchOptions:
    """Return options whose functions of the model's states work on those of its view.

    A rollout policy sees the model's state. A leaf's value v, a cost-to-go, becomes the utility of the total that ends
    there: ``u(accrued + discount^h v)``.
    """
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
