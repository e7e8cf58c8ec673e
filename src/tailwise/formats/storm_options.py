"""What the user may ask of an explicit model: of files of PRISM and Storm, and of what Storm builds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tailwise._validate import choice, integer, real
from tailwise.errors import OptionError
from tailwise.formats.list_options import check_common, names
from tailwise.formats.registry import value_of

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
        if not isinstance(self.average_rewards, bool):
            raise OptionError(f"average_rewards must be True or False, not {self.average_rewards!r}")
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
