"""``tailwise theory``: the paper's constants and schedules, as logarithms."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from tailwise._results import number
from tailwise.cli import options as given
from tailwise.cli.output import print_json, say, show_table

_FormOption = Annotated[str, typer.Option("--form", help="Which version of the formulas: printed, corrected or tight.")]
_EtaOption = Annotated[float, typer.Option("--eta", help="Exponent eta in [1/2, 1); the rate is n^(eta - 1).")]
_LABELS = {
    "log_c": "ln C",
    "log_theta": "ln theta",
    "log_bonus_constant": "ln theta^(1/xi), the bonus constant",
    "log_coefficient": "ln c, where A(t) = c t^eta'",
    "log_n_p": "ln N_p",
    "log_n_p_prime": "ln N_p'",
    "log_theta_prime": "ln theta', the average's",
    "log_theta_second": "ln theta'', the stream's",
}
_BetaOption = Annotated[float, typer.Option("--beta", "-b", help="Risk level per unit of cost, > 0.")]


command = typer.Typer(no_args_is_help=True, help="The paper's constants and schedules, in logarithms.")


@given.command(command, "schedule")
def schedule_command(
    horizon: Annotated[int, typer.Option("--horizon", "-H", help="Number of decisions H.")],
    beta: _BetaOption,
    eta: _EtaOption = 0.5,
    actions: Annotated[int, typer.Option(help="Actions at a node, K.")] = 2,
    states: Annotated[int, typer.Option(help="Most next states that an action can reach, |S|.")] = 2,
    gap: Annotated[float, typer.Option(help="Gap between the best and the second-best action.")] = 0.1,
    cost_bound: Annotated[float, typer.Option(help="R: each cost lies in [-R, R].")] = 1.0,
    discount: Annotated[float, typer.Option(help="Discount factor in (0, 1].")] = 1.0,
    xi: Annotated[float | None, typer.Option(help="xi_H; by default the one with xi_0 = 2.")] = None,
    terminal: Annotated[str, typer.Option(help="Terminal costs: random or deterministic.")] = "random",
    form: _FormOption = "corrected",
    json: given.Json = False,
) -> None:
    """Print the schedule of theorem mcts-result, and the bonus constant at each depth."""
    from tailwise.theory import schedule

    plan = schedule(
        horizon=horizon, beta=beta, eta=eta, actions=actions, states=states, gap=gap, cost_bound=cost_bound,
        discount=discount, xi=xi, terminal=terminal, form=form,
    )  # fmt: skip
    if json:
        print_json(
            {
                **{name: getattr(plan, name) for name in ("horizon", "form", "eta", "bonus_exponent", "xi_root")},
                "log_theta_root": plan.log_theta_root, "depths": plan.rows, "constants": plan.constants,
                "overflows": plan.overflows,
            }
        )  # fmt: skip
        return
    rows = [
        (
            str(row.depth), number(row.beta, 4), number(row.radius, 4), number(row.alpha), number(row.xi),
            number(row.log_theta), number(row.log_theta_arm), number(row.log_constant), _in_words(row.log_constant),
        )
        for row in plan.rows
    ]  # fmt: skip
    columns = ("depth h", "beta_h", "R_h", "alpha", "xi", "ln theta", "ln theta^L", "ln constant", "constant")
    title = f"schedule for H = {plan.horizon}, eta = {plan.eta:g}, {plan.form} constants (indices h + 1)"
    show_table(columns, rows, title=title, spare=("R_h", "alpha", "xi", "beta_h", "ln theta", "ln theta^L"))
    exponent = f"{plan.bonus_exponent:g}"
    say(f"bonus at depth h: constant N(s)^{exponent} / N(s, a)^{1 - plan.eta:g}")
    tail = f"xi_0 = {plan.xi_root:.6g}, ln theta_0 = {plan.log_theta_root:.6g}"
    say(f"at the root: error O(n^{plan.eta - 1:g}), tails theta_0 / z^xi_0 with {tail}")
    if plan.overflows.any():
        say(f"{int(plan.overflows.sum())} of {plan.horizon} constants are beyond the largest double.")
    say("The practical constant sqrt(2) = 1.414 is outside the theorem at every depth.")


@given.command(command, "constants")
def constants_command(
    beta: _BetaOption,
    xi: Annotated[float, typer.Option(help="Exponent of the arms' tails, > 1.")] = 12.0,
    alpha: Annotated[float | None, typer.Option(help="alpha; xi eta (1 - eta) if not given.")] = None,
    eta: _EtaOption = 0.5,
    arms: Annotated[int, typer.Option(help="Number of arms K.")] = 2,
    gap: Annotated[float, typer.Option(help="Gap between the best and the second-best arm.")] = 0.1,
    radius: Annotated[float, typer.Option(help="R: costs lie in [-R, R].")] = 1.0,
    json: given.Json = False,
) -> None:
    """Print the bandit theorems' constants for independent costs, in all three forms."""
    from tailwise.theory import FORMS, average_constants, log_concentration_constant, log_theta, stream_constants

    power = xi * eta * (1.0 - eta) if alpha is None else alpha
    found: dict[str, dict[str, float]] = {}
    for form in FORMS:
        theta = log_theta(xi, beta, radius, form=form)
        average = average_constants(
            log_theta=theta, alpha=power, xi=xi, eta=eta, arms=arms, gap=gap, beta=beta, radius=radius, form=form
        )
        stream = stream_constants(average)
        found[form] = {
            "log_c": log_concentration_constant(beta, radius, form=form),
            **{key: getattr(average, key) for key in _LABELS if hasattr(average, key)},
            "log_theta_second": stream.log_theta_second,
        }
    if json:
        exponents = {"alpha": power, "xi": xi, "eta": eta, "eta_prime": power / (xi * (1 - eta)), "xi_prime": power - 1}
        print_json({**exponents, "forms": found})
        return
    rows = [(label, *(number(found[form][key], 8) for form in FORMS)) for key, label in _LABELS.items()]
    title = f"beta = {beta:g}, R = {radius:g}, gap = {gap:g}, K = {arms}: alpha = {power:g}, xi = {xi:g}, eta = {eta:g}"
    show_table(("constant", *FORMS), rows, title=title)


@given.command(command, "xi")
def xi_command(
    horizon: Annotated[int, typer.Option("--horizon", "-H", help="Number of decisions H.")],
    eta: _EtaOption = 0.5,
    json: given.Json = False,
) -> None:
    """Print the infimum of the xi_H that a horizon admits."""
    from tailwise.theory import smallest_xi

    value = smallest_xi(horizon, eta)
    if json:
        print_json({"horizon": horizon, "eta": eta, "smallest_xi": value})
        return
    say(f"xi_H must be above {value:.12g} for horizon {horizon} at eta = {eta:g}")


def _in_words(log_constant: float) -> str:
    """Return the constant itself, as a power of ten where it is large."""
    if math.isinf(log_constant):
        return "inf"
    if log_constant < math.log(1e6):
        return f"{math.exp(log_constant):.6g}"
    return f"10^{log_constant / math.log(10.0):.6g}"
