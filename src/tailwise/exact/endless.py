"""Solving without a horizon: which criterion is solved how, and what its policy is.

=====================================================  =============================================================
``Expectation()``, ``ERM(beta)``, discount 1            the total (:mod:`tailwise.exact.undiscounted`), stationary
``EVaR(level)``, discount 1                             the total's ERM, at the best beta of those that are certified
``WorstCase()``                                         sweeps of the largest outcome, stationary
``Expectation()``, ``Recursive(...)``, discount < 1     policy iteration (:mod:`tailwise.exact.stationary`), stationary
``ERM(beta)``, discount < 1                             ultimately stationary (:mod:`tailwise.exact.stationary`)
``Average(...)``                                        rate and bias (:mod:`tailwise.exact.stationary`), stationary
=====================================================  =============================================================
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tailwise._arrays import Floats, Ints
from tailwise.errors import InfiniteValueError, ModelError, OptionError
from tailwise.exact.induction import least_penalised
from tailwise.exact.parts import Part, words_of
from tailwise.exact.policy import Policy
from tailwise.exact.stationary import contracted, solve_average, solve_fading
from tailwise.exact.tails import Limits
from tailwise.exact.undiscounted import Total, solve_total, undecided
from tailwise.exact.undiscounted_policy import Merged
from tailwise.models import TabularMDP
from tailwise.models.tabular import require_table
from tailwise.risk import ERM, Average, EVaR, Expectation, Objective, Recursive, WorstCase


def solve_endless(mdp: TabularMDP, objective: Objective, limits: Limits) -> Policy:
    """Return the best policy of a table without a horizon."""
    mdp.require_sound(endless=True)
    if isinstance(objective, EVaR) and objective.level in (0.0, 1.0):
        simple: Objective = WorstCase() if objective.level else Expectation()
        return replace(solve_endless(mdp, simple, limits), objective=objective)
    if isinstance(objective, Average):
        return _average(mdp, objective)
    if isinstance(objective, WorstCase):
        return _worst(mdp)
    if isinstance(objective, Recursive):
        return _recursive(mdp, objective)
    if isinstance(objective, (Expectation, ERM)):
        beta = objective.beta if isinstance(objective, ERM) else 0.0
        if mdp.discount == 1.0:
            return _total(mdp, objective, beta)
        if beta == 0.0:
            return _stationary(mdp, objective, 0.0, *_contracted(mdp, 0.0, objective))
        values, low, high, rows = solve_fading(mdp, beta, limits.tolerance)
        return _policy(mdp, objective, beta, values, rows, low, high)
    if isinstance(objective, EVaR) and mdp.discount == 1.0:
        return _evar(mdp, objective, limits)
    way = "truncate(model, tolerance)" if mdp.discount < 1.0 else "horizon="
    raise OptionError(f"the {objective.words} of {mdp.name} needs a horizon, and it has none: {way} gives one")


class BetaLimit(float):
    """The beta from which on a total is infinite; ``reason`` says in words why, ``states`` what loops."""

    reason: str
    states: tuple[int, ...]

    def __new__(cls, value: float, reason: str, states: tuple[int, ...] = ()) -> BetaLimit:
        """Make one."""
        made = super().__new__(cls, value)
        made.reason, made.states = reason, states
        return made


def limit_beta(model: TabularMDP) -> BetaLimit:
    """Return the beta from which on the optimal ERM of the undiscounted total is infinite.

    Parameters
    ----------
    model : TabularMDP
        The table; its horizon, if it has one, is left out of account.

    Returns
    -------
    float
        Infinity if the ERM is finite at every beta; 0 if the mean is infinite already. ``reason`` says in words why,
        ``states`` are those of the loops that are left too seldom.

    Raises
    ------
    ModelError
        If the model is no table, or discounts: discounted totals are finite at every beta.

    Examples
    --------
    >>> import math
    >>> from tailwise import TabularMDP
    >>> from tailwise.exact import limit_beta
    >>> repair = TabularMDP.from_outcomes(
    ...     [0, 0], [0, 0], [0, 0], [0.5, 0.5], [1.0, 1.0], done=[False, True], horizon=None
    ... )
    >>> limit = limit_beta(repair)
    >>> math.isclose(limit, math.log(2))
    True
    """
    require_table(model, "limit_beta")
    mdp = model if model.horizon is None else model.with_options(horizon=None)
    if mdp.discount < 1.0:
        raise ModelError(f"{mdp.name} has discount {mdp.discount:g}: discounted totals have a finite ERM at every beta")
    mdp.require_sound(endless=True)
    start = mdp.start
    at_zero = solve_total(mdp, 0.0)
    if at_zero.values[start] == np.inf:
        return BetaLimit(0.0, at_zero.why(start), _states_of(at_zero, start))
    if _worst_values(mdp)[0][start] < np.inf:
        return BetaLimit(math.inf, "the worst total is finite: no loop that costs anything need be come through again")
    low, high, last = 0.0, 1.0 / max(float(np.abs(mdp.losses).max()), 1e-300), None
    while True:
        found = solve_total(mdp, high)
        if found.values[start] == np.inf:
            last = found
            break
        if high > 1e200:
            raise undecided(mdp, np.flatnonzero(np.isfinite(found.values)), high)
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = 0.5 * (low + high) if low > 0.0 or high < 1e-12 else high / 16.0
        if not low < middle < high or high - low <= 1e-11 * high:
            break
        found = solve_total(mdp, middle)
        if found.values[start] == np.inf:
            high, last = middle, found
        else:
            low = middle
    return BetaLimit(high, last.why(start), _states_of(last, start))


def _states_of(total: Total, start: int) -> tuple[int, ...]:
    return tuple(int(state) for state in total.reasons[0][0]) if total.reasons else (start,)


def _total(mdp: TabularMDP, objective: Objective, beta: float) -> Policy:
    found = solve_total(mdp, beta)
    _require_finite(mdp, objective, found)
    low, high = float(found.lower[mdp.start]), float(found.upper[mdp.start])
    if not (math.isfinite(low) and math.isfinite(high)):
        loops = np.flatnonzero(~np.isfinite(found.lower) & np.isfinite(found.values))
        raise undecided(mdp, loops, beta)
    return _stationary(mdp, objective, beta, found.values, found.lower, found.upper, found.rows)


def _require_finite(mdp: TabularMDP, objective: Objective, found: Total) -> None:
    value = float(found.values[mdp.start])
    if math.isfinite(value):
        return
    shown = float(mdp.signed(value))
    name = f"the {objective.words} of the total of {mdp.name} is {shown:g} from state {mdp.state_name(mdp.start)}"
    if value == np.inf:
        way = "let it end (done, or a state that absorbs at no cost), lower beta, discount, or give a horizon"
    else:
        way = "no policy is best then: charge for the loop, discount, or give a horizon"
    raise InfiniteValueError(f"{name}: {found.why(mdp.start)}; {way}", value=shown)


def _contracted(mdp: TabularMDP, beta: float, objective: Objective) -> tuple[Floats, Floats, Floats, Ints]:
    part = Part.of(mdp)
    if isinstance(objective, Recursive) and objective.apart:  # costs are left out of the risk
        part = part.at_mean_costs()
    values, low, high, ids = contracted(part, beta, mdp.discount)
    rows = np.full(mdp.num_states, -1, np.int64)
    rows[mdp.row_states[ids]] = ids
    return values, low, high, rows


def _recursive(mdp: TabularMDP, objective: Recursive) -> Policy:
    if mdp.discount == 1.0:
        if objective.apart:
            raise ModelError(f"a recursive risk that leaves costs apart needs a discount below 1; {mdp.name} has 1")
        return _total(mdp, objective, objective.beta)
    level = objective.beta / mdp.discount if objective.apart else objective.beta
    return _stationary(mdp, objective, objective.beta, *_contracted(mdp, level, objective))


def _average(mdp: TabularMDP, objective: Average) -> Policy:
    if mdp.discount < 1.0:
        raise ModelError(f"{mdp.name} has discount {mdp.discount:g}; an average is of undiscounted costs: discount=1")
    low, high, bias, rows = solve_average(mdp, objective.beta)
    rate = 0.5 * (low + high)
    policy = _stationary(mdp, objective, objective.beta, bias, bias, bias, rows)
    ends = sorted((float(mdp.signed(low)), float(mdp.signed(high))))
    return replace(policy, value=float(mdp.signed(rate)), gap=high - low, bracket=(ends[0], ends[1]))


def _stationary(
    mdp: TabularMDP, objective: Objective, beta: float, values: Floats, low: Floats, high: Floats, rows: Ints
) -> Policy:
    return _policy(mdp, objective, beta, values[None], rows[None], low, high)


def _policy(
    mdp: TabularMDP, objective: Objective, beta: float, values: Floats, rows: Ints, low: Floats, high: Floats
) -> Policy:
    value = float(values[0, mdp.start])
    if not math.isfinite(value):
        raise InfiniteValueError(
            f"the {objective.words} of {mdp.name} is infinite from state {mdp.state_name(mdp.start)}: every action can "
            "lead to a state without one; give it an action, or end the episode with done",
            value=float(mdp.signed(value)),
        )
    actions = np.where(rows >= 0, mdp.action_ids[rows], -1).astype(np.int32)
    actions[:, np.diff(mdp.action_offsets) == 0] = -1
    changes = np.flatnonzero((actions != actions[-1]).any(axis=1))
    ends = float(low[mdp.start]), float(high[mdp.start])
    shown = np.ascontiguousarray(mdp.signed(values))
    for array in (shown, actions):
        array.setflags(write=False)
    first, last = sorted(float(mdp.signed(end)) for end in ends)
    return Policy(
        objective, mdp, float(mdp.signed(value)), gap=ends[1] - ends[0], beta=beta, values=shown, policy=actions,
        bracket=(first, last), stationary_from=int(changes[-1]) + 1 if changes.size else 0,
    )  # fmt: skip


def _worst(mdp: TabularMDP) -> Policy:
    values, off = _worst_values(mdp)
    start = float(values[mdp.start])
    if not math.isfinite(start):
        moving = np.flatnonzero(values == start)
        word = (
            "that cost something can be come through for ever" if start > 0.0 else "can be followed that earn for ever"
        )
        raise InfiniteValueError(
            f"the worst total of {mdp.name} is {float(mdp.signed(start)):g} from state {mdp.state_name(mdp.start)}: "
            f"from {words_of(mdp, moving)} loops {word}",
            value=float(mdp.signed(start)),
        )
    part = Part.of(mdp)
    with np.errstate(invalid="ignore"):
        risks = np.maximum.reduceat(part.ahead(values, mdp.discount), part.offsets[:-1])
    rows = np.full(mdp.num_states, -1, np.int64)
    rows[part.deciding] = _progressing(mdp, part, risks, values)
    return _stationary(mdp, WorstCase(), math.inf, values, values - off, values + off, rows)


def _progressing(mdp: TabularMDP, part: Part, risks: Floats, values: Floats) -> Ints:
    """Return best rows along which an undiscounted total is really paid: those found first, from the end on."""
    best = risks <= values[part.states] + 1e-12 * np.abs(np.where(np.isfinite(values), values, 0.0))[part.states]
    first = part.best_rows(risks, part.least(risks))
    if mdp.discount < 1.0:
        return part.ids[first]
    merged = Merged.of(part)
    chosen = np.full(part.size, -1, np.int64)
    settled = np.zeros(part.size, np.bool_)
    rest = merged.held.decides & (values == 0.0)
    held_at = np.searchsorted(merged.held.states, np.flatnonzero(rest))
    chosen[rest], settled[rest] = merged.held.ids[held_at], True
    while True:
        surely = np.logical_and.reduceat(np.where(part.targets >= 0, settled[part.targets], True), part.offsets[:-1])
        good = np.flatnonzero(best & surely & ~settled[part.states])
        if not good.size:
            break
        states, at = np.unique(part.states[good], return_index=True)
        chosen[states], settled[states] = part.ids[good[at]], True
    chosen[part.deciding] = np.where(settled[part.deciding], chosen[part.deciding], part.ids[first])
    return chosen[part.deciding]


def _worst_values(mdp: TabularMDP) -> tuple[Floats, float]:
    """Return the least worst total from each state on, and how far it may be off."""
    part, discount = Part.of(mdp), mdp.discount
    if discount == 1.0 and float(part.costs.min()) >= 0.0:
        return _surely_ending(part), 0.0
    values = np.full(part.size, np.inf)
    values[part.deciding] = 0.0
    limit = 100 * part.size + 1000 if discount == 1.0 else 10 + math.ceil(math.log(1e-17) / math.log(discount))
    for _ in range(limit):
        ahead = part.ahead(values, discount)
        after = part.least(np.maximum.reduceat(ahead, part.offsets[:-1]))
        still = (after == values).all()
        before, values = values, after
        if still:
            return values, part.rounding(values, discount) / (1.0 - discount) if discount < 1.0 else 0.0
    with np.errstate(invalid="ignore"):
        moved = np.where(np.isfinite(values), values - before, 0.0)
    if discount < 1.0:
        off = float(np.abs(moved).max()) * discount / (1.0 - discount)
        return values, off + part.rounding(values, discount) / (1.0 - discount)
    most = part.size * float(np.abs(part.costs).max())  # of a total that comes through no loop that counts
    slow = (moved != 0.0) & (np.abs(values) <= most)
    if slow.any():
        raise undecided(mdp, np.flatnonzero(slow), math.inf)
    return np.where(moved > 0.0, np.inf, np.where(moved < 0.0, -np.inf, values)), 0.0


def _surely_ending(part: Part) -> Floats:
    """Return the least worst total where nothing earns: whatever is best has ended after a step of each state."""
    merged = Merged.of(part)
    values, part = np.full(part.size, np.inf), merged.part
    for _ in range(part.size + 1):
        before = values
        values = part.least(np.maximum.reduceat(part.ahead(before, 1.0), part.offsets[:-1]))
        if np.array_equal(values, before):
            break
    return values[merged.owner]


def _evar(mdp: TabularMDP, objective: EVaR, limits: Limits) -> Policy:
    """Return the policy of least EVaR of the total, by the intervals of beta of :mod:`tailwise.exact.induction`."""
    penalty, start = -math.log1p(-objective.level), mdp.start
    neutral = _total(mdp, Expectation(), 0.0)
    mean, worst = float(mdp.signed(neutral.value)), float(_worst_values(mdp)[0][start])
    if worst <= mean:
        return replace(neutral, objective=objective)

    def close(value: float) -> float:
        allowed = 1e-4 / limits.share * (value - mean) if limits.tolerance is None else limits.tolerance
        return max(allowed, 1e-12 * abs(value))

    def erm(beta: float) -> float:
        return float(solve_total(mdp, beta).values[start])

    known, most = {0.0: mean, math.inf: worst}, max(8, int(2000 * limits.share**0.5)) - 1
    first = max(penalty, 1.0) / max(1e-300, abs(mean), float(np.abs(mdp.losses).max()))
    value, level, bound = least_penalised(erm, known, penalty, first, close, most)
    found = _worst(mdp) if level == math.inf else _total(mdp, ERM(level), level)
    ends = sorted((float(mdp.signed(min(value, bound))), float(mdp.signed(value))))
    return replace(
        found, objective=objective, value=float(mdp.signed(value)), gap=ends[1] - ends[0], beta=level,
        solves=len(known), bracket=(ends[0], ends[1]),
    )  # fmt: skip
