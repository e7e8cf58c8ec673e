"""The way to every planner: :func:`make_planner`, and to plans for many roots at once: :func:`plan_many`.

What it chooses by itself follows what the model offers and what is wanted. A small table is solved exactly, and so is
a simulator that lists its outcomes and reaches few states. Where more are listed, the best action is proven, and only
what is come through is stored. A black box is sampled, and what was drawn is kept as a learned model.
"""

from __future__ import annotations

import dataclasses
import numbers
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypedDict

from tailwise._progress import Progress
from tailwise._random import Seed, seed_sequence
from tailwise._validate import listing, real, thread_count
from tailwise.errors import ModelError, OptionError
from tailwise.exact.truncation import truncate
from tailwise.models import TabularMDP
from tailwise.models.partly_observed import comes_back
from tailwise.models.simulator import is_partly_observed, lists_outcomes, model_name
from tailwise.models.tabulate import lists_hidden, tabulated_within
from tailwise.planners.protocol import FullPlanner, as_plan, is_shareable, takes
from tailwise.planners.registry import PlannerKind, find_planner, imported, list_planners
from tailwise.risk.objectives import ERM, Expectation, Objective, as_objective
from tailwise.search.anytime import in_threads, one_thread
from tailwise.search.plan import Plan
from tailwise.search.policy_mixin import DEFAULT_ITERATIONS, PolicyMixin

_QUICK_SWEEP = 20_000_000  # outcomes times steps: some tenths of a second
_QUICK_BYTES = 2**29
_FEW_STATES = 2_000  # of a simulator, which is asked for their outcomes: some tenths of a second
_LISTED_STATES = 10_000  # the most that is listed ahead to find bounds
_ROOM = ("max_nodes", "max_memory")  # options of "auto" itself: a planner that needs no such bound leaves them out


def make_planner(
    model: Any,
    objective: Objective | float | None = None,
    *,
    beta: float | None = None,
    kind: str = "auto",
    horizon: int | None = None,
    seed: Seed = None,
    **options: Any,
) -> FullPlanner:
    """Build a planner by name, or the one that suits the model and the objective.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    objective : Objective or float
        What is wanted of the total, as ``CVaR(0.95)``; a number is the beta of ``ERM(beta)``.
    beta : float, optional
        The beta of ``ERM(beta)``, in place of an objective.
    kind : str, default "auto"
        A name of :func:`tailwise.planners.list_planners`, or ``package.module:Class``; "auto" takes the first kind
        that suits. Its plans say which was taken, and why.
    horizon : int, optional
        How many decisions to look ahead on a model without a horizon. If it is not given, kinds that search look as far
        as the discount allows (:func:`tailwise.truncate`). Plans say in their ``notes`` how far it is, and the error.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **options
        Options of the kind, such as ``bonus``: for this one a number will do, the constant of the kind's own rule.
        "auto" takes the options of the kind that suits, and ``max_nodes`` and ``max_memory``; it never changes the kind
        for the sake of an option.

    Returns
    -------
    Planner
        What :func:`tailwise.evaluate` takes. Plans of the planners of this library are :class:`tailwise.Plan`; those
        of others have at least an ``action``.

    Raises
    ------
    UnknownNameError
        If there is no such kind.
    OptionError
        If the kind has no such option, its value is out of range, it does not pursue such an objective, or not exactly
        one of ``objective`` and ``beta`` is given.
    ModelError
        If the kind needs a model that lists its outcomes, and this one does not; or a horizon, where the model has none
        and does not discount.

    Examples
    --------
    >>> from tailwise import domains, make_planner
    >>> plan = make_planner(domains.make("mdp-4"), 0.5).plan(iterations=1000)
    >>> plan.label, plan.planner
    ('safe', 'exact')
    >>> make_planner(domains.make("mdp-4"), 0.5, kind="uct", seed=0, bonus=3.0).plan(iterations=2000).label
    'risky'
    """
    if (objective is None) == (beta is None):
        raise OptionError("say what is wanted, once: objective=, or beta= for an ERM")
    wanted = as_objective(objective if beta is None else beta)
    if horizon is not None:
        if getattr(model, "horizon", 0) is not None:
            raise OptionError(
                f"{model_name(model)} has a horizon, {model.horizon}: horizon={horizon!r} is for models without"
            )
        model = truncate(model, horizon=horizon, beta=_beta_of(wanted))
    if isinstance(kind, str) and kind == "auto":
        found, reason = choose_kind(model, wanted, options)
        options = {name: value for name, value in options.items() if found.takes(name) or name not in _ROOM}
    else:
        found, reason = find_planner(kind), ""
    if getattr(model, "horizon", 0) is None and not found.endless and not is_partly_observed(model):
        model = _cut(model, wanted, found.name)
    _require(found, model, wanted, options, reason)
    if found.bonus is not None and isinstance(options.get("bonus"), numbers.Real):
        options["bonus"] = imported(found.bonus)(constant=real(options["bonus"], "bonus", low=0.0))
    planner: Any = found.made(model, wanted, seed=seed, **options)
    if isinstance(planner, PolicyMixin):
        planner.kind, planner.reason = found.name, reason
    full: FullPlanner = planner
    return full


