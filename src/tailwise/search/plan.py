"""What a search found: a frozen result."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._files import Record, checked, read_record, write_record
from tailwise._plain import Result, plain
from tailwise._shown import Shown, report_layer
from tailwise._values import find_class, pack, unpack
from tailwise.errors import FormatError, OptionError
from tailwise.models.contract import Sense
from tailwise.risk.intervals import Interval
from tailwise.search.views import NodeView, TreeReader

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


class Numbers(Result):
    """Findings among which numbers may be unknown: every NaN is the same one, so that equal findings are equal."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("state", "action"):  # the model's own
                continue
            if isinstance(value, float) and math.isnan(value):
                object.__setattr__(self, name, math.nan)
            elif type(value) is tuple and any(isinstance(item, float) and math.isnan(item) for item in value):
                object.__setattr__(self, name, tuple(math.nan if item != item else item for item in value))


@dataclass(frozen=True)
class ActionRow(Numbers):
    """What is known of one action at the root. Costs (or rewards) are in the model's sense.

    Attributes
    ----------
    action : object
        The action, as the model names it.
    label : str
        Its name.
    visits : int
        How often the search took it, over the whole life of the node.
    share : float in [0, 1]
        Its part of all visits.
    erm : float
        ERM estimate of the discounted total from here on (the paper's estimator); NaN if unvisited.
    mean, std, minimum, maximum : float
        Of the totals sampled since the last re-root; NaN if there are none.
    interval : Interval
        90 % interval for what ``Plan.interval_meaning`` says; unbounded where none can be given.
    """

    action: Any
    label: str
    visits: int
    share: float
    erm: float
    mean: float
    std: float
    minimum: float
    maximum: float
    interval: Interval


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
class Plan(Shown, Numbers):
    """The outcome of one call of ``plan``.

    Attributes
    ----------
    action : object
        The recommended action.
    label : str
        Its name.
    value : float
        ERM of all totals sampled at the root (the paper's ``V_n``), in the model's sense.
    rows : tuple of ActionRow
        One per action allowed at the root, in the model's order.
    state : object
        The root's state.
    step : int
        The root's step h.
    beta : float
        Risk level at step 0.
    root_beta : float
        Risk level at the root, ``beta * discount**step``.
    sense : "cost" or "reward"
        What the numbers are.
    iterations, simulator_steps : int
        Done in this call.
    nodes : int
        Decision nodes in the tree.
    bytes : int
        Memory held by the tree and by the states of a simulator (of Python objects: as estimated).
    seconds : float
        Wall time of this call.
    stopped : StopReason
        Why the call ended.
    interval_meaning : str
        What the intervals of the rows are intervals for, and under which assumptions.
    planner : str
        Kind of the planner that made it, where :func:`tailwise.make_planner` chose it; else empty.
    reason : str
        Why that kind was chosen.
    trees : int
        Trees that were searched side by side and are merged here; ``root`` shows the first.
    notes : tuple of str
        What the user should know of how the plan came about, as threads that were of no use.
    """

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
    _samples: tuple[NDArray[np.float64], ...] = field(repr=False, compare=False, default=())
    _reader: TreeReader | None = field(repr=False, compare=False, default=None)
    _origin: Origin | None = field(repr=False, compare=False, default=None)

    def report(self, path: str | Path) -> Path:
        """Write the decision report: one HTML file that says what was decided, why, and what would change it.

        It works without a network. What it can say depends on the planner and the model: exact distributions and the
        betas at which the decision changes for tables, the search tree for tree searches; how the search came to its
        answer if the plan was made by :func:`tailwise.report.recorded_plan`. What it cannot say it names.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced if it exists.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        MissingExtraError
            If plotly is not installed (extra ``report``).
        RunError
            If the file cannot be written.
        """
        return Path(report_layer("decision").decision_report(self).save(path))

    @property
    def measure(self) -> str:
        """What ``value`` and the rows' ``erm`` are: the ERM, unless a kind of plan has another aim."""
        return "ERM"

    @property
    def aim(self) -> str:
        """At which risk level, in words."""
        return f"beta {self.root_beta:.6g}"

    @property
    def root(self) -> NodeView:
        """The tree (the first of several) as it was when the plan was made: its root (see :class:`NodeView`).

        Raises
        ------
        OptionError
            If the plan came without a tree, or if the tree is larger than 256 MiB and its search has gone on since.
        """
        if self._reader is None:
            raise OptionError("this plan has no tree: it was not made by a tree search, or it was copied or loaded")
        return NodeView(self._reader, self._reader.tree.root, self.step)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None, "_origin": None}  # a tree, and the model, stay with the search

    def save(self, path: str | Path) -> Path:
        """Write the plan to a file, for :func:`tailwise.load_plan`; the file is there as a whole or not at all.

        Everything but the tree is kept, the sampled totals included. States and actions that are numbers, texts,
        tuples, lists or arrays come back as they were; what else a model's states are comes back as
        :meth:`to_dict` shows it.

        Parameters
        ----------
        path : str or Path
            The file; one that is there is replaced.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        FormatError
            If it cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> from tailwise import ErmMcts, domains, load_plan
        >>> plan = ErmMcts(domains.make("mdp-4"), beta=0.5, seed=0).plan(iterations=100)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = plan.save(f"{folder}/decision.plan")
        ...     load_plan(path) == plan
        True
        """
        target, arrays = Path(path).expanduser(), list[Any]()
        content = pack(copy.copy(self), arrays, instead=_portable)  # a copy has left its tree behind
        write_record(target, "plan", _VERSION, Record(content, arrays))
        return target

    def row(self, action: Any) -> ActionRow:
        """Return the row of ``action`` (as the model names it, or by label)."""
        for row in self.rows:
            if row.action == action or row.label == action:
                return row
        raise LookupError(f"no action {action!r} at the root; there are {', '.join(row.label for row in self.rows)}")

    def samples(self, action: Any) -> NDArray[np.float64]:
        """Return the latest totals sampled through ``action``: float64, shape (k,).

        The last 16,384 of each tree at most, fewer where there are many actions, 64 at least; in no particular order.
        """
        return self._samples[self.rows.index(self.row(action))]

    def __str__(self) -> str:
        better = "lower" if self.sense == "cost" else "higher"
        lines = [
            f"take {self.label}: {self.measure} {self.value:.6g} at {self.aim} ({self.sense}s, {better} is better)",
            f"{self.iterations} iterations, {self.simulator_steps} steps, {self.nodes} nodes, {self.seconds:.3g} s; "
            f"{self.stopped.message}",
        ]
        for row in self.rows:
            lines.append(
                f"  {row.label:>12}  visits {row.visits:>9}  {self.measure} {row.erm:.6g}  mean {row.mean:.6g}"
            )
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


