"""What if a number of the model were another: decisions side by side, and the change at which the decision turns.

Each changed table is solved anew. Where an objective of the total has too many totals to list, on a grid that is coarse
enough for many tables; the values are then those of the grid, which overstates all of them alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tailwise._progress import Progress, followed
from tailwise._results import Columns, Result, Shown, Tabled, aligned, amounts, number, plain, report_layer
from tailwise._validate import listing, real
from tailwise.errors import ModelError, OptionError
from tailwise.exact import solve
from tailwise.exact.grid_totals import GridTotals
from tailwise.exact.totals import reach_totals
from tailwise.models import TabularMDP, tabulate
from tailwise.models.contract import Sense
from tailwise.models.table_changes import changed, largest_factor
from tailwise.risk.objectives import Objective, as_objective

if TYPE_CHECKING:
    from plotly import graph_objects as go

_LARGEST_FACTOR = 8.0
_SCAN, _HALVINGS = 12, 30  # factors on either side of 1, and bisections between two of them
_ROUGH_SCAN, _ROUGH_HALVINGS, _ROUGH_EFFORT = 4, 6, 0.05  # on a grid
_ROUGHLY_EQUAL = 1e-3  # of a value on a grid


@dataclass(frozen=True)
class Scenario(Result):
    """A changed model and its decision. Numbers are in the model's sense.

    Attributes
    ----------
    name : str
        What was changed; "as it is" for the model itself.
    action : object
        The best first action.
    label : str
        Its name.
    value : float
        The objective of the best plan.
    kept : float
        The objective with the model's own best action first, and the best ones after it.
    gap : float
        How much better than ``value`` a plan may be at most: 0, but on a grid of totals.
    """

    name: str
    action: Any
    label: str
    value: float
    kept: float
    gap: float = 0.0


class _Rows(Shown, Tabled):
    """A table with a headline."""

    @property
    def headline(self) -> str:
        """What the rows are, in a line."""
        raise NotImplementedError

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The rows as a table of texts, by heading."""
        return {name: tuple(map(_cell, column)) for name, column in self.to_columns().items()}

    def __str__(self) -> str:
        return "\n".join([self.headline, *aligned(self.columns)])


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return number(value, 9) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class WhatIf(_Rows):
    """Decisions of a model and of what it might be, side by side; ``to_frame()`` has a row for each.

    Attributes
    ----------
    objective : Objective
        What is made best.
    sense : "cost" or "reward"
        What the numbers are.
    scenarios : tuple of Scenario
        The first is the model as it is.
    """

    objective: Objective
    sense: Sense
    scenarios: tuple[Scenario, ...]

    def to_dict(self) -> dict[str, object]:
        """Return it as plain values, ready for ``json.dumps``."""
        return {"objective": self.objective.words, "sense": self.sense, "scenarios": plain(self.scenarios)}

    def to_columns(self) -> Columns:
        """Return the table column by column, by name."""
        base = self.scenarios[0]
        return {
            "scenario": [one.name for one in self.scenarios],
            "action": [one.label for one in self.scenarios],
            "turns": [one.label != base.label for one in self.scenarios],
            "value": [one.value for one in self.scenarios],
            "change": [
                0.0 if math.isclose(one.value, base.value, rel_tol=1e-12) else one.value - base.value
                for one in self.scenarios
            ],
            f"value with {base.label}": [one.kept for one in self.scenarios],
        }

    @property
    def headline(self) -> str:
        """What the rows are, in a line."""
        return f"{self.objective.words} ({amounts(self.sense)})" + _roughly(self.scenarios)


def _roughly(scenarios: Iterable[Scenario]) -> str:
    gap = max((scenario.gap for scenario in scenarios), default=0.0)
    rough = f"; totals on a grid: plans may be better by at most {number(gap)}, differences below 0.1 % are none"
    return rough if gap > 0.0 else ""


class Turn(NamedTuple):
    """The nearest factor, below or above 1, from which on another action is the best."""

    factor: float
    label: str


@dataclass(frozen=True)
class Influence(Result):
    """What one number of a model does to its decision.

    Attributes
    ----------
    name : str
        The number, as ``cost[run,failed]``.
    low, high : Scenario
        With the number less, and more, by ``spread``.
    below, above : Turn or None
        Where the decision turns if it is multiplied; None: nowhere that was looked at, from 1/8 to 8 times (of a
        probability, as far as it can go).
    """

    name: str
    low: Scenario
    high: Scenario
    below: Turn | None
    above: Turn | None


