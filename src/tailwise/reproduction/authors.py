"""The planners of the paper's experiments, as the authors' code behaves: both plan wrongly, each in its way.

ERM-MCTS: a tree that has to be rebuilt, since the observed state is not in it, forgets its depth. Acc-MCTS: the utility
has the wrong sign where the end is reached inside the tree, and the right one in a rollout.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import inlined
from tailwise._random import Seed
from tailwise.bindings import bind
from tailwise.bindings.accrued import (
    AccruedData,
    AccruedInterface,
    accrued_end_cost,
    count_accrued_actions,
    roll_out_accrued,
    take_accrued_step,
)
from tailwise.bindings.kernel_model import register_kernel_model
from tailwise.bindings.options import SimulationOptions
from tailwise.models import AccruedView, ExponentialUtility, TabularMDP
from tailwise.planners import ErmMcts, UtilitySearch
from tailwise.search import SearchOptions


class ForgetfulErmMcts(ErmMcts):
    """ERM-MCTS whose tree forgets its depth when it is rebuilt (the authors' variant).

    A tree planted at step h then works at ``beta * discount**(k - h)`` at step k >= h.
    """

    def risk_levels(self, planted: int) -> NDArray[np.float64]:
        """Return the levels as if the episode had begun where the tree was planted."""
        ages = np.arange(self.model.horizon, dtype=np.float64) - planted
        return np.asarray(self.options.beta * float(self.model.discount) ** ages)


class SlippedTable(AccruedView):
    """The accrued-cost view of a table whose utility has the wrong sign at an end inside the tree."""


class SlippedData(AccruedData):
    """What the kernel runs on for a :class:`SlippedTable`: the same data, known by its type."""


_right_step = inlined(take_accrued_step)


def _slipped_step(model, state, action, h, stream):  # type: ignore[no-untyped-def]
    target, utility, status = _right_step(model, state, action, h, stream)
    return target, 0.0 - utility, status


register_kernel_model(SlippedData, count_accrued_actions, _slipped_step, accrued_end_cost, roll_out_accrued)


class SlippedInterface(AccruedInterface):
    """A :class:`SlippedTable` bound to the kernel."""

    def __init__(self, model: AccruedView) -> None:
        super().__init__(model)
        self.data = SlippedData(*self.data)


@bind.register
def _(model: SlippedTable, rng: np.random.Generator, options: SimulationOptions) -> SlippedInterface:
    return SlippedInterface(model)


class SlippedAccMcts(UtilitySearch):
    """Acc-MCTS with the utility ``exp(beta x)``, beta not 0, and the authors' slip."""

    def __init__(self, mdp: TabularMDP, beta: float, *, seed: Seed = None) -> None:
        view = SlippedTable(mdp, ExponentialUtility(beta=beta, sense=mdp.sense))
        super().__init__(view, SearchOptions(), seed=seed)
