"""What the user asks of transition lists and of explicit models, and the checks that all loaders share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tailwise._validate import choice, integer, real, truth
from tailwise.errors import OptionError
from tailwise.formats.list_columns import KNOWN
from tailwise.formats.registry import value_of
from tailwise.models.contract import AS_IF_SEEN

DEFAULT_HORIZON = 100
"""Number of decisions where neither the source nor the user gives one (a note says so)."""


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """Options of transition lists (CSV, Arrow, Parquet, data frames), checked.

    Attributes
    ----------
    horizon, discount, start
        As in :func:`tailwise.load`.
    base, action_base : 0 or 1, optional
        Where the list's state ids (and action ids) start; told from the list if not given.
    ids : "auto" or "names"
        "names" takes every id literally, as a name; by default ids are numbers, unless all of them are names.
    outcomes : int or "uniform", optional
        Of alternatives in a column ``idoutcome``, the one to take; or "uniform", to draw one anew at each step. If not
        given they are models of which one is true.
    columns : str or mapping
        What columns with other names are: ``"from:idstatefrom,r:reward"`` or a mapping. Usual names are guessed.
    ignore_columns : str or sequence of str
        Columns that are not part of the format and may be skipped.
    tolerance : float, optional
        How much the probabilities of an action may miss a sum of 1; they are rescaled. By default as much as
        rounding to six digits explains.
    metadata : "auto", "keep" or "ignore"
        Whether horizon, start and names that tailwise saved with the list still hold once it was changed.
    """

    horizon: int | None = None
    discount: float | None = None
    start: int | str | None = None
    base: int | None = None
    action_base: int | None = None
    ids: str = "auto"
    outcomes: int | Literal["uniform"] | None = None
    columns: Any = ""  # a dict of str, once checked
    ignore_columns: Any = ()
    tolerance: float | None = None
    metadata: str = "auto"

    def __post_init__(self) -> None:
        check_common(self.horizon, self.discount, self.start)
        for name, value in (("base", self.base), ("action_base", self.action_base)):
            if value is not None:
                integer(value, name, low=0, high=1)
        if self.outcomes is not None and self.outcomes != "uniform":
            integer(self.outcomes, "outcomes", low=0, hint="give an idoutcome of the list, or 'uniform'")
        if self.tolerance is not None:
            real(self.tolerance, "tolerance", low=0.0, high=0.5)
        choice(self.ids, "ids", ("auto", "names"))
        choice(self.metadata, "metadata", ("auto", "keep", "ignore"))
        object.__setattr__(self, "columns", _renamed(self.columns))
        object.__setattr__(self, "ignore_columns", names(self.ignore_columns, "ignore_columns"))


def _renamed(given: Any) -> dict[str, str]:
    if isinstance(given, str):
        given = {name.strip(): meant.strip() for name, _, meant in (item.rpartition(":") for item in names(given, ""))}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise OptionError(f"columns must be 'name:meaning,name:meaning' or a mapping, not {given!r}")
    for name, meant in given.items():
        choice(meant, f"the meaning of column {name!r}", KNOWN)
    return dict(given)


def settled(horizon: int | None, discount: Any, notes: list[str]) -> tuple[int, float]:
    """Return horizon and discount as a table has them, and note what is assumed; discount 0 is one step."""
    if discount == 0:
        notes.append("discount 0: only the first step counts, so that the horizon is 1")
        return 1, 1.0
    if horizon is None:
        notes.append(f"the file gives no horizon; {DEFAULT_HORIZON} is assumed; say horizon=")
    return DEFAULT_HORIZON if horizon is None else horizon, discount


def check_common(horizon: Any = None, discount: Any = None, start: Any = None) -> None:
    """Raise ``OptionError`` unless the three options that every source takes are in range (or None)."""
    if horizon is not None:
        integer(horizon, "horizon", low=1, hint="it is the number of decisions")
    if discount is not None:
        real(discount, "discount", low=0.0, high=1.0, ends="(]")
    if start is not None and not isinstance(start, str):
        integer(start, "start", low=0, hint="give a state's id or its label")


def observed(observe: Any, what: str) -> str:
    """Return the note that states are taken as seen, or raise ``OptionError`` unless ``observe`` says that they are."""
    if observe == "state":
        return f"{AS_IF_SEEN}: {what} has observations (a POMDP), and observe='state' plans as if its state were seen"
    raise OptionError(
        f"{what} has observations (a POMDP): what is seen is not the state, and a plan made as if it were promises too "
        "much; say observe='state' to plan as if the state were seen"
    )


def names(value: Any, option: str) -> tuple[str, ...]:
    """Return a comma-separated text, or a sequence of texts, as a tuple; an empty text is no name."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise OptionError(f"{option} must be a name, or a sequence of names, not {value!r}")


