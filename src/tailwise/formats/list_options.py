"""What the user asks of a transition list, and the checks that all loaders share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tailwise._validate import choice, integer, real
from tailwise.errors import OptionError
from tailwise.formats.list_columns import KNOWN
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
