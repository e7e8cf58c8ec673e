"""The bandit theorems' constants for a given bandit with independent costs."""

from __future__ import annotations

from tailwise.bandits.arms import Bandit
from tailwise.errors import ConditionError
from tailwise.theory.average import AverageConstants, average_constants
from tailwise.theory.concentration import log_theta, log_theta_nondeterministic
from tailwise.theory.conditions import check_beta, check_eta, check_xi


def bandit_constants(
    bandit: Bandit,
    beta: float,
    *,
    xi: float = 16.0,
    alpha: float | None = None,
    eta: float = 0.5,
    form: str = "corrected",
) -> AverageConstants:
    """Constants of the bandit theorems for ``bandit``, from the ranges of its costs.

    Parameters
    ----------
    bandit : Bandit
        Arms without drift, one of them better than all others.
    beta : float
        Risk level, > 0.
    xi : float, default 16
        Exponent of the arms' tails; free to choose for independent costs.
    alpha : float, optional
        ``xi eta (1 - eta)`` if not given; above 2.
    eta : float in [1/2, 1), default 1/2
        Exponent of the arms' fluctuations.
    form : {"printed", "corrected", "tight"}, default "corrected"
        Which version of the constants.

    Returns
    -------
    AverageConstants
        For :func:`tailwise.theory.stream_constants` and :meth:`ErmUcb.from_constants`.

    Raises
    ------
    ConditionError
        If a condition of the theorems fails, the best arm is not unique, or an arm drifts (its theta depends on how).

    Examples
    --------
    >>> from tailwise.bandits import ErmUcb, bandit_constants, make_bandit
    >>> constants = bandit_constants(make_bandit("stationary"), 0.1, form="tight")
    >>> round(constants.log_bonus_constant, 3)
    0.244
    >>> round(ErmUcb.from_constants(constants).constant, 3)
    1.276
    """
    level, exponent, share = check_beta(beta), check_xi(xi), check_eta(eta)
    outcomes = [outcome for arm in bandit.arms for outcome in arm.outcomes]
    if any(outcome.drift is not None and outcome.drift.amplitude > 0 for outcome in outcomes):
        raise ConditionError(
            "theta of a drifting arm depends on its drift; bound it yourself and call tailwise.theory.average_constants"
        )
    most = max(len(arm.outcomes) for arm in bandit.arms)
    if most == 1:
        theta = log_theta(exponent, level, bandit.radius, form=form)
    else:
        inner = level * bandit.discount
        low, high = (f(getattr(o.distribution, end) for o in outcomes) for f, end in ((min, "low"), (max, "high")))
        radius = 0.5 * (high - low)
        theta = log_theta_nondeterministic(
            log_theta=log_theta(exponent, inner, radius, form=form),
            xi=exponent,
            beta=inner,
            radius=radius,
            states=most,
            form=form,
        )
    return average_constants(
        log_theta=theta,
        alpha=exponent * share * (1.0 - share) if alpha is None else alpha,
        xi=exponent,
        eta=share,
        arms=len(bandit.arms),
        gap=bandit.gap(level),
        beta=level,
        radius=bandit.radius,
        form=form,
    )
