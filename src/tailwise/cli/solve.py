"""``tailwise solve``: the exact optimum of a table, or of a simulator that lists its outcomes."""

from __future__ import annotations

from typing import Annotated

import typer

from tailwise.cli import options as given
from tailwise.cli.output import number, print_json, say, show_table


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("solve")
    def solve(
        model: given.Model,
        beta: given.Beta,
        state: given.State = None,
        step: Annotated[int, typer.Option(help="Decide at this step h.")] = 0,
        horizon: given.Horizon = None,
        discount: given.Discount = None,
        json: given.Json = False,
    ) -> None:
        """Solve a table, or a simulator that lists its outcomes, exactly by backward induction (the paper's ERM-BI)."""
        from tailwise.cli.models import find_state, load_model, state_text
        from tailwise.errors import ModelError
        from tailwise.planners import ExactPlanner
        from tailwise.planners.make import lists_outcomes

        problem = load_model(model, horizon=horizon, discount=discount)
        if not lists_outcomes(problem):
            raise ModelError(
                f"{model} is a simulator that does not list its outcomes, which cannot be solved exactly; use "
                f"'tailwise plan {model}'"
            )
        planner = ExactPlanner(problem, beta)
        planner.reset(find_state(problem, state), step)
        found, shown = planner.decision(), state_text(problem, planner.state)
        if json:
            print_json(
                {
                    "model": problem.name, "horizon": problem.horizon, "discount": problem.discount,
                    **found.to_dict(), "state": shown, "q_values": {row.label: row.erm for row in found.rows},
                    "actions": [{"action": r.action, "label": r.label, "value": r.erm} for r in found.rows],
                }
            )  # fmt: skip
            return
        say(
            f"{problem.name}  {planner.table.num_states} states, horizon {problem.horizon}, discount "
            f"{problem.discount:g}; beta {beta:g}, numbers are {problem.sense}s"
        )
        say(f"Optimal from state {shown} at step {step}: ERM {found.value:.9g}", "bold")
        tied = [row.label for row in found.rows if row.action in found.optimal_actions]
        if len(tied) > 1:
            say(f"{len(tied)} actions tie: {', '.join(tied)}")
        rows = [
            (r.label, f"{r.erm:.9g}", number(abs(r.erm - found.value)), "yes" if r.label in tied else "")
            for r in found.rows
        ]
        best = [row.label for row in found.rows].index(found.label)
        show_table(("action", "ERM", "regret", "optimal"), rows, best=best)
