r"""The model that a risk-averse policy fears, and the balls in which a robust one lets nature redraw the rows.

The entropic risk is a worst case over models (Osogami, 2012): for beta > 0

    ERM_beta(X) = max over Q of E_Q[X] - KL(Q || P) / beta,

over all distributions Q of the whole episode, and the maximum is where every outcome counts by what it costs:

    P*_h(s' | s, a)  in proportion to  P(s' | s, a) exp(beta_h (c + discount V_{h+1}(s'))),   beta_h = beta discount^h

with V the ERM of the policy. So a risk-averse policy acts as a risk-neutral one would whom the model P* faces. The
divergence of whole episodes is that of their steps, added up where P* leads. EVaR at a level is the largest expected
total over all Q with ``KL(Q || P) <= -ln(1 - level)``: a ball, whose worst model is P* at the EVaR's own beta.
A robust policy names its balls, one around each row of the table, and P* is the worst of each:

    V_h(s) = min over a of max over q in ball(s, a) of sum over outcomes of q (c + discount V_{h+1}(s'))

The ball holds distributions over the outcomes that the row lists: within an L1 distance, or a KL divergence
``KL(q || p)``, of the row's own. In an L1 ball the worst q moves half the radius from the best outcomes to the worst;
in a KL ball it is tilted, ``p exp(t x)``, until the radius is used up (so that each step takes an EVaR).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats
from tailwise._jit import kernel
from tailwise._results import number, step_word
from tailwise.errors import OptionError
from tailwise.exact.fixed_policies import policy_rows
from tailwise.exact.sweeps import outcome_totals
from tailwise.models import TabularMDP
from tailwise.models.contract import needs_horizon
from tailwise.risk import ERM, EVaR, Expectation
from tailwise.risk.objectives import Robust, RobustKL


@dataclass(frozen=True)
class FearedOutcome:
    """One outcome of an action, and its probability in the model and in the feared one.

    Attributes
    ----------
    state, action, next_state : int
        Indices.
    state_name, action_name, next_state_name : str
        Labels.
    step : int
        The decision's step h.
    cost : float
        What the outcome costs (or earns).
    done : bool
        Whether it ends the episode.
    probability, feared : float
        In the model, and as the policy fears it.
    visits : float
        How likely the feared model comes to this decision at this step.
    """

    state: int
    action: int
    next_state: int
    state_name: str
    action_name: str
    next_state_name: str
    step: int
    cost: float
    done: bool
    probability: float
    feared: float
    visits: float

    def __str__(self) -> str:
        where = f"{self.state_name}, {self.action_name} -> {self.next_state_name}"
        when = f"{step_word()} {self.step}"
        return f"{where} ({when}): as if {100 * self.feared:.3g} % instead of {100 * self.probability:.3g} %"


@dataclass(frozen=True, eq=False)
class FearedModel:
    """The model that a policy fears; it differs from step to step.

    Attributes
    ----------
    mdp : TabularMDP
        The model itself.
    beta : float
        Risk level at step 0; NaN of a robust policy.
    value : float
        The policy's value, in the model's own sense.
    expected : float
        Its expected total in the feared model: ``value`` plus (for costs) ``divergence / beta``, or ``value`` itself if
        the policy is robust.
    divergence : float
        Of the whole episode under the policy, in nats: KL(P* || P).
    radius : float or None
        Of an EVaR, the radius ``-ln(1 - level)`` of the ball in which P* is worst.
    """

    mdp: TabularMDP
    beta: float
    value: float
    expected: float
    divergence: float
    radius: float | None
    _chances: Callable[[int], Floats] = field(repr=False)  # of all outcomes, at a step
    _rows: NDArray[np.int64] = field(repr=False)  # (H, S)
    _visits: Floats = field(repr=False)  # (H, S) under the feared model

    def probabilities(self, step: int) -> Floats:
        """Return the feared probability of every outcome of the table at a step: float64, shape (outcomes,)."""
        if not 0 <= step < self.mdp.horizon:
            raise OptionError(f"step {step!r} is outside 0..{self.mdp.horizon - 1}")
        return self._chances(step)

    def outcomes(self, state: int | str, step: int = 0) -> tuple[FearedOutcome, ...]:
        """Return the outcomes of the policy's action in a state at a step, as the model has and as the policy fears."""
        index = self.mdp.find_state(state) if isinstance(state, str) else int(state)
        row = int(self._rows[step, index]) if 0 <= index < self.mdp.num_states else -1
        if row < 0:
            raise OptionError(f"the policy has no action in state {state!r} at step {step}")
        return self._outcomes(row, index, step, self.probabilities(step))

    def _outcomes(self, row: int, state: int, step: int, feared: Floats) -> tuple[FearedOutcome, ...]:
        mdp = self.mdp
        action = int(mdp.action_ids[row])
        found = []
        for k in range(int(mdp.outcome_offsets[row]), int(mdp.outcome_offsets[row + 1])):
            target = int(mdp.next_states[k])
            loss = float(mdp.losses_at(step, k, row))
            found.append(FearedOutcome(
                state, action, target, mdp.state_name(state), mdp.action_name(action), mdp.state_name(target), step,
                float(mdp.signed(loss)), bool(mdp.done[k]), float(mdp.probabilities[k]), float(feared[k]),
                float(self._visits[step, state]),
            ))  # fmt: skip
        return tuple(found)

    @cached_property
    def worst(self) -> tuple[FearedOutcome, ...]:
        """The outcomes feared most: at most 10, by how much likelier they are than in the model, where P* leads."""
        mdp, best = self.mdp, list[tuple[float, int, int, int]]()
        for h in range(mdp.horizon):
            rows = self._rows[h]
            states = np.flatnonzero((self._visits[h] > 0.0) & (rows >= 0))
            owner = np.full(mdp.num_rows, -1)
            owner[rows[states]] = states
            state = np.repeat(owner, np.diff(mdp.outcome_offsets))
            more = np.where(state >= 0, self.probabilities(h) - mdp.probabilities, 0.0) * self._visits[h][state]
            for k in np.argsort(-more, kind="stable")[:10].tolist():
                if more[k] > 0.0:
                    best.append((-float(more[k]), h, k, int(state[k])))
        found = []
        for _, h, k, at in sorted(best)[:10]:
            row = int(self._rows[h, at])
            one = self._outcomes(row, at, h, self.probabilities(h))
            found.append(one[k - int(mdp.outcome_offsets[row])])
        return tuple(found)

    @property
    def lines(self) -> tuple[str, ...]:
        """The feared model in words, a sentence each."""
        if self.divergence == 0.0:
            return ("nothing is feared: the policy acts on the model as it is",)
        said = [
            f"the policy acts as if the expected total were {number(self.expected)}: that is so in a model that "
            "differs by "
            f"{number(self.divergence)} nats"
        ]
        if self.radius is not None:
            said[0] += f", within a ball of radius {number(self.radius)}"
        return (*said, *map(str, self.worst[:3]))

    def __str__(self) -> str:
        return "\n".join(self.lines)