_VERSION = 1  # of the files of plans
_OWN = (Plan, ActionRow, Interval, StopReason)


def _portable(value: Any) -> Any:
    """Return what stands for a value of a class that only its model knows."""
    if isinstance(value, _OWN):
        return value
    return tuple(value) if isinstance(value, tuple) else plain(value)


def _find_own(name: str) -> type:
    found = find_class(name)
    if issubclass(found, _OWN):
        return found
    raise ValueError(f"{name} is no part of a plan")


def load_plan(path: str | Path) -> Plan:
    """Read a plan that :meth:`Plan.save` wrote.

    It equals the plan that was saved, of the same class, with the same table, texts, ``to_dict()`` and sampled totals.
    It has no tree (``root`` raises), and plays no episodes anew (``samples`` of bounded RTDP are empty).

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Plan

    Raises
    ------
    FormatError
        If there is no such file, or it holds something else, has another version or is damaged.

    Examples
    --------
    See :meth:`Plan.save`.
    """
    target = Path(path).expanduser()
    record = read_record(target, "plan", _VERSION)
    plan: Plan = checked(target, "plan", lambda: unpack(record.content, record.arrays, _find_own))
    if isinstance(plan, Plan):
        return plan
    raise FormatError(f"{target}: it holds a {type(plan).__name__}, no plan")
