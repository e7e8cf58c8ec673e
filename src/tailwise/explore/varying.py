"""What if one number of a table were another, as a slider has it: the decision as it is and as it would be."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from tailwise._validate import real
from tailwise.exact import solve
from tailwise.models import TabularMDP
from tailwise.models.table_changes import changed, largest_factor
from tailwise.risk.objectives import ERM
from tailwise.search import Plan

LEAST_FACTOR, MOST_FACTOR = 0.5, 2.0
_NAME = re.compile(r"[^\[\]()=*]+|\([^\[\]()=*]*\)")  # of a state or action, as it can be written in a change
_MOST_NUMBERS = 500  # suggested of each kind


@dataclass(frozen=True)
class Varied:
    """A number of the model, in the words of ``tailwise whatif``, and the factor by which it is multiplied."""

    number: str = ""
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class Answers:
    """The decision in the first state of a model as it is, and as it would be."""

    varied: Varied
    base: Plan
    changed: Plan


def vary(table: TabularMDP, asked: Varied) -> tuple[TabularMDP, Varied]:
    """Return the table with a number multiplied, and by what: a probability grows until it is 1."""
    factor = real(asked.factor, "factor", low=LEAST_FACTOR, high=MOST_FACTOR)
    possible = min(factor, largest_factor(table, asked.number))
    return changed(table, f"{asked.number}*={possible!r}"), Varied(asked.number, possible)


def answers(table: TabularMDP, beta: float, asked: Varied, base: Plan | None = None) -> Answers:
    """Solve a table as it is, where ``base`` is not known from before, and as it would be."""
    other, varied = vary(table, asked)
    if base is None:
        base = solve(table, ERM(beta)).plan(distributions=False)
    return Answers(varied, base, solve(other, ERM(beta)).plan(distributions=False))


def numbers_of(table: TabularMDP) -> tuple[str, ...]:
    """Return numbers that can be varied, as ``cost[good,run]`` and ``p[good,run,failed]``; of many, some."""
    owners = table.outcome_rows
    costs = np.unique(owners[table.losses != 0.0])[:_MOST_NUMBERS]
    chances = np.flatnonzero((table.probabilities > 0.0) & (table.probabilities < 1.0 - 1e-12))[:_MOST_NUMBERS]
    states, actions = _words(table.state_labels, table.num_states), _words(table.action_labels, table.num_actions)

    def pair(row: int) -> str:
        return f"{states[table.row_states[row]]},{actions[table.action_ids[row]]}"

    found = [f"{table.sense}[{pair(row)}]" for row in costs.tolist()]
    found += [f"p[{pair(int(owners[k]))},{states[table.next_states[k]]}]" for k in chances.tolist()]
    return tuple(dict.fromkeys(found))


def _words(labels: tuple[str, ...], size: int) -> list[str]:
    """Return names that can be written in a change: the labels, or else the indices."""
    counts = Counter(labels)
    return [
        label
        if _NAME.fullmatch(label) and label == label.strip() and counts[label] == 1 and not label.isdecimal()
        else str(k)
        for k, label in enumerate(labels or [""] * size)
    ]