def _cut(model: Any, objective: Objective, kind: str) -> Any:
    """Return a model without a horizon as far as a search need look, or raise ``ModelError`` where nobody can tell."""
    if model.discount >= 1.0:
        raise ModelError(
            f"{kind} looks up to a horizon, and {model_name(model)} has none and does not discount: say how many "
            "decisions to look ahead, as horizon=50 (--horizon 50)"
        )
    return truncate(model, beta=_beta_of(objective))


def _beta_of(objective: Objective) -> float | None:
    """Return the level that :func:`tailwise.truncate` is for: None for any risk."""
    if isinstance(objective, (ERM, Expectation)):
        return getattr(objective, "beta", 0.0)
    return None


def choose_kind(model: Any, objective: Objective | float, options: Any = ()) -> tuple[PlannerKind, str]:
    """Return the kind of planner that suits a model and an objective, and why; with ``bounds`` no states are listed."""
    wanted = as_objective(objective)
    for name, reason in _suited(model, options):
        kind = find_planner(name)
        if kind.pursues(wanted):
            return kind, reason
    able = _kinds_for(model, wanted)
    for kind in able:
        if kind.models == "any":
            return kind, f"{model_name(model)} is sampled for the {wanted.words}"
    if able:
        return able[0], f"{model_name(model)} lists its outcomes"
    if is_partly_observed(model):
        raise OptionError(
            f"the state of {model_name(model)} is not seen: there the ERM and the mean are pursued, not the "
            f"{wanted.words}"
        )
    raise OptionError(f"no planner pursues the {wanted.words} on {model_name(model)}; {_cells(wanted)}")


def _suited(model: Any, options: Any) -> Iterator[tuple[str, str]]:
    """Yield (kind, reason) of what suits a model, best first, for those whose objective it is."""
    name = model_name(model)
    if is_partly_observed(model):
        if lists_hidden(model):
            yield "beliefs", f"the state of {name} is not seen, and all that may happen is listed"
        elif comes_back(model):
            yield "learned-beliefs", f"the state of {name} is not seen, and what is drawn comes back, and is learned"
        yield "histories", f"the state of {name} is not seen, and what may happen is sampled"
        return
    if getattr(model, "horizon", 0) is None and lists_outcomes(model):
        yield "exact", f"{name} has no horizon to search up to, and is solved"
        return
    if isinstance(model, TabularMDP):
        if _is_quick(model):
            yield "exact", f"a table of {model.num_outcomes:,} outcomes and {model.horizon} steps is solved at once"
        yield "bounded", f"{name} lists its outcomes, so that the best action can be proven"
    elif lists_outcomes(model):
        table = None if "bounds" in options else tabulated_within(model, _LISTED_STATES)
        if table is not None and table.num_states <= _FEW_STATES and _is_quick(table):
            yield "exact", f"{name} lists its outcomes and reaches few states, so that it is solved at once"
        if table is not None or "bounds" in options:
            yield "bounded", f"{name} lists its outcomes, so that the best action can be proven"
    yield "learned", f"{name} is sampled, and what was drawn is kept as a learned model"


def _is_quick(table: TabularMDP) -> bool:
    """Whether backward induction takes no longer than a search would."""
    work, space = table.num_outcomes * table.horizon, 12 * (table.horizon + 1) * table.num_states
    return bool(work <= _QUICK_SWEEP and space <= _QUICK_BYTES)


def require_pursuit(kind: PlannerKind, objective: Objective) -> None:
    """Raise ``OptionError`` where a kind does not pursue an objective, with the kinds that do."""
    if not kind.pursues(objective):
        raise OptionError(f"{kind.name} does not pursue the {objective.words}; {_cells(objective)}")


def _require(kind: PlannerKind, model: Any, objective: Objective, options: dict[str, Any], reason: str) -> None:
    """Raise what a kind does not take, with the kinds that do."""
    require_pursuit(kind, objective)
    if is_partly_observed(model) and not kind.hidden:
        raise ModelError(
            f"{kind.name} takes the state as seen, which that of {model_name(model)} is not: use "
            f"{_able(model, objective)}"
        )
    if kind.hidden and not is_partly_observed(model):
        raise ModelError(
            f"{kind.name} is for models whose state is not seen; {model_name(model)} shows it: use "
            f"{_able(model, objective)}"
        )
    if not kind.works_on(model):
        lists = "starts(), outcomes() and observations()" if kind.hidden else "outcomes(state, action)"
        raise ModelError(
            f"{kind.name} needs a model that lists its outcomes: a table, or a simulator with {lists}; this "
            f"{type(model).__name__} does not: use {_able(model, objective)}"
        )
    for name, value in options.items():
        if _takes(kind, name, value):
            continue
        able = [one for one in _kinds_for(model, objective) if one.options is not None]
        takers = [one.name for one in able if _takes(one, name, value)]
        way = "leave it out"
        if takers:
            way = f"name a planner that does, as kind={takers[0]!r} or --planner {takers[0]} ({', '.join(takers)})"
        chosen = f" (chosen, since {reason})" if reason else ""
        raise OptionError(f"{kind.name}{chosen} does not take the option {name}={value!r}: {way}")


