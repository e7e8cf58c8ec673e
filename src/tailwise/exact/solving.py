"""One way to solve: a table, or a simulator that lists its outcomes, for any objective.

=============================================  =======================================================================
``Expectation()``, ``ERM(beta)``, a number      backward induction (:mod:`tailwise.exact.induction`)
``WorstCase()``, ``NestedCVaR(level)``          backward induction of another step (:mod:`tailwise.exact.induction`)
``RobustKL``, ``RobustL1``                      the same, with each row the worst of its ball (:mod:`.robust`)
``EVaR(level)``                                 the ERM at betas of which the best is certified (:mod:`.evar`)
``CVaR(level)``, ``Exceedance(threshold)``      pairs of state and accrued cost (:mod:`tailwise.exact.tails`)
``ExpectedUtility(utility)``                    the same, where the totals are few enough to list
``Expectation().within(CVaR or ERM, bound)``    the same, by the Lagrangian (:mod:`tailwise.exact.budgets`)
alternatives, for ``ERM`` and ``Expectation``   a fixed plan, by coordinate descent (:mod:`.alternatives`)
hidden states, for ``ERM`` and ``Expectation``  alpha vectors over the tilted belief (:mod:`.alpha_vectors`)
without a horizon                               stationary, or in the end (:mod:`tailwise.exact.endless`)
=============================================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tailwise._files import checked, read_record
from tailwise._progress import Progress
from tailwise._validate import Ends, file_path, integer, real, thread_count
from tailwise._values import find_class, unpack
from tailwise.errors import ModelError, OptionError
from tailwise.exact.adversary import ball_rows, radii_of
from tailwise.exact.grid_totals import GridTotals, Layer, Upward
from tailwise.exact.induction import backward_induction, induced, solve_evar, worst_case
from tailwise.exact.policy import KIND, VERSION, Places, Policy
from tailwise.exact.reachability import relevant
from tailwise.exact.sweeps import RowRisks, row_tails, row_worst
from tailwise.exact.tails import Limits, solve_cvar, solve_exceedance, solve_utility
from tailwise.exact.totals import ReachableTotals, Step
from tailwise.models import Alternatives, TabularMDP
from tailwise.models.check import fingerprint, require_model
from tailwise.models.simulator import is_partly_observed, model_name, own_method
from tailwise.models.tabulate import tabulate_hidden, tabulate_states
from tailwise.risk import (
    ERM,
    Average,
    Budgeted,
    CVaR,
    EVaR,
    Exceedance,
    Expectation,
    ExpectedUtility,
    NestedCVaR,
    Objective,
    Recursive,
    RobustKL,
    RobustL1,
    WorstCase,
    as_objective,
)
from tailwise.risk.criteria import of_criterion
from tailwise.risk.distribution import ReturnDistribution

Solver = Callable[[TabularMDP, Any, Limits], Policy]


def solve(
    model: Any,
    objective: Objective | float,
    *,
    criterion: str = "total",
    tolerance: float | None = None,
    effort: float = 1.0,
    max_states: int = 100_000,
    threads: int = 1,
    progress: Progress = None,
) -> Policy:
    """Find the optimal policy of a model for an objective, exactly or with a stated gap.

    Parameters
    ----------
    model : TabularMDP or simulator with ``outcomes(state, action)``, or PomdpTable
        The problem. Against :class:`tailwise.Alternatives`, of which one is true, a fixed plan is found. Where the
        state is not seen the policy acts on what was observed (:class:`tailwise.exact.BeliefPolicy`).
    objective : Objective or float
        What is wanted of the total, as ``CVaR(0.95)``; a number is the beta of an ERM.
    criterion : "total", "recursive" or "average"
        Of what the objective is taken: for ERM and mean "recursive" stands for ``Recursive(objective)``, "average" for
        ``Average(objective)``.
    tolerance : float, optional
        Gap at which to stop, > 0 (for CVaR and budgets 0 is allowed), in the unit of the costs, for EVaR, CVaR and
        budgets. If not given, a small share of what the best policy found costs above the least total: 1e-4, 1e-6 and
        1e-3; or what is known of totals that had to be put on a grid.
    effort : float, default 1.0
        Share of the usual work: of laying out totals, and of the problems solved on the way. 0.1 is about ten times as
        fast, and the gap up to ten times as wide; the policy is often hardly worse.
    max_states : int, default 100,000
        Most states of a simulator; where the state is not seen, most tilted beliefs or conditional plans.
    threads : int, default 1
        Threads of each sweep, for ERM and EVaR; they do not change the result.
    progress : bool or callable, optional
        True shows a bar; a function is called with (problems or steps done, of how many or None).

    Returns
    -------
    Policy
        What to do in every state, its value, and how much better any policy can be at most.

    Raises
    ------
    OptionError
        If no policy keeps to the budget or the threshold, or no solver takes the objective; the message says what can.
    ModelError
        If the model does not list its outcomes, lists wrong ones, or has too many states.
    InfiniteValueError
        If, without a horizon, the best value is infinite: says in words why.

    Examples
    --------
    >>> from tailwise import CVaR, EVaR, Exceedance, Expectation, NestedCVaR, domains, solve
    >>> mdp = domains.make("grid-mdp")
    >>> policy = solve(mdp, CVaR(0.9))
    >>> mdp.action_name(policy.action), round(policy.value, 6), policy.gap
    ('right', 10.859848, 0.0)
    >>> round(solve(mdp, Exceedance(8.0)).value, 9)
    0.01
    >>> kept = solve(mdp, Expectation().within(CVaR(0.95), 15.0))
    >>> round(kept.value, 4), kept.risk <= 15.0, kept.gap < 0.3
    (8.039, True, True)
    >>> [mdp.action_name(solve(mdp, NestedCVaR(level)).action) for level in (0.5, 0.8)]
    ['up', 'right']
    """
    wanted = of_criterion(as_objective(objective), criterion)
    inside: Ends = "(]" if isinstance(wanted, EVaR) else "[]"
    allowed = None if tolerance is None else real(tolerance, "tolerance", low=0.0, ends=inside)
    limits = Limits(allowed, real(effort, "effort", low=0.0, ends="(]"), thread_count(threads), progress)
    most = integer(max_states, "max_states", low=1)
    if isinstance(model, Alternatives):
        from tailwise.exact.alternatives import solve_alternatives  # each is imported where it is asked for

        return solve_alternatives(model, wanted, limits)
    if is_partly_observed(model):
        from tailwise.exact.belief_policy import solve_hidden

        hidden = tabulate_hidden(model, max_states=most)
        return solve_hidden(hidden, wanted, limits, most, None if hidden is model else model)
    is_endless = getattr(model, "horizon", 0) is None
    solver = _endless if is_endless else solver_of(wanted)
    table, places = tabulated(model, max_states=most)
    policy = solver(table, wanted, limits)
    return policy if table is model else replace(policy, model=model, _places=places)


def load_policy(path: str | Path, model: Any, *, max_states: int = 100_000) -> Policy:
    """Read a policy that :meth:`Policy.save` wrote: it acts, and says itself, as the one that was saved.

    Parameters
    ----------
    path : str or Path
        The file.
    model : TabularMDP or simulator
        The model that was solved, which the file does not hold.
    max_states : int, default 100,000
        Most states of a simulator, as for :func:`tailwise.solve`.

    Returns
    -------
    Policy

    Raises
    ------
    FormatError
        If there is no such file, or it holds something else, is of another version or is damaged.
    ModelError
        If ``model`` is another one. Simulators are told apart by a hundred random steps, not by their code.

    Examples
    --------
    See :meth:`Policy.save`.
    """
    source = file_path(path)
    record = read_record(source, KIND, VERSION)
    table, places = tabulated(model, max_states=integer(max_states, "max_states", low=1))
    name, wanted = checked(source, KIND, lambda: record.content["model"])
    if fingerprint(model).hex() != wanted:
        raise ModelError(
            f"{source}: the policy is of another model: one that is called {name!r}, not this {model_name(model)!r}, "
            "or one with other costs, probabilities, start, horizon or discount"
        )

    def made() -> Policy:
        found: Policy = unpack(record.content["policy"], record.arrays, _find_own)
        graph: Any = found.graph
        if graph is not None:
            graph = replace(graph, mdp=table if record.content["whole"] else relevant(table))
        rows: Any = row_worst if record.content["is_worst"] else None
        if record.content["has_rows"] and rows is None:
            rows = row_risks_of(table, found.objective)
        chosen = Upward(found.chosen) if record.content["upward"] else found.chosen
        own = {} if table is model else {"model": model, "_places": places}
        return replace(found, mdp=table, graph=graph, row_risks=rows, chosen=chosen, **own)

    return checked(source, KIND, made)


_OWN = (Policy, Objective, ReturnDistribution, Step, Layer, ReachableTotals, GridTotals)


def _find_own(name: str) -> type:
    found = find_class(name)
    if issubclass(found, _OWN):
        return found
    raise ValueError(f"{name} is no part of a policy")


def row_risks_of(mdp: TabularMDP, objective: Any) -> RowRisks:
    """Return the risk of each row of the table, of an objective that is taken again at every step."""
    if isinstance(objective, NestedCVaR):
        return partial(row_tails, tail=1.0 - objective.level)
    return partial(ball_rows, is_kl=isinstance(objective, RobustKL), radii=radii_of(mdp, objective))


def solver_of(objective: Objective) -> Solver:
    """Return what solves for an objective, or raise ``OptionError`` with what can be solved for."""
    solver = _SOLVERS.get(type(objective))
    if isinstance(objective, Budgeted):
        risk = objective.risk
        kept = (isinstance(risk, CVaR) and 0.0 < risk.level < 1.0) or (isinstance(risk, ERM) and risk.beta > 0.0)
        if objective.objective not in (Expectation(), ERM(0.0)) or not kept:
            solver = None
    if solver is None:
        raise OptionError(
            f"there is no exact solver for: {objective.words}; there are for "
            f"{', '.join(kind.__name__ for kind in _SOLVERS if kind is not Budgeted)}, and for "
            "Expectation().within(risk, bound) with CVaR(level), 0 < level < 1, or ERM(beta), beta > 0; "
            "register_solver() adds one"
        )
    return solver


def register_solver(kind: type[Objective], solver: Solver) -> None:
    """Let :func:`solve` take another kind of objective.

    Parameters
    ----------
    kind : type
        The class of the objective.
    solver : callable
        From a table, the objective and limits (``tolerance``, ``effort``, ``threads``, ``progress``) to a policy.
    """
    _SOLVERS[kind] = solver


def tabulated(model: Any, *, max_states: int) -> tuple[TabularMDP, Places]:
    """Return a table as it is, or that of a simulator, with the index and the first step of each state."""
    require_model(model, endless=True)
    if isinstance(model, TabularMDP):
        return model, {}
    if own_method(model, "outcomes") is None:
        raise ModelError(
            f"{model_name(model)} has no outcomes(state, action); an exact solution needs them. Without there are "
            "sampled_planning, CvarMcts and DistributionalMcts, and make_planner for the ERM"
        )
    return tabulate_states(model, max_states=max_states)


def _entropic(mdp: TabularMDP, objective: Objective, limits: Limits) -> Policy:
    """Return the policy of least ERM, or mean where the objective has no beta."""
    beta = getattr(objective, "beta", 0.0)
    found = backward_induction(mdp, beta, threads=limits.threads, progress=limits.progress)
    return replace(found, objective=objective)


def _worst(mdp: TabularMDP, objective: Objective, limits: Limits) -> Policy:
    return replace(worst_case(mdp, limits.progress), objective=objective)


def _stepwise(mdp: TabularMDP, objective: NestedCVaR | RobustKL | RobustL1, limits: Limits) -> Policy:
    """Return the policy of an objective that is taken again at every step. O(H * outcomes * log outcomes)."""
    return induced(mdp, objective, row_risks_of(mdp, objective), limits.progress)


def _endless(mdp: TabularMDP, objective: Objective, limits: Limits) -> Policy:
    from tailwise.exact.endless import solve_endless

    return solve_endless(mdp, objective, limits)


def _budget(mdp: TabularMDP, objective: Budgeted, limits: Limits) -> Policy:
    from tailwise.exact.budgets import solve_budget

    return solve_budget(mdp, objective, limits)


def _recursive(mdp: TabularMDP, objective: Recursive, limits: Limits) -> Policy:
    if mdp.discount < 1.0 or objective.apart:
        raise OptionError(
            f"the {objective.words} is solved without a horizon: model.with_options(horizon=None); up to a horizon, "
            "and without discounting, it is the ERM of the total"
        )
    return _entropic(mdp, objective, limits)


def _average(mdp: TabularMDP, objective: Average, limits: Limits) -> Policy:
    raise OptionError(f"the {objective.words} is of a plant that runs for ever: model.with_options(horizon=None)")


def _at_level(solver: Solver) -> Solver:
    """Return a solver for levels in [0, 1]: 0 is the mean, 1 the worst case."""

    def solved(mdp: TabularMDP, objective: Any, limits: Limits) -> Policy:
        ends: dict[float, Solver] = {0.0: _entropic, 1.0: _worst}
        return ends.get(objective.level, solver)(mdp, objective, limits)

    return solved


_SOLVERS: dict[type[Objective], Solver] = {
    Expectation: _entropic, ERM: _entropic, EVaR: _at_level(solve_evar), CVaR: _at_level(solve_cvar),
    NestedCVaR: _at_level(_stepwise), Exceedance: solve_exceedance, WorstCase: _worst, ExpectedUtility: solve_utility,
    Budgeted: _budget, RobustKL: _stepwise, RobustL1: _stepwise, Recursive: _recursive, Average: _average,
}  # fmt: skip
