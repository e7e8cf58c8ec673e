"""``tailwise planners``: which planner pursues which objective, on which models, with which options."""

from __future__ import annotations

from dataclasses import asdict

from tailwise.cli import options as given
from tailwise.cli.output import print_json, show_table


def command(json: given.Json = False) -> None:
    """List the planners: the objectives, models and options of each."""
    from tailwise.planners import list_planners, objective_cells
    from tailwise.planners.registry import NOBODY

    cells, kinds = objective_cells(), list_planners()
    if json:
        print_json(
            {
                "objectives": [asdict(cell) for cell in cells],
                "planners": [
                    {
                        "name": kind.name, "summary": kind.summary, "models": kind.models, "hidden": kind.hidden,
                        "objectives": [one.__name__ for one in kind.objectives], "options": kind.options,
                    }
                    for kind in kinds
                ],
            }
        )  # fmt: skip
        return
    show_table(
        ("objective", "models that list their outcomes", "any model"),
        [(one.objective, ", ".join(one.listing) or NOBODY, ", ".join(one.sampled) or NOBODY) for one in cells],
        texts=("objective", "models that list their outcomes", "any model"),
        title="Who pursues an objective; auto takes the first that suits",
    )
    show_table(
        ("planner", "model", "what it is"),
        [(kind.name, kind.needs, kind.summary) for kind in kinds],
        spare=("model",),
        texts=("planner", "model", "what it is"),
    )
