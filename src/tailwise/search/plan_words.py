"""What a plan says of itself: in words, and as the columns of a table. Whoever shows a plan shows this."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from itertools import permutations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._results import MISSING, Columns, Shown, Tabled, aligned, amount, amounts, listed, number, share, span
from tailwise.models.contract import Sense
from tailwise.models.simulator import state_label
from tailwise.risk.objectives import Objective
from tailwise.search.action_rows import ActionRow, Numbers

if TYPE_CHECKING:
    from tailwise.search.views import TreeReader

_MOST_ROWS, _MOST_LINES = 16, 25  # of a text; tables have all
_NOTHING = "nothing: "  # what intervals mean that are not given, and why
_MOST_ATOMS = 100_000  # of laws whose shapes are compared
_NUMBERS = (
    *("mean", "std", "minimum", "maximum", "lower", "upper", "visits", "draws", "probability_best", "unexplored"),
    *("unseen_probability", "unseen_erm"),
)  # of an action's row


Totals: TypeAlias = tuple[NDArray[np.float64], ...] | Callable[[int], NDArray[np.float64]]
SAMPLING_INTERVAL = (
    "the ERM of the totals as this search sampled them, exploration included, as if they were independent; "
    "not the optimal ERM"
)


class StopReason(StrEnum):
    """Why a search stopped. All of these are outcomes, none is an error."""

    ITERATIONS = "iterations"
    SECONDS = "seconds"
    UNTIL = "until"
    PROVEN = "proven"
    MAX_NODES = "max_nodes"
    MAX_MEMORY = "max_memory"
    MAX_VISITS = "max_visits"
    INTERRUPTED = "interrupted"

    @property
    def message(self) -> str:
        """The reason in words."""
        return _MESSAGES[self]


_MESSAGES = {
    StopReason.ITERATIONS: "all iterations were run",
    StopReason.SECONDS: "the time was used up",
    StopReason.UNTIL: "the caller's condition was met",
    StopReason.PROVEN: "the action is proven best",
    StopReason.MAX_NODES: "the tree reached max_nodes",
    StopReason.MAX_MEMORY: "the tree reached max_memory",
    StopReason.MAX_VISITS: "the root was visited 2,147,483,647 times, the most that can be counted",
    StopReason.INTERRUPTED: "interrupted from the keyboard",
}


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What a plan said on the way: one row for each time it was asked, in the model's sense.

    Attributes
    ----------
    iterations : ndarray of int64, shape (k,)
        Done by then, increasing.
    chosen : ndarray of int64, shape (k,)
        Position of the recommended action among the rows.
    erms, visits, lows, highs : ndarray of float64, shape (k, A)
        Of each row: its ERM, its visits, and the ends of its interval.
    """

    iterations: NDArray[np.int64]
    chosen: NDArray[np.int64]
    erms: NDArray[np.float64]
    visits: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]

    def of(self, rows: list[int]) -> Trajectory:
        """Return the way of some rows, in this order."""
        parts = (self.erms, self.visits, self.lows, self.highs)
        return Trajectory(self.iterations, self.chosen, *(part[:, rows] for part in parts))


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a plan comes from, for its report.

    Attributes
    ----------
    model : object
        The problem.
    settings : dict of str to object
        The planner's options.
    seed : str
        The seed, in words.
    table : TabularMDP or None
        What an exact planner solved, if that is not the model; ``root`` is its index of the plan's state.
    root : int
        See ``table``.
    trajectory : Trajectory or None
        How the plan came about, where that was recorded (:func:`tailwise.report.recorded_plan`).
    """

    model: Any
    settings: dict[str, Any]
    seed: str
    table: Any = None
    root: int = 0
    trajectory: Trajectory | None = None


@dataclass(frozen=True)
class SaidObjective:
    """An objective by its words alone: what a plan keeps of one that is a user's function when it is copied."""

    name: str
    words: str


