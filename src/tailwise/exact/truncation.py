r"""From an infinite horizon to a finite one, with a bound on what that does to the risk.

A discounted problem without end needs a last step T. What is charged there stands for all that comes later, and
two choices have a bound. Let w be the largest difference that there can be between two totals from one state on.

*Any risk.* Charge the middle of the least and the largest total from each state. No total then moves by more
than ``discount^T w / 2``, so neither does its risk, for every measure that is monotone and translation-invariant.

*Entropic risk.* Charge the optimal *mean* m(s) of the later total. Risk at step T is taken at the level
``beta discount^T``, which is small, so that the later tail is nearly risk-neutral: by Hoeffding's lemma

    m <= ERM_{beta_T} <= m + beta_T w^2 / 8        for beta > 0 (reflected for beta < 0),

for the optimum over all later decisions. In the unit of step 0 that is an error of at most
``|beta| discount^(2T) w^2 / 8``: half the horizon does for the same tolerance. (After Hau, Petrik & Ghavamzadeh,
2023.) The optimal value of the finite problem is within that bound of the true one, from below for beta > 0, and
its policy, continued by the risk-neutral one from step T on, is as good.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tailwise._arrays import Floats
from tailwise._progress import Progress, followed
from tailwise._validate import real
from tailwise.errors import ModelError, OptionError
from tailwise.models import TabularMDP
from tailwise.models.tabular import require_table

MAX_HORIZON = 1_000_000
_SWEEPS = 100_000


def truncate(
    model: TabularMDP, tolerance: float, *, beta: float | None = None, progress: Progress = None
) -> TabularMDP:
    """Give a discounted problem without end a horizon that is long enough.

    Parameters
    ----------
    model : TabularMDP
        Its horizon and terminal costs are ignored: what it charges in each state is charged for ever.
    tolerance : float
        The largest error of the optimal risk at step 0 that is allowed, > 0, in the unit of the costs.
    beta : float, optional
        The risk level at which the result will be used, in 1/cost. A level nearer 0 may be used as well. If it is not
        given, the bound holds for every risk measure that is monotone and translation-invariant (ERM at any beta, CVaR,
        EVaR, quantiles), and the horizon is about twice as long.
    progress : bool or callable, optional
        True shows a bar; a function is called with (sweeps over the table, None).

    Returns
    -------
    TabularMDP
        With the least horizon that the bounds allow, terminal costs that stand for the rest, and a note that says
        which horizon was chosen and what the error is at most.

    Raises
    ------
    OptionError
        If ``tolerance`` is not positive, or needs more than 1,000,000 steps.
    ModelError
        If the discount is 1, or costs depend on the step.

    Notes
    -----
    O(T * outcomes). See :mod:`tailwise.exact.truncation` for the bounds.

    Examples
    --------
    >>> from tailwise import TabularMDP, backward_induction, truncate
    >>> coin = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0], horizon=1, discount=0.9)
    >>> finite = truncate(coin, 1e-6, beta=0.5)
    >>> finite.horizon
    78
    >>> exact = sum(math.log1p(math.expm1(0.5 * 0.9**h) / 2) / 0.5 for h in range(1000))
    >>> 0 <= exact - backward_induction(finite, 0.5).value <= 1e-6
    True
    """
    require_table(model, "truncate")
    allowed = real(tolerance, "tolerance", low=0.0, ends="(]")
    level = None if beta is None else abs(real(beta, "beta"))
    discount = model.discount
    if discount >= 1.0:
        raise ModelError(
            f"{model.name} has discount {discount:g}: without discounting later costs never fade; give it a discount "
            "below 1, or a horizon"
        )
    if model.step_losses.size:
        raise ModelError(f"costs of {model.name} depend on the step, up to its horizon; there is nothing to truncate")
    replace(model, horizon=MAX_HORIZON).require_sound()  # no dead end may be reached, ever
    with followed(progress, "sweeping over the table", None) as tick:
        return _truncated(_Swept(model, tick), allowed, level)


def _truncated(swept: _Swept, allowed: float, level: float | None) -> TabularMDP:
    """Cut where the bounds allow it."""
    model, discount = swept.mdp, swept.mdp.discount
    low, high = _envelope(swept)
    width = float(np.max(high - low))
    horizon, error = _steps(allowed, discount, width / 2.0)
    terminal = (low + high) / 2.0
    if level is not None and width > 0.0:
        # Half of the tolerance is for the bound, half for the means, which are computed to what is left of it.
        short, bound = _steps(allowed / 2.0, discount**2, level * width**2 / 8.0)
        if short < horizon:
            mean, off = _optimal_mean(swept, terminal, allowed / 2.0 / discount**short)
            if bound + off * discount**short <= allowed:
                horizon, terminal, error = short, mean, bound + off * discount**short
    kind = "every monotone risk measure" if level is None else f"|beta| <= {level:g}"
    note = (
        f"an infinite horizon was cut to {horizon} decisions; what comes later is in the terminal costs, and the "
        f"optimal risk is off by at most {error:.3g} ({kind})"
    )
    terminal = np.ascontiguousarray(terminal)
    terminal.setflags(write=False)
    return replace(model, horizon=horizon, terminal_losses=terminal, notes=(*model.notes, note))


def _steps(allowed: float, factor: float, size: float) -> tuple[int, float]:
    """Return the least T >= 1 with ``size * factor^T <= allowed``, and that bound."""
    steps = 1
    if size * factor > allowed:
        wanted = math.log(allowed / size) / math.log(factor)
        if wanted > MAX_HORIZON:
            raise OptionError(
                f"the tolerance needs {wanted:.3g} decisions, over {MAX_HORIZON}; give a larger one, or a smaller "
                "discount"
            )
        steps = max(1, math.ceil(wanted))
        if size * factor**steps > allowed:  # rounding in the logarithms
            steps += 1
    return steps, size * factor**steps


class _Swept:
    """A table that counts how often it was swept over, and tells who follows."""

    def __init__(self, mdp: TabularMDP, tick: Callable[[float], None] | None) -> None:
        self.mdp, self._tick, self._count = mdp, tick, 0

    def sweep(self, values: Floats, inner: np.ufunc, outer: np.ufunc) -> Floats:
        """Return best-of-rows(of-outcomes(cost + discount values)); ``inner`` "add" takes the mean of the outcomes."""
        mdp = self.mdp
        later = np.where(mdp.done, 0.0, mdp.discount * values[mdp.next_states])
        outcomes = mdp.losses + later
        if inner is np.add:
            outcomes = mdp.probabilities * outcomes
        rows = inner.reduceat(outcomes, mdp.outcome_offsets[:-1])
        deciding = np.flatnonzero(np.diff(mdp.action_offsets))
        result = np.zeros(mdp.num_states)
        result[deciding] = outer.reduceat(rows, mdp.action_offsets[deciding])
        self._count += 1
        if self._tick is not None:
            self._tick(self._count)
        return result


def _envelope(swept: _Swept) -> tuple[Floats, Floats]:
    """Return the least and the largest total from each state on, from outside, to 0.1 % of all that is possible."""
    mdp = swept.mdp
    ends = bool(mdp.done.any())

    def outside(bound: float, reduce: Callable[[Floats], Any], ufunc: np.ufunc) -> Floats:
        first = float(reduce(mdp.losses))
        first = float(reduce(np.array([first, 0.0]))) if ends else first
        values = np.full(mdp.num_states, first / (1.0 - mdp.discount))
        for _ in range(_SWEEPS):  # each sweep keeps the bound on its side
            nearer = swept.sweep(values, ufunc, ufunc)
            moved = float(np.abs(nearer - values).max())
            values = nearer
            if moved <= bound * (1.0 - mdp.discount):
                break
        return values

    fine = 1e-3 * float(np.ptp(np.append(mdp.losses, 0.0) if ends else mdp.losses))
    return outside(fine, np.min, np.minimum), outside(fine, np.max, np.maximum)


def _optimal_mean(swept: _Swept, values: Floats, allowed: float) -> tuple[Floats, float]:
    """Return the least mean total from each state on, from a first guess, and how far it is off at most."""
    off, discount = math.inf, swept.mdp.discount
    for _ in range(_SWEEPS):
        nearer = swept.sweep(values, np.add, np.minimum)
        off = discount / (1.0 - discount) * float(np.abs(nearer - values).max())
        values = nearer
        if off <= allowed:
            break
    return values, off
