"""How a search is configured: frozen, validated values.

Notation: the paper's eq. ``mcts_action-selection`` subtracts from an action's ERM, at depth h,

    (theta_{h+1})^(1/xi_{h+1})  *  N(s)^(alpha_{h+1}/xi_{h+1})  /  N(s, a)^(1 - eta_{h+1}).

Theorem ``mcts-result`` sets alpha = eta (1 - eta) xi, so that the exponents depend on eta alone and
the first factor is one *constant* per depth. The paper's experiments take eta = 1/2 and sqrt(2):
``sqrt(2) N(s)^(1/4) / N(s, a)^(1/2)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import choice, integer, real
from tailwise.bindings import Widening
from tailwise.errors import OptionError

_TABLE = 1024  # powers of counts below this are looked up: both tables stay in the first-level cache


@dataclass(frozen=True, kw_only=True)
class PolynomialBonus:
    """Exploration bonus ``constant[h] N(s)^(eta (1 - eta)) / N(s, a)^(1 - eta)`` (eq. mcts_action-selection).

    Parameters
    ----------
    constant : float or sequence of float, default sqrt(2)
        Non-negative scale, in the unit of the costs; a sequence gives one per depth 0..H-1 (the
        schedule of theorem ``mcts-result``).
    eta : float in [1/2, 1), default 1/2
        The paper's eta.

    Examples
    --------
    >>> from tailwise import PolynomialBonus
    >>> PolynomialBonus(constant=5.0).eta
    0.5
    """

    constant: float | Sequence[float] = math.sqrt(2)
    eta: float = 0.5

    def __post_init__(self) -> None:
        real(self.eta, "eta", low=0.5, high=1.0, high_open=True, hint="the theory needs 1/2 <= eta < 1")
        object.__setattr__(self, "constant", _constants(self.constant))


@dataclass(frozen=True, kw_only=True)
class LogBonus:
    """Exploration bonus ``constant[h] sqrt(ln N(s) / N(s, a))`` of UCB1 and UCT (Kocsis & Szepesvari, 2006).

    Parameters
    ----------
    constant : float or sequence of float, default sqrt(2)
        Non-negative scale, in the unit of the costs, or one per depth.
    """

    constant: float | Sequence[float] = math.sqrt(2)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", _constants(self.constant))


Bonus: TypeAlias = PolynomialBonus | LogBonus


def _constants(value: float | Sequence[float]) -> float | tuple[float, ...]:
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(real(item, f"constant[{h}]", low=0.0) for h, item in enumerate(value))
    return real(value, "constant", low=0.0)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Everything that shapes a search, besides the model and the seed.

    Parameters
    ----------
    beta : float
        Finite risk level at step 0 (1/cost); at step h the search works at ``beta * discount**h``.
    bonus : PolynomialBonus or LogBonus
        Exploration bonus.
    expansion : "leaf" or "path", default "leaf"
        "leaf": one node is added per iteration and a uniform random rollout follows, as in the
        paper's experiments. "path": the rule is followed to the horizon and every node on the
        way is added, the setting of theorem ``mcts-result``.
    recommend : "visits" or "value", default "visits"
        Recommended action: the most visited (of equals, the one of least risk), or the one of least risk.
    max_nodes : int, optional
        Stop when the tree holds this many decision nodes.
    max_memory : int, optional
        Stop when the tree would need more bytes than this.
    widening : Widening, optional
        Bound the different outcomes of each action, for simulators with continuous outcomes.
    rollout_policy : callable, optional
        ``rollout_policy(state, h, rng) -> action``, followed by rollouts instead of uniform random actions.
    leaf_value : callable, optional
        ``leaf_value(state, h) -> float``: the cost-to-go (in the model's sense, discounted to step h) of
        a new leaf, instead of a rollout. For a compiled simulator this and ``rollout_policy`` are compiled.
    """

    beta: float
    bonus: Bonus = field(default_factory=PolynomialBonus)
    expansion: str = "leaf"
    recommend: str = "visits"
    max_nodes: int | None = None
    max_memory: int | None = None
    widening: Widening | None = None
    rollout_policy: Callable[[Any, int, np.random.Generator], Any] | None = None
    leaf_value: Callable[[Any, int], float] | None = None

    def __post_init__(self) -> None:
        real(self.beta, "beta", hint="0 is the mean, positive averse, negative seeking")
        if not isinstance(self.bonus, (PolynomialBonus, LogBonus)):
            raise OptionError(f"bonus must be a PolynomialBonus or a LogBonus, not {self.bonus!r}")
        choice(self.expansion, "expansion", ("leaf", "path"))
        choice(self.recommend, "recommend", ("visits", "value"))
        if self.max_nodes is not None:
            integer(self.max_nodes, "max_nodes", low=1)
        if self.max_memory is not None:
            integer(self.max_memory, "max_memory", low=4096, hint="it is in bytes")
        if self.widening is not None and not isinstance(self.widening, Widening):
            raise OptionError(f"widening must be a Widening, as Widening(k=1, alpha=0.5), not {self.widening!r}")
        for name, shape in (
            ("rollout_policy", "(state, h, rng) -> action"),
            ("leaf_value", "(state, h) -> float"),
        ):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise OptionError(f"{name} must be a function {shape}, not {given!r}")
        if self.rollout_policy is not None and self.leaf_value is not None:
            raise OptionError("give rollout_policy or leaf_value, not both: a leaf value replaces the rollout")


class Rules(NamedTuple):
    """The options as the kernel reads them; H is the horizon."""

    horizon: int
    discount: float
    betas: NDArray[np.float64]  # (H,) risk level of each step
    constants: NDArray[np.float64]  # (H,) bonus constant of each step
    visit_exponent: float  # of N(s); negative asks for sqrt(ln N(s)) instead
    count_exponent: float  # of N(s, a), negative
    visit_factors: NDArray[np.float64]  # (1024,) the factor of N(s), by N(s)
    count_factors: NDArray[np.float64]  # (1024,) the factor of N(s, a), by N(s, a)
    whole_path: bool


def compile_rules(options: SearchOptions, horizon: int, discount: float) -> Rules:
    """Turn options into the kernel's form, for a model's horizon and discount.

    Raises
    ------
    OptionError
        If the bonus has one constant per depth and their number is not the horizon.
    """
    constant = options.bonus.constant
    if isinstance(constant, tuple):
        if len(constant) != horizon:
            raise OptionError(f"the bonus has {len(constant)} constants for a horizon of {horizon}; give one per step")
        constants = np.array(constant)
    else:
        constants = np.full(horizon, constant)
    counts = np.arange(_TABLE, dtype=np.float64)
    counts[0] = 1.0
    if isinstance(options.bonus, PolynomialBonus):
        eta = options.bonus.eta
        visit_exponent, count_exponent = eta * (1.0 - eta), eta - 1.0
        visit_factors = counts**visit_exponent
    else:
        visit_exponent, count_exponent = -1.0, -0.5
        visit_factors = np.sqrt(np.log(counts))
    return Rules(
        horizon,
        discount,
        options.beta * discount ** np.arange(horizon, dtype=np.float64),
        constants.astype(np.float64),
        visit_exponent,
        count_exponent,
        visit_factors,
        counts**count_exponent,
        options.expansion == "path",
    )
