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
class CommonOptions:
    """What every source takes, as in :func:`tailwise.load`, checked."""

    horizon: int | None = None
    discount: float | None = None
    start: int | str | None = None

    def __post_init__(self) -> None:
        if self.horizon is not None:
            integer(self.horizon, "horizon", low=1, hint="it is the number of decisions")
        if self.discount is not None:
            real(self.discount, "discount", low=0.0, high=1.0, ends="(]")
        if self.start is not None and not isinstance(self.start, str):
            integer(self.start, "start", low=0, hint="give a state's id or its label")


@dataclass(frozen=True, kw_only=True)
class SeenOptions(CommonOptions):
    """Options of sources whose state may be hidden: ``observe="state"`` plans as if it were seen."""

    observe: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.observe is not None:
            choice(self.observe, "observe", ("state",))


@dataclass(frozen=True, kw_only=True)
class ListOptions(CommonOptions):
    """Options of transition lists (CSV, Arrow, Parquet, data frames)."""

    base: int | None = None  # 0 or 1: where the list's state ids start; told from the list if not given
    action_base: int | None = None  # the same of action ids
    ids: str = "auto"  # "names" takes every id as a name; else ids are numbers, unless all of them are names
    outcomes: int | Literal["uniform"] | None = None  # the alternative (idoutcome) to take, or one drawn at each step
    columns: Any = (
        ""  # what columns with other names are: "from:idstatefrom,r:reward" or a mapping; a dict once checked
    )
    ignore_columns: Any = ()  # columns to skip
    tolerance: float | None = None  # how much an action's probabilities may miss 1; by default what six digits explain
    metadata: str = "auto"  # "keep" or "ignore" what tailwise saved with the list, though it was changed since

    def __post_init__(self) -> None:
        super().__post_init__()
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
    found = _pairs(given, "columns", "name:meaning")
    for name, meant in found.items():
        choice(meant, f"the meaning of column {name!r}", KNOWN)
    return found


def _pairs(given: Any, option: str, form: str) -> dict[str, Any]:
    """Return what is given as a text of pairs, or as a mapping."""
    if isinstance(given, str):
        parts = [item.rpartition(":") for item in names(given, option)]
        given = {name.strip(): value.strip() for name, _, value in parts}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise OptionError(f"{option} must be '{form},{form}' or a mapping, not {given!r}")
    return dict(given)


def settled(horizon: int | None, discount: Any, notes: list[str]) -> tuple[int, float]:
    """Return horizon and discount as a table has them, and note what is assumed; discount 0 is one step."""
    if discount == 0:
        notes.append("discount 0: only the first step counts, so that the horizon is 1")
        return 1, 1.0
    if horizon is None:
        notes.append(f"the file gives no horizon; {DEFAULT_HORIZON} is assumed; say horizon=")
    return DEFAULT_HORIZON if horizon is None else horizon, discount


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
class StormOptions(SeenOptions):
    """Options of PRISM, JANI, DRN, UMB and explicit (.tra) files; a start may also be a label that one state carries.

    The cost of a step is the sum of what is asked for: the reward structure, ``step_cost``, and
    ``label_costs`` of the state entered.
    """

    constants: str | Mapping[str, Any] = ""  # values of undefined ones: "N=4,p=0.5" or {"N": 4, "p": 0.5}
    reward: str | None = None  # the reward structure; if there is one only, and no other cost is given, it is used
    sense: str = "cost"  # whether the numbers are costs or rewards; such files do not say
    label_costs: Any = field(default_factory=dict)  # of entering: "crash:10,goal:-1" or a dict; of floats, once checked
    step_cost: float = 0.0
    accumulate: Any = ()  # rewards of choices and transitions ("steps"), of states ("exit"); both, as R [C<=H]
    until: Any = ()  # labels: entering a state with one of them ends the episode
    goal: str | None = None  # label or expression: entering ends the episode; missing it costs 1, if nothing else does
    goal_cost: float | None = None
    miss_cost: float | None = None  # of not having reached the goal when the horizon is over
    average_rewards: bool = False  # accept a JANI reward of single destinations, though only its mean is known
    max_states: int = 10_000_000  # larger models (infinite ones, say) are refused
    progress: bool | None = None  # a line on stderr; by default only if that is a terminal
    labels: str | None = None  # of a .tra file, as the two below; by default those of the same name
    state_rewards: str | None = None
    transition_rewards: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
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
    found = _pairs(given, "label_costs", "label:cost")
    if isinstance(given, str):
        found = {label: value_of(value) for label, value in found.items()}
    return {label: real(value, f"the cost of label {label!r}") for label, value in found.items()}
