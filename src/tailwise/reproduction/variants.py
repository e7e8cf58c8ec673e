"""The variants of each algorithm, and what differs between them.

The paper's text, the code behind its numbers and what is right do not agree in every detail.
Each variant names one reading; every result says which it used.

Two of the planners behave as the authors' code does, and plan wrongly, each in its way. ERM-MCTS: a tree that has to
be rebuilt, since the observed state is not in it, forgets its depth. Acc-MCTS: the utility has the wrong sign where the
end is reached inside the tree, and the right one in a rollout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailwise._jit import inlined
from tailwise._random import Seed
from tailwise.bindings import bind
from tailwise.bindings.kernel_model import register_kernel_model
from tailwise.bindings.options import SimulationOptions
from tailwise.bindings.table import (
    AccruedData,
    AccruedInterface,
    accrued_end_cost,
    count_accrued_actions,
    roll_out_accrued,
    take_accrued_step,
)
from tailwise.bonuses import PolynomialBonus
from tailwise.models import AccruedView, ExponentialUtility, TabularMDP
from tailwise.planners import AccMcts, ErmMcts, UtilitySearch, make_planner
from tailwise.planners.protocol import FullPlanner
from tailwise.search import SearchOptions

ORACLE, ACC, ERM = "ERM-BI", "Acc-MCTS", "ERM-MCTS"
DISTRIBUTIONAL = "Distributional"  # no entry of the paper's tables


class ForgetfulErmMcts(ErmMcts):
    """ERM-MCTS whose tree, planted at step h, works at ``beta * discount**(k - h)`` at step k (the authors')."""

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


@dataclass(frozen=True)
class Variant:
    """One reading of the algorithms.

    Attributes
    ----------
    name : str
        How results name it.
    summary : str
        What it does.
    algorithms : tuple of str
        Which algorithms it applies to.
    problems : tuple of str
        Which problems it is run on.
    """

    name: str
    summary: str
    algorithms: tuple[str, ...]
    problems: tuple[str, ...] = ("mdp-4", "grid-mdp")


AUTHORS = Variant(
    "authors",
    "As the authors' code behaves. One node is added per iteration, then a uniform random rollout. Acc-MCTS: "
    "utility exp(beta x); where the end is reached inside the tree its sign is wrong. A tree that has to be "
    "rebuilt, since the observed state is not in it, forgets its depth: it uses beta instead of "
    "beta * discount^h.",
    (ERM, ACC),
)
REPAIRED = Variant(
    "repaired",
    "As the authors' code, but with the right sign everywhere and the right risk level after a rebuild. For "
    "ERM-MCTS these are tailwise's defaults.",
    (ERM, ACC),
)
TEXT = Variant(
    "text",
    "The paper's text read literally: the selection rule is followed to depth H and every node on the way is "
    "added (no rollouts). Otherwise as repaired.",
    (ERM, ACC),
)
RESCALED = Variant(
    "rescaled",
    "Acc-MCTS as repaired, with the utility (exp(beta (x - m)) - 1) / beta: the same decisions in the limit, but "
    "the exploration constant is in the unit of the costs. tailwise's default for Acc-MCTS.",
    (ACC,),
)
LARGER_CONSTANTS = tuple(
    Variant(
        f"constant-{constant}",
        f"ERM-MCTS as repaired, with the exploration constant {constant} instead of sqrt(2).",
        (ERM,),
        ("grid-mdp",),
    )
    for constant in (5, 20, 60)
)
LAWS = Variant(
    "laws",
    "Distributional MCTS (Hayes et al., 2023), which the paper names and does not run: laws of the total and Thompson "
    "sampling by the bootstrap, here on a learned model. Only where it is asked for: it takes minutes.",
    (DISTRIBUTIONAL,),
)
_PAPER = (AUTHORS, REPAIRED, TEXT, RESCALED, *LARGER_CONSTANTS)
VARIANTS = {variant.name: variant for variant in (*_PAPER, LAWS)}
DEFAULT_VARIANTS = tuple(variant.name for variant in _PAPER)


def variant_planner(model: TabularMDP, beta: float, algorithm: str, variant: str) -> FullPlanner:
    """Return the planner of an algorithm in one of its variants.

    Parameters
    ----------
    model : TabularMDP
        The table to plan on.
    beta : float
        Finite risk level.
    algorithm : {"ERM-MCTS", "Acc-MCTS", "Distributional"}
        Which algorithm.
    variant : str
        Which of ``VARIANTS``; one that applies to the algorithm.

    Returns
    -------
    Planner
        A planner at the start of the table, with a seed of its own.

    Examples
    --------
    >>> from tailwise import domains
    >>> from tailwise.reproduction import variant_planner
    >>> variant_planner(domains.make("mdp-4"), 0.5, "ERM-MCTS", "constant-20").options.bonus.constant
    20.0
    """
    if algorithm == DISTRIBUTIONAL:
        return make_planner(model, beta, kind="distributional")
    if algorithm == ACC:
        if variant == RESCALED.name:
            return AccMcts(model, beta)
        if variant == AUTHORS.name:
            return SlippedAccMcts(model, beta)
        return AccMcts(model, beta, form="raw", expansion="path" if variant == TEXT.name else "leaf")
    if variant == AUTHORS.name:
        return ForgetfulErmMcts(model, beta)
    if variant == TEXT.name:
        return ErmMcts(model, beta, expansion="path")
    if variant.startswith("constant-"):
        return ErmMcts(model, beta, bonus=PolynomialBonus(constant=float(variant.removeprefix("constant-"))))
    return ErmMcts(model, beta)
