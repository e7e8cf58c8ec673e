"""``tailwise solve``: the exact optimum of a table, or of a simulator that lists its outcomes."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from tailwise.cli.options import (
    BetaOption,
    DiscountOption,
    HorizonOption,
    JsonOption,
    ModelArgument,
    StateOption,
)
from tailwise.cli.output import console, number, print_json, table


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("solve")
    def solve(
        model: ModelArgument,
        beta: BetaOption,
        state: StateOption = None,
        step: Annotated[int, typer.Option(help="Decide at this step h.")] = 0,
        horizon: HorizonOption = None,
        discount: DiscountOption = None,
        json: JsonOption = False,
    ) -> None:
        """Solve a table, or a simulator that lists its outcomes, exactly by backward induction (the paper's ERM-BI)."""
        from tailwise.cli.models import find_state, load_model
        from tailwise.errors import ModelError, StateError
        from tailwise.models import TabularMDP, tabulate
        from tailwise.models.simulator import own_method
        from tailwise.planners import backward_induction

        mdp = load_model(model, horizon=horizon, discount=discount)
        if not isinstance(mdp, TabularMDP):
            if own_method(mdp, "outcomes") is None:
                raise ModelError(
                    f"{model} is a simulator that does not list its outcomes, which cannot be solved exactly; use "
                    f"'tailwise plan {model}'"
                )
            if state is not None:  # the table holds what can be reached from there
                mdp.start, state = find_state(mdp, state), None
            mdp = tabulate(mdp)
        root = mdp.start if state is None else mdp.find_state(state)
        solution = backward_induction(mdp, beta)
        values = solution.action_values(step)[root]
        best = solution.optimal_actions(step, root).tolist()
        allowed = [int(action) for action in mdp.actions(root)]
        if not allowed:
            raise StateError(f"no action is allowed in state {mdp.state_name(root)}; there is nothing to decide")
        value = float(solution.values[step, root])
        if json:
            print_json(
                {
                    "model": mdp.name, "beta": beta, "sense": mdp.sense, "horizon": mdp.horizon,
                    "discount": mdp.discount, "state": mdp.state_name(root), "step": step, "value": value,
                    "action": best[0], "label": mdp.action_name(best[0]), "optimal_actions": best,
                    "q_values": {mdp.action_name(a): values[a] for a in allowed},
                    "actions": [{"action": a, "label": mdp.action_name(a), "value": values[a]} for a in allowed],
                }
            )  # fmt: skip
            return
        out = console()
        out.print(
            f"[bold]{mdp.name}[/bold]  {mdp.num_states} states, horizon {mdp.horizon}, discount {mdp.discount:g}; "
            f"beta {beta:g}, numbers are {mdp.sense}s"
        )
        out.print(f"Optimal from state {mdp.state_name(root)} at step {step}: ERM [bold]{value:.9g}[/bold]")
        if len(best) > 1:
            out.print(f"{len(best)} actions tie: {', '.join(map(mdp.action_name, best))}")
        gap = np.abs(values - value)
        rows = [
            (mdp.action_name(a), f"{values[a]:.9g}", number(gap[a]), "optimal" if a in best else "") for a in allowed
        ]
        out.print(table(("action", "ERM", "regret", ""), rows, best=allowed.index(best[0])))