@dataclass(frozen=True)
class Sensitivity(_Rows):
    """What some numbers of a model do to its decision, those of most effect first; ``to_frame()`` has a row for each.

    Attributes
    ----------
    objective : Objective
        What is made best.
    sense : "cost" or "reward"
        What the numbers are.
    spread : float
        By which share each number was changed.
    base : Scenario
        The model as it is.
    influences : tuple of Influence
        One for each number.
    """

    objective: Objective
    sense: Sense
    spread: float
    base: Scenario
    influences: tuple[Influence, ...]

    def to_dict(self) -> dict[str, object]:
        """Return it as plain values, ready for ``json.dumps``."""
        shown = {"objective": self.objective.words, "sense": self.sense, "spread": self.spread}
        return {**shown, "base": plain(self.base), "influences": plain(self.influences)}

    def to_columns(self) -> Columns:
        """Return the table column by column, by name."""
        rows = self.influences
        return {
            "number": [one.name for one in rows],
            "value if less": [one.low.value for one in rows],
            "action if less": [one.low.label for one in rows],
            "value if more": [one.high.value for one in rows],
            "action if more": [one.high.label for one in rows],
            "turns below": [math.nan if one.below is None else one.below.factor for one in rows],
            "turns above": [math.nan if one.above is None else one.above.factor for one in rows],
        }

    def plot(self) -> go.Figure:
        """Draw a tornado chart, as :func:`tailwise.report.plots.tornado`: a plotly figure (extra ``report``)."""
        drawn: go.Figure = report_layer("plots").tornado(self)
        return drawn

    @property
    def headline(self) -> str:
        """What the rows are, in a line."""
        rough = _roughly([scenario for one in self.influences for scenario in (one.low, one.high)])
        return (
            f"{self.base.label} is best: {self.objective.words} {number(self.base.value)} ({amounts(self.sense)}); "
            f"each number {self.spread:.0%} less and more, and the factors at which the decision turns"
            + (rough + ": a turn where actions differ by less may be elsewhere, or none" if rough else "")
        )


def what_if(
    model: Any,
    objective: Objective | float,
    scenarios: Mapping[str, str | Sequence[str]] | Iterable[str],
    *,
    progress: Progress | bool | None = None,
) -> WhatIf:
    """Solve a model as it is and as it might be.

    Parameters
    ----------
    model : TabularMDP, or simulator that lists its outcomes
        The problem.
    objective : Objective or float
        What is wanted of the total; a number is the beta of ``ERM(beta)``.
    scenarios : iterable of str, or mapping of str to (sequence of) str
        Changes, each a scenario; or scenarios by name, each of one or several changes, which are made in order. A
        change is ``cost[state,action]=60000``, ``cost[state,action,next state]+=5``, ``p[state,action,next
        state]*=1.5``, ``end[state]=9``, ``discount=.9`` or ``horizon=8``; ``reward`` in place of ``cost`` where the
        model has rewards. States and actions are labels or indices, ``*`` is any, and the action may be named first
        where no state is called so. Where a probability changes, the others of its row keep their proportions.
    progress : bool or callable, optional
        Shows how far it is.

    Returns
    -------
    WhatIf

    Raises
    ------
    OptionError
        If a change cannot be read, matches nothing, or leaves no distribution.

    Examples
    --------
    >>> from tailwise import domains, what_if
    >>> found = what_if(domains.make("mdp-4"), 0.5, ["cost[s1]*=4"])
    >>> [scenario.label for scenario in found.scenarios]
    ['safe', 'risky']
    """
    wanted, table = as_objective(objective), tabulate(model)
    if isinstance(scenarios, Mapping):
        named = dict(scenarios)
    else:
        named = {str(change): change for change in listing(scenarios, "scenarios", "changes, or changes by name")}
    lists = {
        name: [changes] if isinstance(changes, str) else listing(changes, f"scenario {name}", "changes")
        for name, changes in named.items()
    }
    tables = {name: _all_changed(table, name, changes) for name, changes in lists.items()}  # errors before the work
    solver = _Solver(table, wanted)
    base = solver.solved("as it is", table)
    found = [base]
    with followed(progress, "scenarios", len(tables)) as watch:
        for k, (name, changed_table) in enumerate(tables.items()):
            found.append(solver.solved(name, changed_table, base.action))
            watch(k + 1)
    return WhatIf(wanted, table.sense, tuple(found))


