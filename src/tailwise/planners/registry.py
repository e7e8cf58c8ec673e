"""Planners by name, and what each takes: model, objective and options. What is chosen, and refused, follows from that.

The kinds of this package stand at the end, each with the place of its class, which is imported when it is built. Others
are added by :func:`register_planner`, by an entry point of the group ``tailwise.planners``, or are named in full, as
``package.module:Class``. :func:`objective_cells` is the table of objectives, models and planners, which the command
``tailwise planners`` prints and the docs show.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tailwise._lazy import nearest, own_module
from tailwise.errors import OptionError, TailwiseError, UnknownNameError
from tailwise.models.contract import short
from tailwise.models.simulator import is_partly_observed, lists_outcomes
from tailwise.models.tabulate import lists_hidden
from tailwise.risk.objectives import ERM, OBJECTIVES, CVaR, EVaR, Exceedance, Expectation, ExpectedUtility, Objective

if TYPE_CHECKING:
    from tailwise.bonuses import Bonus
    from tailwise.planners.protocol import Planner

GROUP = "tailwise.planners"
_BY_BETA = (ERM, Expectation)
Made = TypeVar("Made")


_MEMBERS = ("plan", "advance", "reset", "fresh", "state", "step")  # of a planner


@dataclass(frozen=True)
class PlannerKind:
    """What a kind of planner declares.

    Attributes
    ----------
    name : str
        What ``kind=`` and ``--planner`` take.
    summary : str
        What it is, in one line.
    build : callable or str
        ``build(model, objective, *, seed, ...)`` returns a :class:`tailwise.Planner`; or where it is found,
        ``package.module:name``. One whose objectives are ``ERM`` and ``Expectation`` is given the number beta.
    options : tuple of str or None
        Names of its other keywords; None where it takes any. Those of a ``build`` that is given itself are read from
        its signature.
    models : "any" or "outcomes"
        What it works on: any model, or one that lists its outcomes (a table, or a simulator that has ``outcomes``).
    hidden : bool
        Whether it plans on models whose state is not seen, and on no others.
    objectives : tuple of type
        Classes of objectives that it pursues.
    bonus : callable or str, optional
        The rule that a plain number as ``bonus=`` is the constant of.
    saves : bool
        Whether it can be saved, and keeps checkpoints.
    endless : bool
        Whether it plans without a horizon.
    """

    name: str
    summary: str
    build: Callable[..., Planner] | str
    options: tuple[str, ...] | None = None
    models: Literal["any", "outcomes"] = "any"
    hidden: bool = False
    objectives: tuple[type[Objective], ...] = _BY_BETA
    bonus: Callable[..., Bonus] | str | None = None
    saves: bool = False
    endless: bool = False

    def __post_init__(self) -> None:
        if self.options is None and callable(self.build):
            object.__setattr__(self, "options", _options_of(self.build))

    @property
    def needs(self) -> str:
        """What a model must be, in words."""
        needs = ["hides its state"] * self.hidden + ["lists its outcomes"] * (self.models == "outcomes")
        return " and ".join(needs) or "any model"

    def pursues(self, objective: Objective) -> bool:
        """Return whether it plans for such an objective."""
        return isinstance(objective, self.objectives)

    def works_on(self, model: Any) -> bool:
        """Return whether it plans on such a model."""
        return is_partly_observed(model) == self.hidden and (self.models == "any" or _lists(model))

    def takes(self, option: str) -> bool:
        """Return whether it has an option of that name."""
        return self.options is None or option in self.options

    def made(self, model: Any, objective: Objective, **options: Any) -> Planner:
        """Return the planner of a model for an objective, with options that it takes."""
        what: Any = objective
        if set(self.objectives) <= set(_BY_BETA):
            what = getattr(objective, "beta", 0.0)
        try:
            planner: Planner = imported(self.build)(model, what, **options)
        except (Exception, SystemExit) as error:
            if isinstance(error, TailwiseError) or ":" not in self.name:
                raise
            raise OptionError(
                f"planner {self.name!r} cannot be made: {type(error).__name__}: {error}; expected a class or "
                "a function (model, beta, *, seed=None)"
            ) from error
        has = [hasattr(type(planner), name) or hasattr(planner, name) for name in _MEMBERS]  # a property is not asked
        if lacking := [name for name, there in zip(_MEMBERS, has, strict=True) if not there]:
            raise OptionError(
                f"planner {self.name!r} made {short(planner)}, which has no {', '.join(lacking)}; see tailwise.Planner"
            )
        return planner


def _lists(model: Any) -> bool:
    """Return whether a model says all that may happen, with probabilities."""
    return lists_hidden(model) if is_partly_observed(model) else lists_outcomes(model)


_KINDS: dict[str, PlannerKind] = {}


def register_planner(kind: PlannerKind) -> None:
    """Give a kind of planner its name, by which :func:`tailwise.make_planner` and the command line know it."""
    if not isinstance(kind, PlannerKind):
        raise OptionError(f"a kind of planner is a PlannerKind(name, summary, build), not {short(kind)}")
    _KINDS[kind.name] = kind


def imported(place: Callable[..., Made] | str) -> Callable[..., Made]:
    """Return what ``package.module:name`` names; anything but a text is returned as it is."""
    if not isinstance(place, str):
        return place
    module, _, name = place.partition(":")
    found: Callable[..., Made] = getattr(importlib.import_module(module), name)
    return found


def _options_of(build: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the keywords of a constructor beside model, objective and seed; None if it takes any."""
    parameters = list(inspect.signature(build).parameters.values())
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return None
    return tuple(one.name for one in parameters[2:] if one.name != "seed")