def feared_model(policy: Any) -> FearedModel:
    """Return the model that a policy for the ERM, the mean, the EVaR or a robust mean fears.

    Parameters
    ----------
    policy : Policy or Plan with one
        From :func:`tailwise.solve`, for ``ERM(beta)``, ``Expectation()``, ``EVaR(level)`` or a robust mean.

    Returns
    -------
    FearedModel

    Raises
    ------
    OptionError
        If the policy is for another objective, for which there is no such model of the same states.

    Notes
    -----
    O(H * outcomes).

    Examples
    --------
    >>> from tailwise import domains, solve
    >>> from tailwise.exact import feared_model
    >>> policy = solve(domains.make("mdp-4"), 0.5)
    >>> feared = feared_model(policy)
    >>> round(feared.expected - feared.divergence / 0.5, 9) == round(policy.value, 9)
    True
    """
    policy = getattr(policy, "policy", policy) if hasattr(policy, "rows") else policy
    objective = getattr(policy, "objective", None)
    if not isinstance(objective, (ERM, EVaR, Expectation, Robust)) or policy.values is None:
        shown = "a plan for one decision alone" if objective is None else objective.words
        raise OptionError(f"there is a feared model for the ERM, the mean, the EVaR and robust means, not for: {shown}")
    mdp, beta = policy.mdp, float(policy.beta)
    if mdp.horizon is None:
        raise OptionError(f"a feared model is laid out step by step. {needs_horizon(mdp.name)}")
    if not math.isfinite(policy.value):
        raise OptionError("the policy's value is infinite: a state without an action lies ahead, and nothing is worse")
    rows = policy_rows(mdp, policy.policy)
    values = np.asarray(mdp.signed(policy.values))
    visits = np.zeros((mdp.horizon, mdp.num_states))
    here = np.zeros(mdp.num_states)
    here[mdp.start] = 1.0
    per_row, expected, divergence, factor = np.diff(mdp.outcome_offsets), 0.0, 0.0, 1.0
    goes_on = ~mdp.done
    radii = radii_of(mdp, objective) if isinstance(objective, Robust) else np.empty(0)

    def chances(h: int) -> Floats:
        if isinstance(objective, Robust):
            totals, _ = outcome_totals(mdp, h, values[h + 1], np.zeros(mdp.num_states))
            return ball_chances(mdp, totals, isinstance(objective, RobustKL), radii)
        return _tilted(mdp, values[h + 1], beta * mdp.discount**h)

    for h in range(mdp.horizon):
        visits[h] = here
        at = np.flatnonzero((here > 0.0) & (rows[h] >= 0))
        chance = chances(h)
        mass = np.zeros(mdp.num_rows)
        mass[rows[h][at]] = here[at]
        flow = np.repeat(mass, per_row) * chance
        losses = mdp.losses_at(h)
        expected += factor * math.fsum((flow * losses)[flow > 0.0].tolist())
        divergence += math.fsum((mass * _divergences(mdp, chance))[mass > 0.0].tolist())
        here = np.bincount(mdp.next_states[goes_on], weights=flow[goes_on], minlength=mdp.num_states)
        factor *= mdp.discount
    expected += factor * math.fsum((here * mdp.terminal_losses)[here > 0.0].tolist())
    level = objective.level if isinstance(objective, EVaR) else None
    radius = None if level is None else (math.inf if level >= 1.0 else -math.log1p(-level))
    value, expected = float(policy.values[0, mdp.start]), float(mdp.signed(expected))
    return FearedModel(mdp, beta, value, expected, divergence, radius, chances, rows, visits)