def sensitivity(
    model: Any,
    objective: Objective | float,
    numbers: Iterable[str],
    *,
    spread: float = 0.2,
    progress: Progress | bool | None = None,
) -> Sensitivity:
    """Change some numbers of a model one by one, and find where each turns the decision.

    Parameters
    ----------
    model : TabularMDP, or simulator that lists its outcomes
        The problem.
    objective : Objective or float
        What is wanted of the total; a number is the beta of ``ERM(beta)``.
    numbers : iterable of str
        Such as ``cost[state,action]`` and ``p[state,action,next state]``; see :func:`what_if`.
    spread : float in (0, 1), default 0.2
        By which share each is changed.
    progress : bool or callable, optional
        Shows how far it is.

    Returns
    -------
    Sensitivity
        Where the decision turns is looked for at 12 factors on either side, up to 8 times as much and as little, and
        then between two of them by bisection: a decision that turns and turns back between two factors is not seen.
        On a grid of totals, which takes seconds for each, it is 4 factors, and within 1 %.

    Raises
    ------
    OptionError
        If a number cannot be read or matches nothing.

    Examples
    --------
    >>> from tailwise import domains, sensitivity
    >>> found = sensitivity(domains.make("mdp-4"), 0.5, ["cost[s1]"]).influences[0]
    >>> round(found.above.factor, 3), found.above.label
    (1.909, 'risky')
    """
    wanted, table, names = as_objective(objective), tabulate(model), listing(numbers, "numbers", "texts")
    share = real(spread, "spread", low=0.0, high=1.0, ends="()")
    most = [largest_factor(table, name) for name in names]
    solver = _Solver(table, wanted)
    base, found = solver.solved("as it is", table), []
    with followed(progress, "numbers", len(names)) as watch:
        for k, (name, largest) in enumerate(zip(names, most, strict=True)):

            def at(factor: float, name: str = name, largest: float = largest) -> Scenario:
                change = f"{name}*={min(factor, largest)!r}"
                return solver.solved(change, changed(table, change), base.action)

            ends = 1.0 / _LARGEST_FACTOR, min(_LARGEST_FACTOR, largest)
            below, above = (_turn(at, base, end, solver.is_rough) for end in ends)
            found.append(Influence(name, at(1.0 - share), at(1.0 + share), below, above))
            watch(k + 1)
    found.sort(
        key=lambda one: min(one.low.value, one.high.value, base.value) - max(one.low.value, one.high.value, base.value)
    )
    return Sensitivity(wanted, table.sense, share, base, tuple(found))


def _all_changed(table: TabularMDP, name: str, changes: Iterable[str]) -> TabularMDP:
    for change in changes:
        table = changed(table, change)
    try:
        table.require_sound(endless=True)
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from None
    return table


class _Solver:
    """Solves tables for an objective, with a share of the work that is 1 where totals can be listed."""

    def __init__(self, table: TabularMDP, objective: Objective) -> None:
        self.objective = objective
        counts = objective.needs_accrued and table.horizon is not None
        self.is_rough = counts and isinstance(reach_totals(table), GridTotals)

    def solved(self, name: str, table: TabularMDP, keep: Any = None) -> Scenario:
        policy = solve(table, self.objective, effort=_ROUGH_EFFORT if self.is_rough else 1.0)
        if not isinstance(policy.graph, GridTotals):
            plan = policy.plan(distributions=False)
            other = (row.value for row in plan.rows if row.action == keep)
            kept = plan.value if keep is None else next(other, math.nan)
            return Scenario(name, plan.action, plan.label, plan.value, kept)
        action = policy.action
        value = policy.distribution(action).risk(self.objective)
        kept = value
        if keep not in (None, action):
            try:
                kept = policy.distribution(keep).risk(self.objective)
            except OptionError:  # left out: another is better whatever happens
                kept = math.nan
            if value > kept if table.sense == "cost" else value < kept:  # the grid told them apart wrongly
                action, value = keep, kept
        gap = max(0.0, policy.gap - abs(policy.value - value))  # that value is of the plan as it is followed, no better
        return Scenario(name, action, table.action_name(action), value, kept, gap)


def _turn(at: Callable[[float], Scenario], base: Scenario, end: float, is_rough: bool) -> Turn | None:
    """Return the nearest factor towards ``end`` from which on another action is better."""
    same = 1.0
    scan, halvings = (_ROUGH_SCAN, _ROUGH_HALVINGS) if is_rough else (_SCAN, _HALVINGS)
    for k in range(1, scan + 1):
        factor = end ** (k / scan)
        found = at(factor)
        if not _turned(found, base):
            same = factor
            continue
        for _ in range(halvings):
            middle = math.sqrt(same * factor)
            there = at(middle)
            if _turned(there, base):
                factor, found = middle, there
            else:
                same = middle
        return Turn(factor, found.label)
    return None


def _turned(found: Scenario, base: Scenario) -> bool:
    level = _ROUGHLY_EQUAL * abs(found.value) if found.gap > 0.0 else 0.0
    return found.action != base.action and not abs(found.kept - found.value) <= level
