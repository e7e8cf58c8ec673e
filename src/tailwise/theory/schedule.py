r"""The parameters of the tree (paper, theorem ``mcts-result`` and its appendix).

For a horizon H and 1/2 <= eta < 1 the theorem sets, with q = eta (1 - eta),

    eta_h = eta,     alpha_h = q xi_h,     xi_h = alpha_(h+1) - 1,     h = 1..H,

and asks for xi_H so large that alpha_h > 2 for all h. That is ``xi_0 = alpha_1 - 1 > 1``; read from the
root, ``xi_(h+1) = (xi_h + 1) / q``, so the smallest xi_H grows like q^-H (4^H at eta = 1/2).
From the leaves up, for decisions at depth h with beta_h = beta discount^h and costs-to-go in [-R_h, R_h],

    theta_H     the ERM estimator of terminal costs                (tailwise.theory.concentration)
    theta^L_h+1 an action with random next states, from theta_h+1  (tailwise.theory.concentration)
    theta_h     the bandit over the actions, from theta^L_h+1      (tailwise.theory.estimators)

and the bonus of action a at depth h is, eq. ``mcts_action-selection``,

    constant_h N(s)^q / N(s, a)^(1 - eta),      constant_h = (theta^L_(h+1))^(1 / xi_(h+1)).

The printed ``R_h = (discount^(1+H-h) - 1) R / (discount - 1)`` is 0/0 at discount 1, which the
paper allows; here it is the sum it stands for. ``tight`` uses R_(h+1) for the costs from the next state on.
The theorem also needs *one* optimal action at every node, by a margin: the gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import choice, integer, real
from tailwise.errors import ConditionError, OptionError
from tailwise.theory._decimals import Setting, exact_average, ln, precise
from tailwise.theory.concentration import exact_theta_arm, log_theta_of_costs
from tailwise.theory.estimators import exact_stream
from tailwise.theory.rates import check_arms, check_beta, check_eta, check_form, check_gap, check_radius

_ROOT_XI = Decimal(2)  # xi_0 where the user leaves xi_H open: any value above 1 will do
_LARGEST_LOG = math.log(np.finfo(np.float64).max)


@dataclass(frozen=True)
class DepthConstants:
    """One row of a schedule: decisions at depth ``depth``; symbols carry the subscript depth + 1."""

    depth: int
    beta: float
    radius: float
    alpha: float
    xi: float
    log_theta: float
    log_theta_arm: float
    log_constant: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """The schedule of theorem ``mcts-result`` for one horizon.

    Entry h of an array belongs to decisions at depth h = 0..H-1 and holds the paper's symbol with
    subscript h + 1, because that is what the bonus at depth h uses.

    Attributes
    ----------
    form : str
        "printed", "corrected" or "tight".
    eta : float
        eta_h, the same at every depth.
    bonus_exponent : float
        alpha_h / xi_h = eta (1 - eta), the power of N(s) in the bonus.
    alpha, xi : ndarray of float64, shape (H,)
        alpha_(h+1) and xi_(h+1); infinite where they exceed the largest double (H beyond about 500).
    log_alpha, log_xi : ndarray of float64, shape (H,)
        Their natural logarithms.
    log_theta, log_theta_arm : ndarray of float64, shape (H,)
        ln theta_(h+1) and ln theta^L_(h+1).
    log_constants : ndarray of float64, shape (H,)
        ln of the constant of the bonus at depth h; at eta = 1/2 even this has no double, and is infinite, at
        depths more than about 390 above the leaves.
    log_theta_root, xi_root : float
        ln theta_0 and xi_0 of the theorem's conclusion; eta_0 = eta.
    beta, radius : ndarray of float64, shape (H,)
        beta_h and R_h.
    """

    form: str
    eta: float
    bonus_exponent: float
    alpha: NDArray[np.float64]
    xi: NDArray[np.float64]
    log_alpha: NDArray[np.float64]
    log_xi: NDArray[np.float64]
    log_theta: NDArray[np.float64]
    log_theta_arm: NDArray[np.float64]
    log_constants: NDArray[np.float64]
    log_theta_root: float
    xi_root: float
    beta: NDArray[np.float64]
    radius: NDArray[np.float64]

    @property
    def horizon(self) -> int:
        """Number of decision steps H."""
        return int(self.alpha.size)

    @property
    def constants(self) -> NDArray[np.float64]:
        """The bonus constants, shape (H,); inf where a double ends.

        See :attr:`overflows` for where that is, :attr:`log_constants` for the values, and :meth:`clipped` for
        finite ones that act the same.
        """
        with np.errstate(over="ignore"):
            return np.exp(self.log_constants)

    def clipped(self, limit: float = 1e300) -> NDArray[np.float64]:
        """Return the bonus constants cut at ``limit``, so that all are finite; shape (H,).

        Any constant beyond about 10^17 times the range of the costs makes the same decisions: the estimates
        no longer change the sum, and the least visited action is taken. A cut at 1e300 therefore changes nothing.
        """
        return np.minimum(self.constants, real(limit, "limit", low=0.0, ends="(]"))

    @property
    def overflows(self) -> NDArray[np.bool_]:
        """Depths whose constant is beyond the largest double, 1.8e308: shape (H,)."""
        return np.asarray(self.log_constants > _LARGEST_LOG)

    @property
    def rows(self) -> tuple[DepthConstants, ...]:
        """The schedule as one row per depth."""
        columns = (
            self.beta, self.radius, self.alpha, self.xi, self.log_theta, self.log_theta_arm, self.log_constants,
        )  # fmt: skip
        return tuple(DepthConstants(h, *row) for h, row in enumerate(np.stack(columns, axis=1).tolist()))


@precise
def smallest_xi(horizon: int, eta: float = 0.5) -> float:
    """Infimum of the xi_H that theorem ``mcts-result`` admits: xi_H must be *above* it.

    Parameters
    ----------
    horizon : int
        H >= 1.
    eta : float in [1/2, 1), default 1/2
        The exponent of the schedule.

    Returns
    -------
    float
        x_H of ``x_0 = 1, x_(h+1) = (x_h + 1) / (eta (1 - eta))``; infinite beyond the largest double.

    Examples
    --------
    >>> from tailwise.theory import smallest_xi
    >>> [smallest_xi(horizon) for horizon in (1, 2, 3, 10)]
    [8.0, 36.0, 148.0, 2446676.0]
    """
    steps, share = integer(horizon, "horizon", low=1), Decimal(check_eta(eta))
    return float(_leaf_xi(Decimal(1), share * (1 - share), steps))


@precise
def schedule(
    *,
    horizon: int,
    beta: float,
    eta: float = 0.5,
    actions: int = 2,
    states: int = 2,
    gap: float | Sequence[float] = 0.1,
    cost_bound: float = 1.0,
    discount: float = 1.0,
    xi: float | None = None,
    terminal: str = "random",
    form: str = "corrected",
) -> Schedule:
    """All parameters of the risk-aware tree search that theorem ``mcts-result`` needs.

    Parameters
    ----------
    horizon : int
        H >= 1.
    beta : float
        Risk level at the root, > 0, in 1/cost.
    eta : float in [1/2, 1), default 1/2
        The rate is n^(eta - 1).
    actions : int, default 2
        K >= 2, actions at a node.
    states : int, default 2
        |S|, or the most next states that an action can reach.
    gap : float or sequence of float, shape (H,), default 0.1
        Delta_min between the best and the second-best action, one for all depths or one per depth.
    cost_bound : float, default 1
        R > 0: each cost lies in [-R, R].
    discount : float in (0, 1], default 1
        Discount factor.
    xi : float, optional
        xi_H, above ``smallest_xi(horizon, eta)``. By default the one that gives xi_0 = 2.
    terminal : {"random", "deterministic"}, default "random"
        Whether terminal costs are random. If not, a leaf has no estimation error and theta_H = 1.
    form : {"printed", "corrected", "tight"}, default "corrected"
        Which version of the constants, see :data:`tailwise.theory.FORMS`.

    Returns
    -------
    Schedule
        Arrays over the depths; ``clipped()`` is what the search's bonus takes.

    Raises
    ------
    ConditionError
        If beta <= 0, eta is outside [1/2, 1), xi is too small, or a gap is not in (0, 2 R_h].

    Notes
    -----
    O(horizon). The constants are astronomical: at eta = 1/2 their logarithm grows about sixfold a level, by
    ``1 / (1 - eta) + 1 / (eta (1 - eta)) = 2 + 4``: the number of bad pulls, a power of the constant, and theta itself.
    The gap is an assumption about the problem. With exact ties (mdp-4, grid-mdp) the true Delta_min is 0.

    Examples
    --------
    >>> from tailwise.theory import schedule
    >>> plan = schedule(horizon=3, beta=0.5, gap=0.2, form="tight", terminal="deterministic")
    >>> plan.xi.round(1).tolist()
    [12.0, 52.0, 212.0]
    >>> plan.log_constants.round(2).tolist()
    [269.12, 39.97, 4.42]
    """
    steps, level, share = integer(horizon, "horizon", low=1), check_beta(beta), check_eta(eta)
    arms, successors = check_arms(actions, "actions"), integer(states, "states", low=1)
    bound, kind = check_radius(cost_bound, "cost_bound"), check_form(form)
    factor = real(discount, "discount", low=0.0, high=1.0, ends="(]")
    is_random = choice(terminal, "terminal", ("random", "deterministic")) == "random"
    gamma, eta_exact = Decimal(factor), Decimal(share)
    product = eta_exact * (1 - eta_exact)
    xis = _exponents(steps, product, xi, share)  # xi_0 .. xi_H
    betas = [Decimal(level) * gamma**h for h in range(steps + 1)]
    radii = [Decimal(bound)]  # R_H, R_(H-1), ..
    for _ in range(steps):
        radii.append(Decimal(bound) + gamma * radii[-1])
    radii.reverse()
    gaps = _gaps(gap, radii[:steps])
    theta = log_theta_of_costs(xis[steps], betas[steps], radii[steps], kind) if is_random else Decimal(0)
    thetas, arm_thetas = [theta], []
    for h in reversed(range(steps)):
        inner = radii[h + 1] if kind == "tight" else radii[h]
        arm = exact_theta_arm(thetas[-1], xis[h + 1], betas[h + 1], inner, successors, kind)
        average = exact_average(
            Setting(
                form=kind,
                log_theta=arm,
                alpha=product * xis[h + 1],
                xi=xis[h + 1],
                eta=eta_exact,
                arms=arms,
                gap=gaps[h],
                beta=betas[h],
                radius=radii[h],
            ),
        )
        arm_thetas.append(average.log_theta)
        thetas.append(exact_stream(average)["log_theta_second"])
    root = thetas.pop()
    thetas.reverse()
    arm_thetas.reverse()
    alphas = [product * value for value in xis[1:]]
    constants = [arm / value for arm, value in zip(arm_thetas, xis[1:], strict=True)]
    return Schedule(
        form=kind,
        eta=share,
        bonus_exponent=float(product),
        alpha=_floats(alphas),
        xi=_floats(xis[1:]),
        log_alpha=_floats([ln(value) for value in alphas]),
        log_xi=_floats([ln(value) for value in xis[1:]]),
        log_theta=_floats(thetas),
        log_theta_arm=_floats(arm_thetas),
        log_constants=_floats(constants),
        log_theta_root=float(root),
        xi_root=float(xis[0]),
        beta=_floats(betas[:steps]),
        radius=_floats(radii[:steps]),
    )


def _exponents(horizon: int, product: Decimal, xi: float | None, eta: float) -> list[Decimal]:
    """xi_0 .. xi_H, from the given xi_H or from the default xi_0."""
    if xi is None:
        leaf = _leaf_xi(_ROOT_XI, product, horizon)
    else:
        leaf, smallest = Decimal(real(xi, "xi")), _leaf_xi(Decimal(1), product, horizon)
        if leaf <= smallest:
            raise ConditionError(
                f"xi = {xi:g} is too small for horizon {horizon}: alpha_1 > 2 needs xi_H > {smallest:.10g} "
                f"at eta = {eta:g} (smallest_xi({horizon}, {eta:g})); leave xi out for one that suits"
            )
    values = [leaf]
    for _ in range(horizon):
        values.append(product * values[-1] - 1)
    values.reverse()
    return values


def _leaf_xi(root: Decimal, product: Decimal, horizon: int) -> Decimal:
    """xi_H from xi_0 = ``root``."""
    value = root
    for _ in range(horizon):
        value = (value + 1) / product
    return value


def _gaps(gap: float | Sequence[float], radii: list[Decimal]) -> list[Decimal]:
    """One checked gap per depth."""
    given = [gap] * len(radii) if np.ndim(gap) == 0 else list(gap)  # type: ignore[arg-type]
    if len(given) != len(radii):
        raise OptionError(f"gap has {len(given)} entries for horizon {len(radii)}; give one number or one per depth")
    return [
        Decimal(check_gap(value, float(radius), f"gap at depth {h}"))
        for h, (value, radius) in enumerate(zip(given, radii, strict=True))
    ]


def _floats(values: list[Decimal]) -> NDArray[np.float64]:
    """Nearest doubles, read-only; infinite where there are none."""
    array = np.array(values, np.float64)
    array.flags.writeable = False
    return array
