r"""From what people can say about risk to a beta.

=================================  ======================================================================
"the worst 5 % are what counts"    the beta of the plan of least EVaR at 95 %: the least of
                                   ``V*(beta) - ln(1 - level) / beta``, a bound on the mean of the worst 5 %
"never more than x, but for p"     the smallest beta with ``V*(beta) + ln(1/p) / beta <= x``: then
                                   ``P(X > x) <= exp(-beta (x - ERM_beta(X))) <= p`` (Chernoff)
"a sure c is as good as k with     the beta at which ``ERM_beta`` of the lottery is c
probability p"
"D more would be a disaster"       ``1 / D``; with a probability p that must not be risked, ``ln(1/p) / D``
=================================  ======================================================================

V* is the optimal ERM of the model at hand. It does not fall as beta grows, so that the second rule is the limit of
``beta <- ln(1/p) / (x - V*(beta))`` from 0: no smaller beta has the certificate. It stands in ``evaluation`` since
what a choice does to the decision is said with the laws of both plans.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tailwise._progress import Progress, after, followed
from tailwise._validate import real
from tailwise.errors import OptionError
from tailwise.exact import Policy, solve
from tailwise.exact.reachability import low_total
from tailwise.exact.tails import check_level
from tailwise.models import TabularMDP
from tailwise.models.tabular import require_table
from tailwise.risk import ERM, EVaR, erm


@dataclass(frozen=True)
class BetaChoice:
    """A beta, and why.

    Attributes
    ----------
    beta : float
        The risk level, in 1/cost.
    formula : str
        Where it comes from.
    sentence : str
        What it means, in plain words.
    effect : str
        What it does to the decision at hand; empty without a table.
    bound : float or None
        The bound that it certifies (EVaR or the budget), in the model's own sense.
    """

    beta: float
    formula: str
    sentence: str
    effect: str = ""
    bound: float | None = None

    def __str__(self) -> str:
        return "\n".join(filter(None, (f"beta = {self.beta:.6g}", self.formula, self.sentence, self.effect)))


def choose_beta(
    model: TabularMDP | None = None,
    *,
    level: float | None = None,
    budget: float | None = None,
    probability: float | None = None,
    indifference: tuple[float, float, float] | None = None,
    disaster: float | None = None,
    progress: Progress = None,
) -> BetaChoice:
    """Turn one statement about risk into a beta.

    Parameters
    ----------
    model : TabularMDP, optional
        The problem. ``level`` and ``budget`` need it; with it the effect on the decision is said, too.
    level : float in (0, 1), optional
        The worst ``1 - level`` of the outcomes is what counts.
    budget : float, optional
        The total should be worse than this with at most ``probability``.
    probability : float in (0, 1), optional
        Goes with ``budget``, and may go with ``disaster``.
    indifference : (sure, chance, amount), optional
        Paying ``sure`` for certain is as good as paying ``amount`` with probability ``chance`` (and nothing otherwise).
    disaster : float, optional
        A cost, beyond the ordinary, that would be a disaster; > 0.
    progress : bool or callable, optional
        True shows a bar; a function is called with (betas solved, None).

    Returns
    -------
    BetaChoice
        The beta with its formula, a sentence, and what it does.

    Raises
    ------
    OptionError
        If not exactly one statement is made, a number is out of range, or no beta can do what is asked.

    Examples
    --------
    >>> from tailwise import choose_beta, domains
    >>> round(choose_beta(indifference=(30.0, 0.1, 100.0)).beta, 6)
    0.024979
    >>> choice = choose_beta(domains.make("grid-mdp"), budget=45.0, probability=0.05)
    >>> round(choice.beta, 5), choice.bound
    (0.08358, 45.0)
    """
    share = check_statement(
        level=level, budget=budget, probability=probability, indifference=indifference, disaster=disaster
    )
    if model is not None:
        require_table(model, "choose_beta")
    with followed(progress, "solving for each beta", None) as tick:
        told = after(0, tick)
        if level is not None:
            choice = _from_level(_needed(model, "level"), level, told)
        elif budget is not None:
            choice = _from_budget(_needed(model, "budget"), float(budget), share or math.nan, told)
        elif indifference is not None:
            choice = _from_indifference(indifference)
        else:
            choice = _from_disaster(float(disaster or math.nan), share)
        if model is None:
            return choice
        return BetaChoice(choice.beta, choice.formula, choice.sentence, _effect(model, choice.beta), choice.bound)


def check_statement(
    *,
    level: float | None,
    budget: float | None,
    probability: float | None,
    indifference: tuple[float, float, float] | None,
    disaster: float | None,
) -> float | None:
    """Raise the error of a statement that is wrong whatever the model is; return the probability."""
    given = {"level": level, "budget": budget, "indifference": indifference, "disaster": disaster}
    made = [name for name, value in given.items() if value is not None]
    if len(made) != 1:
        found = " and ".join(f"{name}=" for name in made) or "none"
        raise OptionError(f"say one thing: level=, budget= with probability=, indifference= or disaster=, not {found}")
    if probability is not None and made[0] not in ("budget", "disaster"):
        raise OptionError(f"probability= goes with budget= or disaster=, not with {made[0]}=")
    share = None if probability is None else real(probability, "probability", low=0.0, high=1.0, ends="()")
    if level is not None:
        check_level(level)
    elif budget is not None:
        real(budget, "budget")
        if share is None:
            raise OptionError("budget= needs probability=: how often the total may be worse than it")
    elif indifference is not None:
        _from_indifference(indifference)
    else:
        real(disaster, "disaster", low=0.0, ends="(]")
    return share


def _needed(model: TabularMDP | None, name: str) -> TabularMDP:
    if model is None:
        raise OptionError(f"{name}= needs the model: the beta depends on its totals")
    return model


def _from_level(mdp: TabularMDP, level: float, told: Progress) -> BetaChoice:
    plan = _finite(mdp, solve(mdp, EVaR(check_level(level)), progress=told), -math.log1p(-level))
    tail = f"{100 * (1 - level):g} %"
    return BetaChoice(
        plan.beta,
        f"least V*(beta) - ln(1 - {level:g}) / beta = {plan.value:.6g}, to within {plan.gap:.2g}",
        f"With the plan of this beta the mean of the worst {tail} is no worse than {plan.value:.6g}, the least "
        "such bound that the entropic risk gives.",
        bound=plan.value,
    )


def _finite(mdp: TabularMDP, plan: Policy, penalty: float) -> Policy:
    """Return a plan of least EVaR that has a beta, where the worst case's is the best: at a beta that is all but it."""
    if plan.beta != math.inf:
        return plan
    low = float(mdp.signed(solve(mdp, ERM(0.0)).value)) if mdp.horizon is None else low_total(mdp)
    room = float(mdp.signed(plan.value)) - low
    if room <= 0.0:
        return replace(solve(mdp, ERM(0.0)), value=plan.value)
    found = solve(mdp, ERM(penalty / (1e-2 * room)))
    bound = float(mdp.signed(found.value)) + 1e-2 * room
    return replace(found, value=float(mdp.signed(bound)), gap=plan.gap + 1e-2 * room)


