"""``tailwise solve``: the exact optimum of a table, or of a simulator that lists its outcomes."""

from __future__ import annotations

from typing import Annotated

import typer

from tailwise._progress import activity
from tailwise._text import number
from tailwise.cli import options as given
from tailwise.cli.output import check_report, print_json, save_decision, say, show_table


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("solve")
    def solve(
        model: given.Model,
        beta: Annotated[
            float | None,
            typer.Option("--beta", "-b", help="Least ERM at this risk level: > 0 averse, 0 the mean, < 0 seeking."),
        ] = None,
        evar: Annotated[float | None, typer.Option(help="Least EVaR at this level: 0.95 for the worst 5 %.")] = None,
        cvar: Annotated[float | None, typer.Option(help="Least CVaR of the total at this level.")] = None,
        exceed: Annotated[
            float | None, typer.Option(help="Least probability that the total exceeds this (rewards: falls short).")
        ] = None,
        nested_cvar: Annotated[
            float | None, typer.Option(help="Least CVaR of CVaR at every step, at this level.")
        ] = None,
        within: Annotated[
            float | None, typer.Option(help="Least mean such that --beta's ERM or --cvar's CVaR is within this budget.")
        ] = None,
        state: given.State = None,
        step: Annotated[int, typer.Option(help="Decide at this step h (with --beta).")] = 0,
        iterations: Annotated[
            int | None,
            typer.Option(
                "--iterations",
                "-n",
                parser=given.whole,
                metavar="NUMBER",
                help="Do not solve: learn from so many episodes, as 1e4, and judge the plan on fresh ones. For models "
                "that cannot list their outcomes; not with --beta alone.",
            ),
        ] = None,
        episodes: Annotated[
            int, typer.Option("--episodes", "-e", parser=given.whole, metavar="NUMBER", help="Fresh episodes, with -n.")
        ] = 2000,
        seed: Annotated[int, typer.Option(help="Seed of all randomness, with -n.")] = 0,
        threads: given.Threads = 1,
        horizon: given.Horizon = None,
        discount: given.Discount = None,
        report: given.Report = None,
        json: given.Json = False,
    ) -> None:
        """Solve a table, or a simulator with outcomes, exactly: for ERM (the paper's ERM-BI) or other aims."""
        from tailwise.cli.aims import sample_aim, solve_aim
        from tailwise.cli.models import find_state, load_model, load_solvable, load_table, state_text
        from tailwise.errors import OptionError
        from tailwise.planners import ExactPlanner

        check_report(report)
        aims = {"beta": beta, "evar": evar, "cvar": cvar, "exceed": exceed, "nested-cvar": nested_cvar}
        chosen = [name for name, value in aims.items() if value is not None]
        if len(chosen) != 1:
            found_aims = " and ".join(f"--{name}" for name in chosen) or "none"
            raise OptionError(f"give one aim: --beta, --evar, --cvar, --exceed or --nested-cvar, not {found_aims}")
        if within is not None and chosen[0] not in ("beta", "cvar"):
            raise OptionError(f"--within goes with --beta (ERM) or --cvar, not with --{chosen[0]}")
        if iterations is not None:
            if step or state is not None:
                raise OptionError("--iterations samples whole episodes: leave out --step and --state")
            problem, amount = load_model(model, horizon=horizon, discount=discount), aims[chosen[0]]
            sample_aim(problem, chosen[0], amount, within, iterations, episodes, seed, report=report, json=json)
            return
        if beta is None or within is not None:
            if step:
                raise OptionError(f"--{chosen[0]} is an aim for the whole total: it plans from step 0, not {step}")
            table = load_table(model, horizon=horizon, discount=discount, state=state)
            amount = float(aims[chosen[0]] or 0.0)
            solve_aim(table, chosen[0], amount, within=within, threads=threads, report=report, json=json)
            return
        problem = load_solvable(model, horizon=horizon, discount=discount, beta=beta)
        with activity("listing states"):
            planner = ExactPlanner(problem, beta, threads=threads)
        planner.reset(find_state(problem, state), step)
        found, shown = planner.decision(progress=True), state_text(problem, planner.state)
        if report is not None:
            save_decision(found, report)
        if json:
            print_json(
                {
                    "model": problem.name, "horizon": problem.horizon, "discount": problem.discount,
                    **found.to_dict(), "state": shown, "action": found.label, "action_id": found.action,
                    "q_values": {row.label: row.erm for row in found.rows},  # by label, as "action" is
                    "actions": [{"action": r.action, "label": r.label, "value": r.erm} for r in found.rows],
                }
            )  # fmt: skip
            return
        say(
            f"{problem.name}  {planner.table.num_states} states, horizon {problem.horizon}, discount "
            f"{problem.discount:g}; beta {beta:g}, numbers are {problem.sense}s"
        )
        for note in getattr(problem, "notes", ()):
            say(f"Note: {note}", "dim")
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