def _tilted(mdp: TabularMDP, after: Floats, level: float) -> Floats:
    """Return the probabilities of all outcomes, tilted by what each costs."""
    first, per_row = mdp.outcome_offsets[:-1], np.diff(mdp.outcome_offsets)
    if level == 0.0:
        return mdp.probabilities
    with np.errstate(invalid="ignore", over="ignore"):
        totals = mdp.losses + np.where(mdp.done, 0.0, mdp.discount * after[mdp.next_states])
        extreme = np.maximum if level > 0.0 else np.minimum
        feared = np.repeat(extreme.reduceat(totals, first), per_row)
        exponents = np.where(totals == feared, 0.0, level * (totals - feared))  # no 0 * inf, no overflow but to -inf
        weights = mdp.probabilities * np.exp(exponents)
    return np.asarray(weights / np.repeat(np.add.reduceat(weights, first), per_row))


def _divergences(mdp: TabularMDP, chance: Floats) -> Floats:
    """Return the KL divergence of each row with other probabilities."""
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(chance > 0.0, chance * np.log(chance / mdp.probabilities), 0.0)
    return np.maximum(np.add.reduceat(each, mdp.outcome_offsets[:-1]), 0.0)


def radii_of(mdp: TabularMDP, objective: Robust) -> Floats:
    """Return the radius of each row's ball: the objective's, or what holds its share of the row's posterior."""
    if objective.radius is not None:
        return np.full(mdp.num_rows, objective.radius)
    credible = getattr(mdp, "credible_radii", None)
    if credible is None:
        raise OptionError(
            f"{type(objective).__name__}(confidence=) asks what a log leaves possible, and {mdp.name} was not made by "
            "learn_model(); give a radius"
        )
    found: Floats = credible(objective)
    return found