def _from_budget(mdp: TabularMDP, budget: float, share: float, told: Progress) -> BetaChoice:
    sign = 1.0 if mdp.sense == "cost" else -1.0
    limit, penalty = sign * budget, -math.log(share)
    word = "above" if mdp.sense == "cost" else "below"
    plan = solve(mdp, EVaR(1.0 - share), progress=told)
    if 0.0 < sign * plan.value - limit <= plan.gap:  # too close to tell
        plan = solve(mdp, EVaR(1.0 - share), tolerance=1e-3 * plan.gap, progress=told)
    refused = OptionError(
        f"no beta certifies a total {word} {budget:g} with probability at most {share:g}: the best bound on "
        f"the worst {100 * share:g} % is {plan.value:.6g}, to within {plan.gap:.2g}; a certificate is a bound, so "
        f"that a plan may still do it: solve(model, Exceedance({budget:g})) finds the least probability exactly"
    )
    if sign * plan.value > limit:
        raise refused
    beta, value = 0.0, sign * solve(mdp, ERM(0.0)).value
    for _ in range(10_000):
        if value >= limit:
            if plan.beta == math.inf:  # the worst case alone keeps to it
                raise refused
            beta = plan.beta  # the two touch: rounding decides
            break
        following = penalty / (limit - value)
        if following <= beta * (1.0 + 1e-12):
            break
        beta, value = following, sign * solve(mdp, ERM(following)).value
    else:
        if plan.beta == math.inf:
            raise refused
        beta = plan.beta  # they all but touch; this one is certified
    return BetaChoice(
        beta,
        f"smallest beta with V*(beta) + ln(1 / {share:g}) / beta <= {budget:g}"
        if sign > 0
        else f"smallest beta with V*(beta) - ln(1 / {share:g}) / beta >= {budget:g}",
        f"With the plan of this beta the total is {word} {budget:g} with probability at most {share:g}; less "
        "aversion does not promise that.",
        bound=budget,
    )


