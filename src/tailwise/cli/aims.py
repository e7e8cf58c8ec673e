"""``tailwise solve`` for other aims than the entropic risk: EVaR, CVaR, a budget, a constraint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailwise._progress import activity
from tailwise._text import number, span
from tailwise.cli.output import print_json, save_report, say, show_table

if TYPE_CHECKING:
    from tailwise.models import TabularMDP


def solve_aim(
    mdp: TabularMDP, aim: str, amount: float, *, within: float | None, threads: int, report: Path | None, json: bool
) -> None:
    """Find the plan for one aim, and show it beside the risk-neutral one.

    Parameters
    ----------
    mdp : TabularMDP
        The problem, from its start.
    aim : {"beta", "evar", "cvar", "nested-cvar", "exceed"}
        What is made least, or constrained.
    amount : float
        The level, or the total that should not be exceeded.
    within : float or None
        A budget for the risk; what is made least is then the mean.
    threads : int
        Threads of each solve, where the aim is EVaR; the other aims keep to one, and the output says so.
    report : Path or None
        Where a report goes.
    json : bool
        Print one JSON object.
    """
    from tailwise.evaluation.risk_frontier import policy_law
    from tailwise.exact import (
        ReturnDistribution,
        TotalPlan,
        backward_induction,
        constrained_planning,
        cvar_planning,
        evar_planning,
        exceedance_planning,
        nested_cvar_planning,
    )
    from tailwise.search.anytime import one_thread

    plan: Any
    if within is not None:
        is_erm = aim == "beta"
        risk: dict[str, Any] = {"beta" if is_erm else "level": amount}
        plan = constrained_planning(mdp, within, **risk, progress=True)
    elif aim == "evar":
        plan = evar_planning(mdp, amount, threads=threads, progress=True)
    elif aim == "nested-cvar":
        plan = nested_cvar_planning(mdp, amount, progress=True)
    else:
        plan = (cvar_planning if aim == "cvar" else exceedance_planning)(mdp, amount, progress=True)
    with activity("laying out the totals"):
        if isinstance(plan, TotalPlan):
            law = ReturnDistribution(plan.totals, plan.probabilities, mdp.sense, plan.tolerance)
        else:
            law = policy_law(mdp, plan)
        neutral = policy_law(mdp, backward_induction(mdp, 0.0))
    level = amount if aim in ("evar", "cvar", "nested-cvar") else 0.95
    rows = {"this plan": _measures(law, level), "risk-neutral": _measures(neutral, level)}
    side = "above" if mdp.sense == "cost" else "below"
    what = {
        "evar": f"EVaR at {amount:g}",
        "cvar": f"CVaR at {amount:g}",
        "nested-cvar": f"Nested CVaR at {amount:g}",
        "exceed": f"Probability of a total {side} {amount:g}",
        "beta": f"ERM at {amount:g}",
    }[aim]
    if within is not None:
        what = f"Mean, with {what} within {within:g} ({plan.risk:.6g})"
    gap = getattr(plan, "gap", 0.0)
    found = f"{what}: {plan.value:.9g}" + (f"; no plan is better by more than {gap:.2g}" if gap else ", exact")
    if report is not None:
        from tailwise.report import literal, plans_report

        state, action = literal(mdp.state_name(mdp.start)), literal(mdp.action_name(plan.action))
        title, said = f"Take {action}", f"In state **{state}**: take **{action}**. {found}."
        laws = [("this plan", law), ("risk-neutral", neutral)]
        used = {"aim": aim, "amount": amount, "within": within}
        save_report(plans_report(title, said, laws, model=mdp, settings=used), report)
    if json:
        content = {
            "model": mdp.name, "aim": aim, "amount": amount, "sense": mdp.sense, "horizon": mdp.horizon,
            "discount": mdp.discount, "state": mdp.state_name(mdp.start), "value": plan.value,
            "gap": getattr(plan, "gap", 0.0), "within": within,
            "action": plan.action, "label": mdp.action_name(plan.action), "beta": getattr(plan, "beta", None),
            "plans": rows,
        }  # fmt: skip
        print_json(content)
        return
    alone = () if aim == "evar" and within is None else one_thread(threads, f"--{aim} keeps to one")
    for note in (*mdp.notes, *alone):
        say(f"Note: {note}", "dim")
    say(f"Take {mdp.action_name(plan.action)} in state {mdp.state_name(mdp.start)}.", "bold")
    say(found)
    if isinstance(plan, TotalPlan):
        say("Its actions depend on what was paid so far; planning again for the rest is another aim.")
    elif aim == "evar":
        say(f"It is the plan of least ERM at beta {plan.beta:.6g}; keep to that beta at every step.")
    columns = tuple(rows["this plan"])
    cells = [(name, *map(number, row.values())) for name, row in rows.items()]
    show_table(("plan", *columns), cells, best=0, spare=("std", columns[2]))


def sample_aim(
    model: Any,
    aim: str,
    amount: Any,
    within: float | None,
    iterations: int,
    episodes: int,
    seed: int,
    *,
    report: Path | None,
    json: bool,
) -> None:
    """Plan for one aim on a learned model, judge the plan on fresh episodes, and show what they say."""
    from tailwise.evaluation import sampled_planning

    limits: dict[str, Any] = {"iterations": iterations, "episodes": episodes, "seed": seed, "progress": True}
    found = sampled_planning(model, **{aim.replace("-", "_"): amount}, within=within, **limits)
    if report is not None:
        from tailwise.report import literal, plans_report

        kept = "" if within is None else f" The budget {within:g} is {'kept' if found.is_kept else 'not kept'} on them."
        said = (
            f"Take **{literal(found.label)}**. {found.aim}: **{number(found.value)}**, 90 % interval "
            f"{span(*found.interval)}, on {found.returns.episodes:,} fresh episodes (under what was "
            f"learned {number(found.believed)}, which is too good).{kept} {' '.join(map(literal, found.notes))} Of "
            "outcomes too rare to be drawn it knows nothing. Its actions depend on what was paid so far."
        )
        used = {"aim": aim, "amount": amount, "within": within, "seed": seed, "iterations": iterations}
        fresh = [("this plan", found.returns)]
        save_report(plans_report(f"Take {literal(found.label)}", said, fresh, model=model, settings=used), report)
    if json:
        content = {key: value for key, value in found.to_dict().items() if key != "returns"}
        print_json({"model": getattr(model, "name", ""), "sense": model.sense, "seed": seed, **content})
        return
    say(f"Take {found.label}.", "bold")
    say(
        f"{found.aim}: {number(found.value)}, 90 % interval {span(*found.interval)}, mean "
        f"{number(found.mean)}, on {found.returns.episodes} fresh episodes (under what was learned "
        f"{number(found.believed)})"
    )
    if within is not None:
        say(f"The budget {within:g} is {'kept' if found.is_kept else 'NOT kept'} on these episodes.")
    for note in found.notes:
        say(f"Note: {note}", "yellow")
    level = amount if aim in ("evar", "cvar", "nested-cvar") else 0.95
    rows = _measures(found.returns, level)
    show_table(("plan", *rows), [("this plan", *map(number, rows.values()))], spare=("std",))
    say("An estimate: of outcomes too rare to be drawn it knows nothing. Its actions depend on what was paid so far.")


def _measures(law: Any, level: float) -> dict[str, float]:
    """Return the measures of a law, by the head of their column."""
    worst = law.maximum if law.sense == "cost" else law.minimum
    return {
        "mean": law.mean, "std": law.std, f"VaR {level:g}": law.var(level), f"CVaR {level:g}": law.cvar(level),
        f"EVaR {level:g}": law.evar(level), "worst": worst,
    }  # fmt: skip