def ball_rows(
    mdp: TabularMDP, h: int, values: Floats, sizes: Floats, *, is_kl: bool, radii: Floats
) -> tuple[Floats, Floats]:
    """Return the worst mean of each row's ball, and the mean size of what that adds up."""
    totals, added = outcome_totals(mdp, h, values, sizes)
    chance = ball_chances(mdp, totals, is_kl, radii)
    first = mdp.outcome_offsets[:-1]
    with np.errstate(invalid="ignore"):
        risks = np.add.reduceat(np.where(chance > 0.0, chance * totals, 0.0), first)
        return risks, np.add.reduceat(np.where(chance > 0.0, chance * added, 0.0), first)


def ball_chances(mdp: TabularMDP, totals: Floats, is_kl: bool, radii: Floats) -> Floats:
    """Return the probabilities of all outcomes that are worst in the balls, for such totals of them."""
    owners = mdp.outcome_rows
    order = np.lexsort((-totals, owners))
    worst, found = np.empty(totals.size), np.empty(totals.size)
    (_kl_worst if is_kl else _l1_worst)(totals[order], mdp.probabilities[order], mdp.outcome_offsets, radii, worst)
    found[order] = worst
    return found


@kernel
def _l1_worst(totals, probabilities, offsets, radii, out):  # type: ignore[no-untyped-def]
    """Fill the worst weights of each row's L1 ball; its outcomes are in order, the worst first."""
    for row in range(radii.size):
        first, last = offsets[row], offsets[row + 1]
        for k in range(first, last):
            out[k] = probabilities[k]
        moved = min(radii[row] / 2.0, 1.0 - out[first])
        out[first] += moved
        k = last - 1
        while moved > 0.0 and k > first:
            taken = min(moved, out[k])
            out[k] -= taken
            moved -= taken
            k -= 1


@kernel
def _kl_worst(totals, probabilities, offsets, radii, out):  # type: ignore[no-untyped-def]
    """Fill the worst weights of each row's KL ball; its outcomes are in order, the worst first."""
    for row in range(radii.size):
        first, last, radius = offsets[row], offsets[row + 1], radii[row]
        top, spread, mass = totals[first], totals[first] - totals[last - 1], 0.0
        for k in range(first, last):
            out[k] = probabilities[k]
            mass += probabilities[k] if totals[k] == top else 0.0
        if radius == 0.0 or not 0.0 < spread < math.inf:
            continue
        if mass > 0.0 and radius >= -math.log(mass):
            for k in range(first, last):
                out[k] = probabilities[k] / mass if totals[k] == top else 0.0
            continue
        low, high, tilt = 0.0, math.inf, math.sqrt(2.0 * radius)
        for _ in range(200):  # KL grows with the tilt: Newton's steps, or halves where one leaves the bracket
            weight, mean, square = 0.0, 0.0, 0.0
            for k in range(first, last):
                y = (totals[k] - top) / spread
                one = math.expm1(tilt * y)
                out[k] = probabilities[k] * (one + 1.0)
                weight += probabilities[k] * one
                mean += out[k] * y
                square += out[k] * y * y
            mean, square = mean / (1.0 + weight), square / (1.0 + weight)
            gap = tilt * mean - math.log1p(weight) - radius
            if abs(gap) <= 1e-13 * radius:
                break
            low, high = (tilt, high) if gap < 0.0 else (low, tilt)
            slope = tilt * (square - mean * mean)
            after = tilt - gap / slope if slope > 0.0 else math.inf
            if not low < after < high:
                after = 2.0 * tilt if high == math.inf else 0.5 * (low + high)
            if after == tilt or after > 1e300:
                break
            tilt = after
        for k in range(first, last):
            out[k] /= 1.0 + weight
