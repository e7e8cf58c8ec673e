"""The variants of each algorithm, and what differs between them.

The paper's text, the code behind its numbers and what is right do not agree in every detail.
Each variant names one reading; every result says which it used.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailwise.bonuses import PolynomialBonus
from tailwise.models import TabularMDP
from tailwise.planners import AccMcts, ErmMcts, make_planner
from tailwise.planners.protocol import FullPlanner
from tailwise.reproduction.authors import ForgetfulErmMcts, SlippedAccMcts
from tailwise.reproduction.published import ACC, DISTRIBUTIONAL, ERM


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