def _kinds_for(model: Any, objective: Objective) -> list[PlannerKind]:
    return [kind for kind in list_planners() if kind.pursues(objective) and kind.works_on(model)]


def _able(model: Any, objective: Objective) -> str:
    """Name the kinds that pursue an objective on a model."""
    return ", ".join(kind.name for kind in _kinds_for(model, objective))


def _takes(kind: PlannerKind, option: str, value: Any) -> bool:
    """Return whether a kind has an option; a number as bonus is the constant of the kind's own rule, if it has one."""
    return kind.takes(option) and (option != "bonus" or kind.bonus is not None or not isinstance(value, numbers.Real))


def _cells(objective: Objective) -> str:
    """Say which kinds pursue an objective."""
    able = [f"{kind.name} ({kind.needs})" for kind in list_planners() if kind.pursues(objective)]
    return f"those that do: {', '.join(able)}" if able else "none does"


def plan_many(
    model: Any,
    objective: Objective | float,
    states: Iterable[Any],
    *,
    step: int = 0,
    kind: str = "auto",
    iterations: int | None = None,
    seconds: float | None = None,
    threads: int = 1,
    seed: Seed = None,
    progress: Progress = None,
    **options: Any,
) -> tuple[Plan, ...]:
    """Plan in each of many states, several at a time.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    objective : Objective or float
        What is wanted of the total; a number is the beta of an ERM.
    states : iterable
        The roots, as the model names its states.
    step : int, default 0
        Step h of every root, 0 to H - 1.
    kind : str, default "auto"
        Which planner, as for :func:`tailwise.make_planner`. Of an exact one all roots share the solution.
    iterations, seconds : optional
        Limits of each plan; 1000 iterations if neither is given.
    threads : int, default 1
        How many roots are planned for at a time. It does not change the result. A model in plain Python keeps to one
        thread, and the ``notes`` of its plans say so.
    seed : None, int, SeedSequence or Generator
        The k-th root has the k-th child of it.
    progress : bool or callable, optional
        True shows a bar; a function is called with (roots done, of how many).
    **options
        Options of the planner.

    Returns
    -------
    tuple of Plan
        One per state, in their order; without their trees, which would not all fit into memory.

    Raises
    ------
    StateError
        If the model has no such state.
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> from tailwise import domains, plan_many
    >>> mdp = domains.make("grid-mdp")
    >>> plans = plan_many(mdp, 0.1, [0, 1, 2], iterations=500, seed=0)
    >>> [(plan.state, plan.label) for plan in plans][0]
    (0, 'up')
    """
    roots = listing(states, "states", "roots")
    workers = thread_count(threads)
    notes = () if is_shareable(model) else one_thread(workers, "a model in plain Python keeps to one")
    workers = 1 if notes else workers
    root_seed = seed_sequence(seed)
    planner = make_planner(model, objective, kind=kind, seed=root_seed, **options)
    limits = {"iterations": DEFAULT_ITERATIONS if iterations is None and seconds is None else iterations}
    seeds, stopped = root_seed.spawn(len(roots)), threading.Event()

    def watch(done: int, used: float) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    def one(k: int) -> Plan:
        own: Any = planner.fresh(seeds[k])
        own.reset(roots[k], step)
        plan = own.plan(**limits, seconds=seconds, progress=watch if workers > 1 else None)
        if getattr(plan, "stopped", None) == "interrupted":
            raise KeyboardInterrupt
        found = as_plan(plan, own)
        return dataclasses.replace(found, notes=(*found.notes, *notes), tree=None)

    return tuple(in_threads(one, len(roots), workers, progress, label="planning", stop=stopped.set))


class CheckpointKeywords(TypedDict, total=False):
    """Keywords of a ``plan`` that keeps a checkpoint."""

    checkpoint: str | Path
    every: float


def checkpointed(planner: Any, path: str | Path | None, every: float) -> CheckpointKeywords:
    """Return what to give ``planner.plan`` so that it keeps a checkpoint in a file, if one is wanted; or raise."""
    if path is None:
        return {}
    if takes(planner.plan, "checkpoint"):
        return {"checkpoint": path, "every": every}
    kind = getattr(planner, "kind", "") or type(planner).__name__
    able = ", ".join(one.name for one in list_planners() if one.saves)
    raise OptionError(f"{kind} keeps no checkpoint; leave it out, or choose a kind of planner that does: {able}")
