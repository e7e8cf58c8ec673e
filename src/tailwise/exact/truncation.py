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

*Simulators* have no such means, and their largest cost C is not known: what comes later is left out. It is at most
``discount^T C / (1 - discount)``, a share ``discount^T`` of the largest total that there can be.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from tailwise._arrays import Floats
from tailwise._progress import Progress, Tick, followed
from tailwise._validate import integer, real
from tailwise.errors import ModelError, OptionError
from tailwise.models import TabularMDP
from tailwise.models.contract import CUT_SHORT
from tailwise.models.simulator import model_name, validate_simulator

MAX_HORIZON = 1_000_000
_SWEEPS = 100_000
_SHARE = 1e-3  # of the largest total, which may be left out where nothing is said
AnyModel = TypeVar("AnyModel")


def truncate(
    model: AnyModel,
    tolerance: float | None = None,
    *,
    horizon: int | None = None,
    beta: float | None = None,
    progress: Progress = None,
) -> AnyModel:
    """Give a problem without end a horizon: one that is long enough where it discounts, or one that you choose.

    Parameters
    ----------
    model : TabularMDP or simulator
        Its horizon and terminal costs are ignored: what it charges in each state is charged for ever. A simulator
        charges its ``terminal_cost``, if it has one, where it is cut.
    tolerance : float, optional
        The largest error of the optimal risk at step 0 that is allowed, > 0, in the unit of the costs; of tables. If
        neither it nor ``horizon`` is given, it is a thousandth of the range that totals can have.
    horizon : int, optional
        The number of decisions, in place of a tolerance. Without discounting it is the only way, and has no bound.
    beta : float, optional
        The risk level at which the result will be used, in 1/cost. A level nearer 0 may be used as well. If it is not
        given, the bound holds for every risk measure that is monotone and translation-invariant (ERM at any beta, CVaR,
        EVaR, quantiles), and the horizon is about twice as long.
    progress : bool or callable, optional
        True shows a bar; a function is called with (sweeps over the table, None).

    Returns
    -------
    TabularMDP or simulator
        With the least horizon that the bounds allow, or the one that was given; a table also with terminal costs that
        stand for the rest. Its last note says which horizon it is and what the error is at most; plans repeat it.

    Raises
    ------
    OptionError
        If ``tolerance`` is not positive, needs more than 1,000,000 steps, or is given for a simulator or beside
        ``horizon``.
    ModelError
        If the discount is 1 and no horizon is given, or costs depend on the step.

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
    allowed = None if tolerance is None else real(tolerance, "tolerance", low=0.0, ends="(]")
    steps = None if horizon is None else integer(horizon, "horizon", low=1, high=MAX_HORIZON)
    level = None if beta is None else abs(real(beta, "beta"))
    if allowed is not None and steps is not None:
        raise OptionError("give a tolerance or a horizon to truncate, not both")
    if not isinstance(model, TabularMDP):
        if allowed is not None:
            raise OptionError(
                f"tolerance={allowed:g} is for a TabularMDP, whose costs are known, not for {type(model).__name__}: "
                "leave it out, or give horizon="
            )
        cut: AnyModel = _cut_simulator(model, steps)
        return cut
    discount = model.discount
    if model.step_losses.size:
        raise ModelError(f"costs of {model.name} depend on the step, up to its horizon; there is nothing to truncate")
    if discount >= 1.0:
        noted = _unbounded(model, steps)
        return replace(model, horizon=steps, terminal_losses=np.zeros(model.num_states), notes=(*model.notes, noted))
    replace(model, horizon=MAX_HORIZON).require_sound()  # no dead end may be reached, ever
    if allowed is None and steps is None:
        allowed = _SHARE * float(np.ptp(np.append(model.losses, 0.0))) / (1.0 - discount) or 1.0
    with followed(progress, "sweeping over the table", None) as tick:
        found: AnyModel = _truncated(_Swept(model, tick), allowed, steps, level)
    return found


def _unbounded(model: Any, steps: int | None) -> str:
    """Return what is said of a model that does not discount, or raise ``ModelError`` where it has no horizon."""
    if steps is None:
        raise ModelError(
            f"{model_name(model)} has discount {model.discount:g}: without discounting later costs never fade; say how "
            "far to look (horizon=), or give it a discount below 1"
        )
    return f"{CUT_SHORT} to {steps} decisions, as was asked; what comes later is left out, and no bound is known"


def _cut_simulator(model: Any, steps: int | None) -> Any:
    """Return a copy of a simulator that has a horizon."""
    validate_simulator(model, endless=True)
    discount = float(model.discount)
    if discount >= 1.0:
        note = _unbounded(model, steps)
    else:
        steps = _steps(_SHARE, discount, 1.0)[0] if steps is None else steps
        note = (
            f"{CUT_SHORT} to {steps} decisions; what comes later is left out: at most {discount**steps:.2g} of the "
            "largest total that there can be"
        )
    cut = copy.copy(model)
    for name, value in (("horizon", steps), ("notes", (*getattr(model, "notes", ()), note))):
        try:
            setattr(cut, name, value)
        except AttributeError:  # a frozen one
            object.__setattr__(cut, name, value)
    return cut


def _truncated(swept: _Swept, allowed: float | None, given: int | None, level: float | None) -> Any:
    """Cut where the bounds allow it, or where it was asked for."""
    model, discount = swept.mdp, swept.mdp.discount
    low, high = _envelope(swept)
    width = float(np.max(high - low))
    horizon, error = _steps(allowed, discount, width / 2.0, given)
    terminal = (low + high) / 2.0
    if level is not None and width > 0.0:
        # Half of the tolerance is for the bound, half for the means, which are computed to what is left of it.
        half = None if allowed is None else allowed / 2.0
        short, bound = _steps(half, discount**2, level * width**2 / 8.0, given)
        if short < horizon or (short == horizon and bound < error):
            spare = max(bound, 1e-3 * error) if half is None else half
            mean, off = _optimal_mean(swept, terminal, spare / discount**short)
            off = bound + off * discount**short
            if off <= (error if allowed is None else allowed):
                horizon, terminal, error = short, mean, off
    kind = "every monotone risk measure" if level is None else f"|beta| <= {level:g}"
    note = (
        f"{CUT_SHORT} to {horizon} decisions; what comes later is in the terminal costs, and the "
        f"optimal risk is off by at most {error:.3g} ({kind})"
    )
    terminal = np.ascontiguousarray(terminal)
    terminal.setflags(write=False)
    return replace(model, horizon=horizon, terminal_losses=terminal, notes=(*model.notes, note))


def _steps(allowed: float | None, factor: float, size: float, given: int | None = None) -> tuple[int, float]:
    """Return the least T >= 1 with ``size * factor^T <= allowed``, or the one that is given, and that bound."""
    steps = 1 if given is None else given
    if allowed is not None and size * factor > allowed:
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

    def __init__(self, mdp: TabularMDP, tick: Tick) -> None:
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
        self._tick(self._count)
        return result

    def settled(self, values: Floats, inner: np.ufunc, outer: np.ufunc, least: float) -> tuple[Floats, float]:
        """Sweep until no value moves by more than ``least``; return them, and by how much they moved at last."""
        for _ in range(_SWEEPS):
            before, values = values, self.sweep(values, inner, outer)
            moved = float(np.abs(values - before).max())
            if moved <= least:
                break
        return values, moved


def _envelope(swept: _Swept) -> tuple[Floats, Floats]:
    """Return the least and the largest total from each state on, from outside, to 0.1 % of all that is possible."""
    mdp = swept.mdp
    ends = bool(mdp.done.any())

    def outside(bound: float, ufunc: np.ufunc) -> Floats:
        first = float(ufunc.reduce(mdp.losses, initial=0.0 if ends else None))
        values = np.full(mdp.num_states, first / (1.0 - mdp.discount))
        return swept.settled(values, ufunc, ufunc, bound * (1.0 - mdp.discount))[0]  # a bound stays on its side

    fine = 1e-3 * float(np.ptp(np.append(mdp.losses, 0.0) if ends else mdp.losses))
    return outside(fine, np.minimum), outside(fine, np.maximum)


def _optimal_mean(swept: _Swept, values: Floats, allowed: float) -> tuple[Floats, float]:
    """Return the least mean total from each state on, from a first guess, and how far it is off at most."""
    share = swept.mdp.discount / (1.0 - swept.mdp.discount)
    values, moved = swept.settled(values, np.add, np.minimum, allowed / share)
    return values, share * moved