def list_planners() -> tuple[PlannerKind, ...]:
    """Return every kind of planner that has a name, entry points of other packages included.

    Examples
    --------
    >>> from tailwise.planners import list_planners
    >>> "erm-mcts" in [kind.name for kind in list_planners()]
    True
    """
    return (*_KINDS.values(), *(_loaded(point.name, point.load) for point in _others()))


def find_planner(name: str) -> PlannerKind:
    """Return the kind of a name, or of ``package.module:Class``.

    Raises
    ------
    UnknownNameError
        If there is no such name, or nothing can be imported from there; the message names the nearest names.
    """
    if not isinstance(name, str):
        raise UnknownNameError(f"a kind of planner is named by a text, as 'auto' or 'exact', not {name!r}")
    if name in _KINDS:
        return _KINDS[name]
    for point in _others():
        if point.name == name:
            return _loaded(name, point.load)
    module, colon, attribute = name.partition(":")
    if colon and attribute:
        return _loaded(name, lambda: getattr(own_module(module), attribute))
    known = [*_KINDS, *(point.name for point in _others())]
    hint = nearest(name, known)
    raise UnknownNameError(f"no planner is called {name!r}; {hint} (one of your own: package.module:Class)")


def _others() -> list[Any]:
    return [point for point in entry_points(group=GROUP) if point.name not in _KINDS]


