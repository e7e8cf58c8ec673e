"""Acc-MCTS: the entropic risk by way of accrued costs.

The paper's adaptation of Hayes et al. (2023): the state is extended with the discounted cost accrued so
far, steps are free, and the end charges ``u(total)`` with ``u(x) = exp(beta x)``; a search for the mean on
that view minimises the entropic risk (paper, appendix "Risk-aware MCTS"). The bonus is the
polynomial one with constant sqrt(2), as in the paper's experiments.

Two forms of u. ``form="raw"`` is the paper's; its scale runs from 1 to ``exp(beta * total)``, beside which
sqrt(2) is anything from everything to nothing, and it overflows once ``beta * total > 709``. The default,
``form="rescaled"``, is ``(exp(beta (x - m)) - 1) / beta``: the same decisions, but in the unit of the costs,
with slope 1 at the reference m (for rewards beta turns its sign and u is maximised). If none is given, m is the
entropic risk of uniformly random
episodes (a fixed sample: 256 on a table, 64 of a simulator), raised where that is needed to rule out overflow. (For a
negative beta: lowered.)
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import kernel
from tailwise._random import Seed, generator, stream_words
from tailwise._validate import choice, real
from tailwise.bindings.kernel_model import roll_out
from tailwise.errors import OptionError, SimulatorError
from tailwise.models.accrued import EXP_LIMIT, AccruedView, ExponentialUtility, total_bounds
from tailwise.models.simulator import cost_fault, model_name, short
from tailwise.planners.utility_search import UtilitySearch
from tailwise.risk import erm
from tailwise.search import SearchKeywords, options_of

_PILOTS, _SIMULATED_PILOTS = 256, 64


class AccMcts(UtilitySearch):
    """Monte Carlo tree search for the entropic risk measure on accrued costs (the paper's Acc-MCTS).

    Parameters
    ----------
    model : TabularMDP or simulator
        The problem. The view of a simulator runs in Python.
    beta : float
        Finite risk level at step 0 (1/cost): positive averse, 0 the mean, negative seeking.
    form : "rescaled" or "raw", default "rescaled"
        The utility: ``(exp(beta (x - m)) - 1) / beta``, or the paper's ``exp(beta x)``; see
        :class:`tailwise.models.ExponentialUtility` for what they are of rewards.
    reference : float, optional
        The point m of the rescaled form: a total cost, or a total reward of a model that has rewards.
    seed : None, int, SeedSequence or Generator
        Source of all randomness.
    **keywords
        Fields of :class:`tailwise.SearchOptions`, such as ``bonus``. ``widening``, ``rollout_policy`` and
        ``leaf_value`` are for simulators: both functions are of the model's own states, and a leaf's value is a
        cost-to-go, not a utility.

    Raises
    ------
    ModelError
        If ``model`` is neither a table nor a simulator.
    OptionError
        If an option is out of range.

    Examples
    --------
    >>> from tailwise import AccMcts, domains
    >>> search = AccMcts(domains.make("mdp-4"), beta=0.5, seed=0)
    >>> plan = search.plan(iterations=2000)
    >>> plan.label, plan.aim.endswith("rescaled"), 1.5 < plan.certainty_equivalent < 3.0
    ('safe', True, True)
    >>> search.advance(plan.action, state=1)
    >>> search.step, search.accrued
    (1, 0.0)
    """

    def __init__(
        self,
        model: Any,
        beta: float,
        *,
        form: str = "rescaled",
        reference: float | None = None,
        seed: Seed = None,
        **keywords: Unpack[SearchKeywords],
    ) -> None:
        level = real(beta, "beta", hint="0 is the mean, positive averse, negative seeking")
        if choice(form, "form", ("rescaled", "raw")) == "raw":
            if reference is not None:
                raise OptionError('reference belongs to form="rescaled"; the raw form has none')
            point = None
        else:
            point = pilot_reference(model, level) if reference is None else reference
        utility = ExponentialUtility(beta=level, reference=point, sense=getattr(model, "sense", "cost"))
        super().__init__(AccruedView(model, utility), options_of(0.0, keywords), seed=seed)

    def get_params(self) -> dict[str, object]:
        """Return the arguments of the constructor; ``reference`` is the one that was found, where none was given."""
        utility: Any = self.model.utility
        return {**super().get_params(), "reference": utility.reference}


def pilot_reference(model: Any, beta: float) -> float:
    """Return the reference of the rescaled utility: the ERM of random episodes, safe from overflow.

    It is the same for the same model and level, whatever the planner's seed. The bounds that rule out overflow are
    known for tables only.
    """
    rng = generator(0)
    view = AccruedView(model, float)
    if not view.is_table:
        losses = _simulated_episodes(view, rng)
        return erm(losses, beta) if model.sense == "cost" else 0.0 - erm(losses, beta)
    losses = np.empty(_PILOTS)
    _random_episodes(model.data, model.start, model.horizon, model.discount, stream_words(rng), losses)
    point = erm(losses, beta)
    low, high = total_bounds(model)
    if beta > 0:
        point = max(point, high - (EXP_LIMIT - 1.0) / beta)
    elif beta < 0:
        point = min(point, low - (EXP_LIMIT - 1.0) / beta)
    return float(model.signed(point))


def _simulated_episodes(view: AccruedView, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the total losses of uniformly random episodes of a simulator."""
    model, totals = view.model, np.empty(_SIMULATED_PILOTS)
    for k in range(totals.size):
        state, done, total, h = view.start, False, 0.0, 0
        while not done and h < view.horizon:
            try:
                allowed = view.actions(state)
                choices = range(allowed) if isinstance(allowed, (int, np.integer)) else allowed
                state, total, done = view.step(state, choices[int(rng.random() * len(choices))], rng, h)
                h += 1
            except Exception as error:
                raise SimulatorError(
                    f"{model_name(model)} failed in state {short(state[0])} at step {h} of a random episode, "
                    f"played to find the utility's reference: {type(error).__name__}: {error}; tailwise.check_model "
                    "says more"
                ) from error
        totals[k] = view.signed(total)
        fault = cost_fault(float(totals[k]))
        if fault:
            raise SimulatorError(f"the total cost of a random episode of {model_name(model)} {fault}")
    return totals


@kernel
def _random_episodes(table, start, horizon, discount, stream, totals):  # type: ignore[no-untyped-def]
    """Fill ``totals`` with the discounted losses of uniformly random episodes."""
    for k in range(totals.size):
        totals[k], _, _ = roll_out(table, start, 0, horizon, discount, stream)


def raw_planner(model: Any, beta: float, *, seed: Seed = None, **options: Any) -> AccMcts:
    """Return the search with the paper's utility."""
    return AccMcts(model, beta, form="raw", seed=seed, **options)