def _from_indifference(statement: tuple[float, float, float]) -> BetaChoice:
    from scipy.optimize import brentq  # scipy.optimize takes 0.1 s to import

    try:
        sure, chance, amount = statement
    except (TypeError, ValueError):
        raise OptionError(f"indifference must be (sure, chance, amount), not {statement!r}") from None
    price, cost = real(sure, "sure"), real(amount, "amount", low=0.0, ends="(]")
    odds = real(chance, "chance", low=0.0, high=1.0, ends="()")
    if not 0.0 < price < cost:
        raise OptionError(
            f"a sure {price:g} can only be as good as a chance of {cost:g} if it lies between 0 and {cost:g}: no "
            "beta values a lottery outside its outcomes"
        )

    def excess(scaled: float) -> float:
        return erm([0.0, 1.0], scaled, weights=[1.0 - odds, odds]) - price / cost

    mean = odds * cost
    width = 1.0
    while excess(width) < 0.0 or excess(-width) > 0.0:
        width *= 2.0
    scaled = 0.0 if abs(price - mean) <= 1e-15 * cost else float(brentq(excess, -width, width, xtol=1e-14))
    attitude = "averse" if price > mean else "seeking" if price < mean else "neutral"
    return BetaChoice(
        scaled / cost,
        f"ln(1 - {odds:g} + {odds:g} exp({cost:g} beta)) / beta = {price:g}",
        f"Paying {price:g} for certain instead of {cost:g} with probability {odds:g}, {mean:g} on average, is "
        f"risk-{attitude}.",
    )


def _from_disaster(size: float, share: float | None) -> BetaChoice:
    if share is None:
        return BetaChoice(
            1.0 / size,
            f"1 / {size:g}",
            f"Mild: a rare loss of {size:g} counts e - 1 = 1.72 times its mean. Give a probability to say how "
            "rare must still count.",
        )
    beta = -math.log(share) / size
    worth = erm([0.0, size], beta, weights=[1.0 - share, share])
    return BetaChoice(
        beta,
        f"ln(1 / {share:g}) / {size:g}",
        f"A loss of {size:g} with probability {share:g}, {share * size:g} on average, counts as a sure {worth:.4g}.",
    )


def _effect(mdp: TabularMDP, beta: float) -> str:
    """Say what a beta does to the decision, against the risk-neutral one."""
    plans = {"chosen": solve(mdp, ERM(beta)), "neutral": solve(mdp, ERM(0.0))}
    laws = {name: plan.distribution() for name, plan in plans.items()}
    names = {name: mdp.action_name(plan.action) for name, plan in plans.items()}
    first = (
        f"Take {names['chosen']}, as the risk-neutral plan does"
        if names["chosen"] == names["neutral"]
        else f"Take {names['chosen']}; the risk-neutral plan takes {names['neutral']}"
    )
    chosen, neutral = laws["chosen"], laws["neutral"]
    return (
        f"{first}. Mean {chosen.mean:.6g} instead of {neutral.mean:.6g}, mean of the worst 5 % "
        f"{chosen.cvar(0.95):.6g} instead of {neutral.cvar(0.95):.6g}."
    )
