"""``tailwise evaluate``: play a planner in closed loop and measure the risk of what happens."""

from __future__ import annotations

from typing import Any

import typer

from tailwise._text import number, span
from tailwise.cli import options as given
from tailwise.cli.output import check_report, print_json, save_report, say, show_table, sparkline


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("evaluate")
    def evaluate_command(
        model: given.Model,
        beta: given.BetaOrLevel = None,
        planner: given.Planner = "auto",
        episodes: given.Episodes = 100,
        iterations: given.Iterations = None,
        seconds: given.Seconds = None,
        seed: given.Seed = None,
        threads: given.Threads = 1,
        ray: given.Ray = None,
        workers: given.Workers = None,
        bonus: given.Bonus = None,
        level: given.Level = None,
        horizon: given.Horizon = None,
        discount: given.Discount = None,
        confidence: given.Confidence = 0.9,
        resamples: given.Resamples = 10_000,
        report: given.Report = None,
        json: given.Json = False,
    ) -> None:
        """Play episodes, re-planning at every step, and measure the risk of their totals."""
        from tailwise.cli.models import build_planner, load_model, settle_aim
        from tailwise.evaluation import evaluate
        from tailwise.planners import Planner
        from tailwise.search.policy_mixin import DEFAULT_ITERATIONS

        check_report(report)
        weight, planner = settle_aim(beta, planner, level)
        check_before_work((planner,), confidence, resamples)
        given.check_workers(ray, workers)
        problem = load_model(model, horizon=horizon, discount=discount)
        player = build_planner(problem, weight, planner, bonus=bonus, level=level)
        kind, reason = getattr(player, "kind", planner), getattr(player, "reason", "")
        searches = isinstance(player, Planner) and not hasattr(player, "fixed_policy")
        if iterations is None and seconds is None and searches:
            iterations = DEFAULT_ITERATIONS
        how: dict[str, Any] = {
            "episodes": episodes, "iterations": iterations, "seconds": seconds, "seed": seed, "label": kind,
            "progress": True, "partial": True,
        }  # fmt: skip
        if ray is not None:
            from tailwise import scale

            with given.ray_speaks_aside():
                returns = scale.evaluate(problem, player, address=ray, workers=workers, **how)
        else:
            returns = evaluate(problem, player, threads=threads, **how)
        summary = returns.summary(weight, confidence=confidence, resamples=resamples)
        optimum = None if beta is None else exact_optimum(problem, beta)
        tail = None if level is None else returns.cvar(level)
        if report is not None:
            from tailwise.report import evaluation_report

            used = {"planner": kind, "why": reason or None, "iterations": iterations if searches else None}
            used |= {"seconds": seconds, "episodes": returns.episodes, "seed": seed, "threads": threads}
            document = evaluation_report(returns, summary, model=problem, optimum=optimum, settings=used)
            save_report(document, report)
        if json:
            print_json(
                {
                    "model": model, "planner": kind, "reason": reason, "seed": seed, "optimum": optimum,
                    "iterations": iterations if searches else None, "level": level, "tail": tail,
                    **summary.to_dict(), "totals": returns.costs,
                }
            )  # fmt: skip
        else:
            rows = [(e.measure, number(e.value), span(e.low, e.high, point=False)) for e in summary.estimates]
            if level is not None and tail is not None:
                ends = returns.interval("cvar", level=level, confidence=confidence, resamples=resamples)
                rows.insert(0, (f"CVaR at {level:g}, the aim", number(tail), span(*ends, point=False)))
            count = f"{returns.episodes} episode{'s' * (returns.episodes != 1)}"
            title = f"{kind} on {model}: {count} ({returns.sense}s)"
            show_table(("measure", "value", f"{100 * confidence:g} % interval"), rows, title=title)
            say(sparkline(returns.costs))
            say_optimum(optimum, weight)
            if reason:
                say(f"{kind}: {reason}", "dim")
            say(
                f"intervals (BCa bootstrap) are for what {kind} pays in the long run; an outcome of a probability up "
                f"to {summary.unseen:.2g} may be missing from {count}: it would not show here, nor "
                "widen them",
                "dim",
            )
            for note in summary.notes:
                say(f"note: {note}", "yellow")
        if returns.episodes < episodes:
            raise typer.Exit(130)


def check_before_work(planners: tuple[str, ...], confidence: float, resamples: int) -> None:
    """Raise the error of a wrong option before a large model is loaded and played."""
    from tailwise._validate import integer, real
    from tailwise.planners import find_planner

    for name in planners:
        if name != "auto":
            find_planner(name)
    real(confidence, "confidence", low=0.0, high=1.0, low_open=True, high_open=True)
    integer(resamples, "resamples", low=100)


def exact_optimum(model: Any, beta: float) -> float | None:
    """Return the exact optimal risk of a table that is solved in no time, else None."""
    from tailwise.exact import backward_induction
    from tailwise.models import TabularMDP

    if isinstance(model, TabularMDP) and model.num_outcomes * model.horizon <= 10**8:
        return backward_induction(model, beta).value
    return None


def say_optimum(optimum: float | None, beta: float) -> None:
    """Print the exact optimum where it is known."""
    if optimum is not None:
        say(f"exact optimum at beta {beta:g}: {number(optimum)}")
