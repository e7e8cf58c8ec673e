"""One door to every planner: :func:`make_planner`.

What it chooses by itself follows what the model offers. A small table is solved exactly, and so is a simulator that
lists its outcomes and reaches few states. Where more are listed, bounded RTDP proves the best action and stores only
what it comes through. A black box is sampled, and what was drawn is kept as a learned model. Where none of these
takes the options that are given, a tree search does.
"""

from __future__ import annotations

import copy
import dataclasses
import numbers
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from tailwise._progress import PlanProgress
from tailwise._random import Seed, seed_sequence
from tailwise._validate import real
from tailwise.errors import ModelError, OptionError
from tailwise.models import TabularMDP
from tailwise.models.contract import AS_IF_SEEN
from tailwise.models.simulator import model_name, own_method
from tailwise.planners.protocol import checkpointed, plan_in_threads
from tailwise.planners.registry import PlannerKind, find_planner, list_planners

_QUICK_SWEEP = 20_000_000  # outcomes times steps: some tenths of a second
_QUICK_BYTES = 2**29
_FEW_STATES = 2_000  # of a simulator, which is asked for their outcomes: some tenths of a second


def make_planner(model: Any, beta: float, *, kind: str = "auto", seed: Seed = None, **options: Any) -> Any:
    """Build a planner (or a policy) by name, or the one that suits the model.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    beta : float
        Finite risk level at step 0 (1/cost); the risk-neutral kinds ignore it.
    kind : str, default "auto"
        A name of :func:`tailwise.planners.list_planners`, or ``package.module:Class``; "auto" is an
        :class:`AutoPlanner`, which chooses by what the model offers.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **options
        Options of the kind, such as ``bonus``: for this one a number will do, the constant of the kind's own rule.

    Returns
    -------
    Planner or policy
        What :func:`tailwise.evaluate` takes.

    Raises
    ------
    UnknownNameError
        If there is no such kind.
    OptionError
        If the kind has no such option, or its value is out of range.
    ModelError
        If the kind needs a model that lists its outcomes, and this one does not.

    Examples
    --------
    >>> from tailwise import domains, make_planner
    >>> plan = make_planner(domains.make("mdp-4"), 0.5).plan(iterations=1000)
    >>> plan.label, plan.planner
    ('safe', 'exact')
    >>> make_planner(domains.make("mdp-4"), 0.5, kind="erm-bi").action
    1
    >>> make_planner(domains.make("mdp-4"), 0.5, kind="uct", seed=0, bonus=3.0).plan(iterations=2000).label
    'risky'
    """
    if kind == "auto":
        return AutoPlanner(model, beta, seed=seed, **options)
    found = find_planner(kind)
    if found.needs_outcomes and not lists_outcomes(model):
        raise ModelError(
            f"{found.name} needs a model that lists its outcomes: a table, or a simulator with "
            f"outcomes(state, action); this {type(model).__name__} does not: use erm-mcts or uct"
        )
    if isinstance(options.get("bonus"), numbers.Real):
        options["bonus"] = _bonus(found, options["bonus"])
    try:
        return found.build(model, beta, seed=seed, **options)
    except TypeError as error:
        if "unexpected keyword argument" in str(error):
            raise OptionError(f"{found.name} does not take these options: {error}") from error
        raise


def lists_outcomes(model: Any) -> bool:
    """Return whether a model can say every outcome of an action, with its probability."""
    return isinstance(model, TabularMDP) or own_method(model, "outcomes") is not None


def _bonus(kind: PlannerKind, constant: Any) -> Any:
    if kind.bonus is None:
        raise OptionError(f"{kind.name} has no exploration bonus; leave out bonus={constant!r}")
    return kind.bonus(constant=real(constant, "bonus", low=0.0))