@dataclass(frozen=True)
class SaysItself(Shown, Tabled, Numbers):
    """What a plan holds (see :class:`tailwise.Plan`), and how it says it."""

    action: Any
    label: str
    value: float
    rows: tuple[ActionRow, ...]
    state: Any
    step: int
    beta: float
    root_beta: float
    sense: Sense
    iterations: int
    simulator_steps: int
    nodes: int
    bytes: int
    seconds: float
    stopped: StopReason
    planner: str = ""
    reason: str = ""
    interval_meaning: str = SAMPLING_INTERVAL
    trees: int = 1
    notes: tuple[str, ...] = ()
    _: KW_ONLY
    method: str = "search"
    unit: str = "iterations"
    objective: Objective | SaidObjective | None = field(default=None, repr=False, compare=False)
    lower: float | None = None
    upper: float | None = None
    proven: bool = False
    optimal_actions: tuple[Any, ...] = ()
    states_recur: bool | None = None
    too_early: bool = False
    accrued: float = 0.0
    pursued: str | None = None
    threshold: float | None = None
    certainty_equivalent: float | None = None
    tree: TreeReader | None = field(default=None, repr=False, compare=False)
    policy: Any = field(default=None, repr=False, compare=False)
    origin: Origin | None = field(default=None, repr=False, compare=False)
    totals: Totals = field(default=(), repr=False, compare=False)

    @property
    def measure(self) -> str:
        """What ``value`` and the rows' ``erm`` are: ERM, CVaR, utility, ..."""
        aim: Any = self.objective
        return str(aim.name)

    @property
    def aim(self) -> str:
        """What is wanted of the total, in words."""
        aim: Any = self.objective
        return str(aim.words)

    @property
    def is_erm(self) -> bool:
        """Whether the plan is about the ERM of what is still to come, not about another aim or the whole total."""
        return self.measure == "ERM" and self.pursued is None

    @property
    def is_exact(self) -> bool:
        """Whether the rows' values are exact."""
        return bool(self.optimal_actions)

    @property
    def is_bounded(self) -> bool:
        """Whether what is known are bounds of the risk, which are certain."""
        return self.lower is not None and not self.is_exact

    @property
    def chosen(self) -> ActionRow:
        """Row of the recommended action."""
        return next(row for row in self.rows if row.action == self.action)

    @property
    def probability_best(self) -> float | None:
        """Probability that the recommended action is best, as far as the samples can tell; None where none is given.

        Rows of actions that are equal in all that was drawn share it; here it is that of all of them.
        """
        chances = [row.probability_best for row in self._as_good() if row.probability_best is not None]
        return min(1.0, math.fsum(chances)) if chances else None

    def _as_good(self) -> list[ActionRow]:
        """Rows of the actions that are as good as the recommended one in all that was drawn, its own among them."""
        own = self.chosen
        close = [row for row in self.rows if math.isclose(row.erm, own.erm, rel_tol=1e-9)]
        chance = own.probability_best or 0.0
        return [row for row in close if row is own or abs((row.probability_best or 0.0) - chance) < 1e-9 < chance]

    def worse_by(self, value: float, other: float) -> float:
        """Return by how much ``value`` is worse than ``other``."""
        return value - other if self.sense == "cost" else other - value

    @property
    def ranked(self) -> tuple[ActionRow, ...]:
        """The rows: the recommended action's first, then by value, those without one last."""

        def key(row: ActionRow) -> tuple[bool, bool, float]:
            is_unknown = math.isnan(row.value)
            return row is not self.chosen, is_unknown, 0.0 if is_unknown else self.worse_by(row.value, 0.0)

        return tuple(sorted(self.rows, key=key))

    @property
    def possible_loss(self) -> float:
        """By how much another action could be better, if every row's ``interval`` holds; 0 if none could.

        With bounds that are certain so is this; intervals from samples know only what was sampled.
        """
        chosen = self.chosen
        others = [row.interval for row in self.rows if row is not chosen]
        if self.sense == "cost":
            loss = max((chosen.interval.high - other.low for other in others), default=0.0)
        else:
            loss = max((other.high - chosen.interval.low for other in others), default=0.0)
        return math.inf if math.isnan(loss) else max(0.0, loss)

    @property
    def state_name(self) -> str:
        """The root's state, as the model names it."""
        if self.tree is not None and self.is_erm:
            return str(self.tree.binding.state_name(self.state))
        return str(self.state) if self.origin is None else state_label(self.origin.model, self.state)

    @property
    def worth(self) -> str:
        """What the plan is worth, or the bounds of that where they are what is known."""
        if self.is_bounded:
            return span(self.lower, self.upper)
        found = self.chosen.erm  # of a tree ``value`` is that of all totals, those of other actions too
        return number(self.value if math.isnan(found) else found, 9 if self.is_exact else 6)

    @property
    def headline(self) -> str:
        """The decision in one line."""
        better = "lower" if self.sense == "cost" else "higher"
        proof = "" if self.is_exact or not (self.proven or self.is_bounded) else "not proven"
        proof = f" ({'proven best' if self.proven else proof})" if proof else ""
        worth = f"in {self.worth}" if self.is_bounded else self.worth
        if self.chosen.certainty_equivalent is not None:
            worth += f", as good as a sure total of {amount(number(self.chosen.certainty_equivalent))}"
        return f"Take {self.label}{proof}: {self.aim} is {worth} ({amounts(self.sense)}, {better} is better)"

    @property
    def in_words(self) -> tuple[str, ...]:
        """What the decision is judged by, and how the next best action compares, in sentences."""
        ahead, unit = f"all that may come after {self.label}", self.sense
        if self.is_erm and self.root_beta == 0.0:
            said = f"It is judged by its mean: beta is 0, so that risk does not count. That is {amount(self.worth)}."
        elif self.is_erm and self.is_bounded and self.lower != self.upper:
            said = (
                f"Counting risk at beta {self.root_beta:g}, {ahead}, and then the best actions, is as good as a sure "
                f"{unit} in {amount(span(*self.chosen.interval))}, with certainty."
            )
        elif self.is_erm:
            sure_amount = f"a sure {unit} of {amount(self.worth)}"
            said = f"Counting risk at beta {self.root_beta:g}, {ahead} is as good as {sure_amount}."
        else:
            learned = " under what was learned" if self.states_recur is not None else ""
            sure = self.chosen.certainty_equivalent
            worth = f"is {amount(self.worth)}" if sure is None else f"is as good as {amount(number(sure))}"
            said = f"It is judged by the {self.aim} of the whole episode's total, which {worth}{learned}."
        return said, self._runner_up(), *self.dominance

    @property
    def dominance(self) -> tuple[str, ...]:
        """Which actions' exact distributions are worse than another's for everyone, or everyone averse to risk."""
        laws = {row.label: row.distribution for row in self.ranked if row.distribution is not None}
        if len(laws) > _MOST_ROWS or sum(law.atoms for law in laws.values()) * len(laws) > _MOST_ATOMS:
            return ()
        if any(law.tolerance for law in laws.values()):
            return ()
        found: dict[str, tuple[int, str]] = {}
        for (name, law), (other, second) in permutations(laws.items(), 2):
            if order := law.dominates(second):
                found.setdefault(other, (order, name))
        why = {1: "no total is more likely to be kept to with", 2: "nobody averse to risk prefers"}
        return tuple(f"{name} dominates {other}: {why[order]} {other}." for other, (order, name) in found.items())

    def _runner_up(self) -> str:
        others = [row for row in self.ranked[1:] if not math.isnan(row.value)]
        if not others:
            return "There is no other action." if len(self.rows) == 1 else "No other action was tried."
        if self.is_bounded:
            loss = self.possible_loss
            return (
                f"Another action could be better by {amount(number(loss, 4))} at most."
                if loss
                else "No other is better."
            )
        margin = self.worse_by(others[0].value, self.chosen.value)
        if not math.isfinite(margin):
            return f"The next best, {others[0].label}, is out of the question: its {self.sense} is without bound."
        if margin > 0.0:
            return f"The next best is {others[0].label}, which is worse by {amount(number(margin, 4))}."
        if margin == 0.0:
            return f"{others[0].label} is as good."
        less = amount(number(-margin, 4))
        return f"The estimate of {others[0].label} is better by {less}, but the planner's rule is another."

    @property
    def work(self) -> str:
        """What it took, and why it ended."""
        counts = {self.unit: self.iterations, "simulated steps": self.simulator_steps, "nodes": self.nodes}
        done = "".join(f"{count:,} {name}, " for name, count in counts.items() if count)
        trees = f"{self.trees} trees, " if self.trees > 1 else ""
        size = f"{self.bytes / 1e6:.1f} MB, {self.seconds:.2f} s"
        return f"{self.method}, {done}{trees}{size}; {self.stopped.message}"

    def to_columns(self) -> Columns:
        """Return the table column by column, by name."""
        rows = self.rows
        found: Columns = {
            "action": [row.label for row in rows],
            "recommended": [row.action == self.action for row in rows],
            "value": [row.value for row in rows],
            "low": [row.interval.low for row in rows],
            "high": [row.interval.high for row in rows],
            **{name: [getattr(row, name) for row in rows] for name in _NUMBERS},
        }
        return {
            name: column for name, column in found.items() if any(cell is not None and cell == cell for cell in column)
        }

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The rows as a table of texts, by heading, in the model's order of the actions; empty columns are left out."""
        exact, bounded = self.is_exact, self.is_bounded
        value = "exact " * exact + self.measure
        if self.certainty_equivalent is not None:
            value = "as good as"
        elif bounded:
            value = "estimate"
        tried = any(row.visits for row in self.rows)
        has_interval = not exact and self.certainty_equivalent is None
        cells: dict[str, Callable[[ActionRow], str]] = {
            value: lambda row: MISSING if bounded and self.proven else number(row.value, 9 if exact else 6),
            f"{self.measure} is in" if bounded else "90 % interval": lambda row: (
                span(*row.interval) if has_interval and (bounded or row.interval.low < row.interval.high) else MISSING
            ),
            "regret": lambda row: number(self.worse_by(row.value, self.value)) if exact else MISSING,
            "P(best)": lambda row: number(row.probability_best, 2),
            "visits" if self.unit == "iterations" else self.unit: lambda row: f"{row.visits:,}" if tried else MISSING,
            "share": lambda row: MISSING if exact or not tried else share(row.share),
            "mean": lambda row: number(row.mean),
            "std": lambda row: number(row.std),
            "min": lambda row: number(row.minimum),
            "max": lambda row: number(row.maximum),
        }
        columns = {"action": tuple(row.label for row in self.rows)}
        for name, said in cells.items():
            texts = tuple(said(row) for row in self.rows)
            if any(text != MISSING for text in texts):
                columns[name] = texts
        return columns

    @property
    def how_sure(self) -> tuple[str, ...]:
        """How sure the decision is, in sentences, as far as its planner can tell."""
        if self.is_exact:
            tied = [row.label for row in self.rows if row.action in self.optimal_actions]
            more = f" {len(tied)} actions are equally good: {listed(tied)}." if len(tied) > 1 else ""
            return (f"The {self.measure} of each action is exact, by {self.method}; nothing was sampled.{more}",)
        if self.is_bounded:
            loss = f"could be worse than the best by {amount(number(self.possible_loss, 3))} at most"
            proof = "is proven best" if self.proven else f"has the best estimate, is not proven best, and {loss}"
            limits = span(self.lower, self.upper)
            limits = f"in {limits}" if " to " in limits else limits
            return (f"{self.label} {proof}: the optimal {self.measure} is {limits} with certainty.",)
        row, sure, meaning = self.chosen, self.probability_best, f"The intervals are for {self.interval_meaning}."
        if self.too_early:
            return (f"{row.label} looks best so far. Too little was seen to say how sure that is.",)
        if sure is not None:
            change = "raise" if self.sense == "cost" else "lower"
            labels = [row.label for row in self._as_good()]
            best = f"{labels[0]} is" if len(labels) == 1 else f"{listed(labels)} are equal, and"
            said = (
                f"{best} best with probability {share(sure)}, as far as the samples can tell. "
                f"An outcome never seen in {row.draws:,} draws may have a probability of up to "
                f"{row.unseen_probability:.2g}; the worst total seen, met so often, would {change} its {self.measure} "
                f"to {number(row.unseen_erm)}."
            )
            return said, meaning
        if self.states_recur is False:
            return (f"{row.label} looks best so far. Hardly a state came back: how sure that is cannot be said.",)
        if self.states_recur:
            luck = "The values are those of the model that was learned, and somewhat too good."
            return (f"{luck} No intervals are given.",)
        if self.certainty_equivalent is not None or self.measure == "expected utility":
            return ("The values are means of sampled utilities.",)
        if self.interval_meaning.startswith(_NOTHING):
            return (f"{row.label} looks best so far. No interval is given: {self.interval_meaning[len(_NOTHING) :]}.",)
        return self._overlap(row), meaning

    def _overlap(self, chosen: ActionRow) -> str:
        bad, is_cost = chosen.interval, self.sense == "cost"
        others = [(row.label, row.interval) for row in self.rows if row is not chosen]
        close = [name for name, good in others if not (bad.high < good.low if is_cost else bad.low > good.high)]
        if not close:
            return "The 90 % interval of the recommended action is apart from all others."
        return f"The 90 % interval of the recommended action overlaps that of {listed(close)}: search on to be surer."

    def __str__(self) -> str:
        columns = self.columns
        most = min(len(self.rows), _MOST_ROWS)
        ranked = [self.rows.index(row) for row in self.ranked[:most]]
        shown = ranked if most < len(self.rows) else range(most)
        table = {name: [cells[k] for k in shown] for name, cells in columns.items()}
        lines = [self.headline, *(f"  {line}" for line in aligned(table))]
        if most < len(self.rows):
            lines.append(f"  and {len(self.rows) - most:,} more")
        lines += [self.work, *self.how_sure[:1], *(f"note: {note}" for note in self.notes[:4])]
        lines += self.dominance[: max(0, _MOST_LINES - len(lines))]
        return "\n".join(lines)
