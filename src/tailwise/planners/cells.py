"""One table: objective by model by planner. The command ``tailwise planners`` prints it, the docs show it."""

from __future__ import annotations

from dataclasses import dataclass

from tailwise.planners.registry import list_planners
from tailwise.risk.objectives import OBJECTIVES, Objective

NOBODY = "-"


@dataclass(frozen=True)
class Cell:
    """Which kinds of planners pursue an objective, in the order in which "auto" looks through them.

    Attributes
    ----------
    objective : str
        Name of the objective's class.
    listing : tuple of str
        Kinds for models that list their outcomes: tables, and simulators that have ``outcomes``.
    sampled : tuple of str
        Kinds for any model.
    """

    objective: str
    listing: tuple[str, ...]
    sampled: tuple[str, ...]


def objective_cells(objectives: tuple[type[Objective], ...] = OBJECTIVES) -> tuple[Cell, ...]:
    """Return the table of objectives, models and planners.

    Examples
    --------
    >>> from tailwise.planners import objective_cells
    >>> [cell.sampled[0] for cell in objective_cells() if cell.objective == "CVaR"]
    ['cvar-mcts']
    """
    cells = []
    for objective in objectives:
        able = [kind for kind in list_planners() if any(issubclass(objective, one) for one in kind.objectives)]
        listing = tuple(kind.name for kind in able if kind.models == "outcomes")
        cells.append(Cell(objective.__name__, listing, tuple(kind.name for kind in able if kind.models == "any")))
    return tuple(cells)


def as_markdown(cells: tuple[Cell, ...]) -> str:
    """Return the table in Markdown, as the docs show it."""
    lines = ["| objective | models that list their outcomes | any model |", "|---|---|---|"]
    for cell in cells:
        row = (f"`{cell.objective}`", *(", ".join(map("`{}`".format, kinds)) for kinds in (cell.listing, cell.sampled)))
        lines.append("| " + " | ".join(text or NOBODY for text in row) + " |")
    return "\n".join(lines)