def _loaded(name: str, load: Callable[[], Any]) -> PlannerKind:
    try:
        build = load()
    except Exception as error:  # whatever importing another's code raises
        raise UnknownNameError(f"planner {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if name in _KINDS:  # it registered itself
        return _KINDS[name]
    if not callable(build):
        raise OptionError(f"planner {name!r} is {build!r}; expected a class or a function (model, beta, *, seed=None)")
    return PlannerKind(name, (inspect.getdoc(build) or "").partition("\n")[0], build)


NOBODY = "-"


@dataclass(frozen=True)
class Cell:
    """Which kinds of planners pursue an objective, in the order in which "auto" looks through them.

    Attributes
    ----------
    objective : str
        Name of the objective's class.
    listing : tuple of str
        Kinds for models that list their outcomes: tables, and simulators that have ``outcomes``.
    sampled : tuple of str
        Kinds for any model.
    """

    objective: str
    listing: tuple[str, ...]
    sampled: tuple[str, ...]


def objective_cells() -> tuple[Cell, ...]:
    """Return the table of objectives, models and planners.

    Examples
    --------
    >>> from tailwise.planners import objective_cells
    >>> [cell.sampled[0] for cell in objective_cells() if cell.objective == "CVaR"]
    ['cvar-mcts']
    """
    cells = []
    for objective in OBJECTIVES:
        seen = (kind for kind in list_planners() if not kind.hidden)
        able = [kind for kind in seen if any(issubclass(objective, one) for one in kind.objectives)]
        listing = tuple(kind.name for kind in able if kind.models == "outcomes")
        cells.append(Cell(objective.__name__, listing, tuple(kind.name for kind in able if kind.models == "any")))
    return tuple(cells)


def as_markdown(cells: tuple[Cell, ...]) -> str:
    """Return the table in Markdown, as the docs show it."""
    lines = ["| objective | models that list their outcomes | any model |", "|---|---|---|"]
    for cell in cells:
        row = (f"`{cell.objective}`", *(", ".join(map("`{}`".format, kinds)) for kinds in (cell.listing, cell.sampled)))
        lines.append("| " + " | ".join(text or NOBODY for text in row) + " |")
    return "\n".join(lines)


_TREE = (
    *("bonus", "backup", "leaf", "expansion", "untried", "recommend", "max_nodes", "max_memory", "widening"),
    *("rollout_policy", "prior_policy", "leaf_value"),
)
_LEARNED = (
    "exploration",
    "max_nodes",
    "max_memory",
    "widening",
    "rollout_policy",
    "prior_policy",
    "leaf_value",
    "features",
)
_ERM = ("bounds", "rare_outcomes")  # what is known of the ERM of plain costs
_POLYNOMIAL, _LOG = "tailwise.bonuses:PolynomialBonus", "tailwise.bonuses:LogBonus"

register_planner(PlannerKind(
    "exact", build="tailwise.planners.exact:ExactPlanner",
    summary="the exact optimum, by tailwise.solve", models="outcomes", options=("max_states", "threads"), endless=True,
    objectives=(Objective,),
))  # fmt: skip
register_planner(PlannerKind(
    "exact-neutral", build="tailwise.planners.exact:neutral_planner",
    summary="the exact risk-neutral optimum, whatever the beta", models="outcomes", options=("max_states", "threads"),
    endless=True,
))  # fmt: skip
register_planner(PlannerKind(
    "bounded", build="tailwise.planners.bounded_rtdp:BoundedRtdp",
    summary="certified bounds on the optimal risk, and an action proven best", models="outcomes", saves=True,
    options=("bounds", "terminal_bounds", "tolerance", "width", "max_nodes", "max_memory", "max_states"),
))  # fmt: skip
register_planner(PlannerKind(
    "learned", build="tailwise.planners.searches:LearnedModelSearch",
    summary="sampling, with every outcome kept as a learned model", options=(*_LEARNED, *_ERM), saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "tree", build="tailwise.planners.searches:auto_tree",
    summary="tree search with rules that need no constant (ErmMcts, preset='auto')", options=("preset", *_TREE, *_ERM),
    saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "erm-mcts", build="tailwise.planners.searches:ErmMcts",
    summary="the paper's search for the entropic risk", options=("preset", *_TREE, *_ERM), bonus=_POLYNOMIAL,
    saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "acc-mcts", build="tailwise.planners.utility_search:AccMcts",
    summary="search on accrued costs, rescaled utility", options=("form", "reference", *_TREE), bonus=_POLYNOMIAL,
    saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "acc-mcts-raw", build="tailwise.planners.utility_search:raw_planner",
    summary="search on accrued costs, the paper's utility exp(beta x)", options=_TREE, bonus=_POLYNOMIAL, saves=True,
    objectives=(ERM,),
))  # fmt: skip
register_planner(PlannerKind(
    "uct", build="tailwise.planners.searches:uct_planner",
    summary="risk-neutral search, logarithmic bonus, whatever the beta", options=("bounds", *_TREE), bonus=_LOG,
    saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "uct-polynomial", build="tailwise.planners.searches:polynomial_planner",
    summary="risk-neutral search, polynomial bonus, whatever the beta", options=("bounds", *_TREE), bonus=_POLYNOMIAL,
    saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "cvar-mcts", build="tailwise.planners.distributional_mcts:cvar_planner",
    summary="least CVaR of the total, by search with a learned model", objectives=(CVaR,),
    options=("threshold", *_LEARNED),
))  # fmt: skip
register_planner(PlannerKind(
    "nlu-mcts", build="tailwise.planners.utility_search:utility_planner",
    summary="best mean of a utility of the total, by search on accrued costs", objectives=(ExpectedUtility,),
    options=_TREE, bonus=_LOG, saves=True,
))  # fmt: skip
register_planner(PlannerKind(
    "distributional", build="tailwise.planners.distributional_mcts:DistributionalMcts",
    summary="distributions of the total, Thompson sampling, for any objective of the total",
    objectives=(ERM, Expectation, CVaR, EVaR, Exceedance, ExpectedUtility), options=_LEARNED,
))  # fmt: skip
register_planner(PlannerKind(
    "beliefs", build="tailwise.planners.belief_search:BeliefSearch", models="outcomes", hidden=True,
    summary="where the state is not seen: bounds over beliefs, with proof",
    options=("tolerance", "max_nodes", "max_states"),
))  # fmt: skip
register_planner(PlannerKind(
    "learned-beliefs", build="tailwise.planners.learned_beliefs:LearnedBeliefs", hidden=True,
    summary="where the state is not seen: a model learned from draws, and bounds over its beliefs",
    options=("max_distinct",),
))  # fmt: skip
register_planner(PlannerKind(
    "histories", build="tailwise.planners.history_mcts:HistoryMcts", hidden=True,
    summary="where the state is not seen: search over what was done and observed, by weighted samples",
    options=("exploration", "particles", "widening", "max_nodes"),
))  # fmt: skip