_CONSTANT = re.compile(r"true|false|-?[0-9]+/0*[1-9][0-9]*|-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, kw_only=True)
class StormOptions:
    """Options of PRISM, JANI, DRN, UMB and explicit (.tra) files.

    The cost of a step is the sum of what is asked for: the reward structure, ``step_cost``, and
    ``label_costs`` of the state entered.

    Attributes
    ----------
    horizon, discount, start
        As in :func:`tailwise.load`; a start may also be a label that one state carries.
    constants : str or mapping
        Values of undefined constants: ``"N=4,p=0.5"`` or ``{"N": 4, "p": 0.5}``.
    reward : str, optional
        The reward structure to use. If there is one only, and no other cost is given, it is used.
    sense : "cost" or "reward", default "cost"
        Whether the numbers are costs to be minimised or rewards to be maximised; such files do not say.
    label_costs : str or mapping
        Cost of entering a state with a label: ``"crash:10,goal:-1"`` or ``{"crash": 10.0}``.
    step_cost : float, default 0.0
        Cost of every step.
    accumulate : str or sequence of str, default "steps,exit"
        Which rewards count, in JANI's words: those of choices and transitions ("steps"), those of states as they are
        left ("exit"), or both, as in Storm's ``R [C<=H]``.
    until : str or sequence of str
        Labels: entering a state with one of them ends the episode.
    goal : str, optional
        A label, or an expression over the model's variables (``"x=3 & !b"``): entering a state where it holds ends
        the episode. If nothing else costs anything, missing it costs 1 (reaching it earns 1, if ``sense`` is reward).
    goal_cost, miss_cost : float, optional
        Cost of reaching the goal, and of not having reached it when the horizon is over.
    average_rewards : bool, default False
        Accept a JANI reward that differs between destinations of an edge, though only its mean is known.
    observe : "state", optional
        Plan on a model with observations (a POMDP) as if its state were seen; without it, such a model is refused.
    max_states : int, default 10,000,000
        Larger models (infinite ones, say) are refused.
    progress : bool, optional
        Whether to show a progress line on stderr; by default only if that is a terminal.
    labels, state_rewards, transition_rewards : str, optional
        Files that belong to a ``.tra`` file; by default those of the same name.
    """

    horizon: int | None = None
    discount: float | None = None
    start: int | str | None = None
    constants: str | Mapping[str, Any] = ""
    reward: str | None = None
    sense: str = "cost"
    label_costs: Any = field(default_factory=dict)  # a dict of floats, once checked
    step_cost: float = 0.0
    accumulate: Any = ()  # ("steps", "exit") is meant
    until: Any = ()
    goal: str | None = None
    goal_cost: float | None = None
    miss_cost: float | None = None
    average_rewards: bool = False
    observe: str | None = None
    max_states: int = 10_000_000
    progress: bool | None = None
    labels: str | None = None
    state_rewards: str | None = None
    transition_rewards: str | None = None

    def __post_init__(self) -> None:
        check_common(self.horizon, self.discount, self.start)
        choice(self.sense, "sense", ("cost", "reward"))
        real(self.step_cost, "step_cost")
        integer(self.max_states, "max_states", low=1)
        for name in ("goal_cost", "miss_cost"):
            if getattr(self, name) is not None:
                real(getattr(self, name), name)
                if self.goal is None:
                    raise OptionError(f"{name} needs goal=, the label or expression that it is about")
        for name in ("reward", "goal", "labels", "state_rewards", "transition_rewards"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise OptionError(f"{name} must be a text, not {value!r}")
        truth(self.average_rewards, "average_rewards")
        if self.progress is not None and not isinstance(self.progress, bool):
            raise OptionError(f"progress must be True, False or None, not {self.progress!r}")
        if self.observe is not None:
            choice(self.observe, "observe", ("state",))
        object.__setattr__(self, "accumulate", names(self.accumulate, "accumulate"))
        for part in self.accumulate:
            choice(part, "accumulate", ("steps", "exit"))
        object.__setattr__(self, "until", names(self.until, "until"))
        object.__setattr__(self, "constants", _constants(self.constants))
        object.__setattr__(self, "label_costs", _label_costs(self.label_costs))

    @property
    def has_costs(self) -> bool:
        """Whether some cost is asked for, beside a reward structure."""
        return bool(self.label_costs or self.step_cost or self.goal_cost is not None or self.miss_cost is not None)


def _constants(given: Any) -> str:
    """Return constants as Storm's text ``name=value,name=value``."""
    if isinstance(given, Mapping):
        values = {key: str(v).lower() if isinstance(v, bool) else v for key, v in given.items()}
        given = ",".join(f"{key}={value}" for key, value in values.items())
    if not isinstance(given, str):
        raise OptionError(f"constants must be 'name=value,name=value' or a mapping, not {given!r}")
    for item in given.split(",") if given.strip() else ():
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name.isidentifier() or not _CONSTANT.fullmatch(value):
            raise OptionError(
                f"constants: {item.strip()!r} is not name=value, where value is a number, a fraction, true or false"
            )
    return given.replace(" ", "")


def _label_costs(given: Any) -> dict[str, float]:
    if isinstance(given, str):
        pairs = [item.rpartition(":") for item in given.split(",") if item.strip()]
        given = {label.strip(): value_of(value.strip()) for label, _, value in pairs}
    if not isinstance(given, Mapping) or "" in given:
        raise OptionError(f"label_costs must be 'label:cost,label:cost' or a mapping, not {given!r}")
    return {str(label): real(value, f"the cost of label {label!r}") for label, value in given.items()}