class AutoPlanner:
    """The planner that suits a model; its plans say which was taken and why.

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem.
    beta : float
        Finite risk level at step 0 (1/cost).
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **options
        Options of the planner; the first in line that takes them is chosen.

    Attributes
    ----------
    kind, reason : str
        Which kind of planner was taken, and why.
    planner : Planner
        The planner itself. What this class lacks is looked up there.

    Raises
    ------
    OptionError
        If no planner that suits the model takes the options.
    """

    def __init__(self, model: Any, beta: float, *, seed: Seed = None, **options: Any) -> None:
        self.model = model
        self._beta = real(beta, "beta", hint="0 is the mean, positive averse, negative seeking")
        self._seed, self._options = seed_sequence(seed), options
        known = {kind.name for kind in list_planners()}
        self._left = [candidate for candidate in _candidates(model) if candidate[0] in known]
        self._take_next(lambda planner: None)

    def _take_next(self, move: Callable[[Any], None]) -> None:
        """Take the next planner in line that takes the options and can ``move``; raise if there is none."""
        refused: OptionError | None = None
        for k, (kind, reason) in enumerate(self._left):
            options = self._options
            if kind == "exact" and not isinstance(self.model, TabularMDP):
                options = {"max_states": _FEW_STATES, **options}
            try:
                planner = make_planner(self.model, self._beta, kind=kind, seed=self._seed, **options)
                if kind == "exact" and not _is_quick(planner.table):
                    continue
                move(planner)
            except OptionError as error:
                refused = refused or error
                continue
            except ModelError:
                if kind != "exact":
                    raise
                continue  # too many states; of a fault in them the next in line speaks
            self.planner, self.kind, self.reason, self._left = planner, kind, reason, self._left[k + 1 :]
            return
        raise refused or OptionError("no planner that suits the model is left")

    @property
    def state(self) -> Any:
        """State of the root."""
        return self.planner.state

    @property
    def step(self) -> int:
        """Step h of the root."""
        return int(self.planner.step)

    def plan(
        self,
        iterations: int | None = None,
        seconds: float | None = None,
        *,
        threads: int = 1,
        until: Callable[[Any], bool] | None = None,
        progress: PlanProgress = None,
        checkpoint: str | Path | None = None,
        every: float = 60.0,
    ) -> Any:
        """Plan with the chosen planner; the plan's ``planner`` and ``reason`` say which and why.

        Where it is a search of trees, ``threads`` is for them; where not, the plan's ``notes`` say so. ``checkpoint``
        and ``every`` are as for :meth:`tailwise.search.RootedSearch.plan`; a planner that keeps none is an error.
        """
        kept = checkpointed(self.planner, checkpoint, every)
        plan: Any = plan_in_threads(
            self.planner, threads, iterations=iterations, seconds=seconds, until=until, progress=progress, **kept
        )
        reason = self.reason
        if getattr(plan, "states_recur", True) is False:
            reason += "; its states come back too seldom, so that new ones are played to the end, as in a tree"
        hidden = [note for note in getattr(self.model, "notes", ()) if note.startswith(AS_IF_SEEN)]
        if hidden and hasattr(plan, "notes"):
            plan = dataclasses.replace(plan, notes=(*plan.notes, *hidden))
        return dataclasses.replace(plan, planner=self.kind, reason=reason)

    def advance(self, action: Any, state: Any) -> None:
        """Move the root to ``state``, which was observed after ``action`` was taken."""
        h = self.step + 1
        self._move(lambda planner: planner.advance(action, state), lambda planner: planner.reset(state, h))

    def reset(self, state: Any = None, step: int = 0) -> None:
        """Move the root to any decision and forget what was found."""
        self._move(lambda planner: planner.reset(state, step), lambda planner: planner.reset(state, step))

    def _move(self, move: Callable[[Any], None], instead: Callable[[Any], None]) -> None:
        """Move the root; where too much lies ahead of it to be listed, the next planner in line goes on."""
        try:
            move(self.planner)
        except (OptionError, ModelError) as error:
            if (self.kind, type(error)) not in (("bounded", OptionError), ("exact", ModelError)):
                raise
            try:
                self._take_next(instead)
            except OptionError:
                pass
            else:
                return
            raise

    def fresh(self, seed: Seed = None) -> Self:
        """Return an equal planner at the model's start, with a new seed."""
        other = copy.copy(self)
        other._seed = seed_sequence(seed)
        other.planner = self.planner.fresh(other._seed)
        return other

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "planner":
            raise AttributeError(name)
        return getattr(self.planner, name)

    def __repr__(self) -> str:
        return f"AutoPlanner(kind={self.kind!r}, reason={self.reason!r})"


def _is_quick(table: TabularMDP) -> bool:
    """Whether backward induction takes no longer than a search would."""
    work, space = table.num_outcomes * table.horizon, 12 * (table.horizon + 1) * table.num_states
    return work <= _QUICK_SWEEP and space <= _QUICK_BYTES


def _candidates(model: Any) -> Iterator[tuple[str, str]]:
    """Yield (kind, reason) of what suits the model, best first."""
    if isinstance(model, TabularMDP):
        if _is_quick(model):
            yield "exact", f"a table of {model.num_outcomes:,} outcomes and {model.horizon} steps is solved at once"
    elif lists_outcomes(model):
        yield "exact", f"{model_name(model)} lists its outcomes and reaches few states, so that it is solved at once"
    if lists_outcomes(model):
        yield "bounded", f"{model_name(model)} lists its outcomes, so that the best action can be proven"
    yield "learned", f"{model_name(model)} is sampled, and what was drawn is kept as a learned model"
    yield "tree", f"{model_name(model)} is searched by a tree whose rules need no constant"
    yield "erm-mcts", f"{model_name(model)} is searched by the paper's tree, which takes these options"
