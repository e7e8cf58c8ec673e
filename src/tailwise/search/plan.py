"""What to do now: the one result of planning, frozen."""

from __future__ import annotations

import copy
import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailwise._files import Record, checked, read_record, write_record
from tailwise._results import plain, report_layer
from tailwise._validate import file_path, page_path
from tailwise._values import find_class, is_same, pack, unpack
from tailwise.errors import FormatError, OptionError, RunError, StateError
from tailwise.models.contract import CUT_SHORT
from tailwise.risk.distribution import ReturnDistribution
from tailwise.risk.measures import Interval
from tailwise.risk.objectives import ERM, Objective, Robust
from tailwise.search.action_rows import ActionRow
from tailwise.search.plan_words import Origin as Origin
from tailwise.search.plan_words import SaidObjective, SaysItself
from tailwise.search.plan_words import StopReason as StopReason
from tailwise.search.plan_words import Trajectory as Trajectory

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from tailwise.exact.adversary import FearedModel
    from tailwise.search.views import NodeView

_SAMPLES = 1024  # equally likely totals that stand for a distribution


@dataclass(frozen=True)
class Plan(SaysItself):
    """The outcome of one call of ``plan``, whatever made it: an algorithm fills the fields that it can.

    It says itself in words (``headline``, ``how_sure``, ``work``, ``str``), as a table of texts (``columns``) or of
    numbers (``to_frame()``, ``to_csv(path)``, ``to_excel(path)``: a row per action) and for JSON (:meth:`to_dict`).

    Attributes
    ----------
    action : object
        The recommended action.
    label : str
        Its name.
    value : float
        What the objective is worth, in the model's sense: of a tree the ERM of all totals sampled at the root (the
        paper's ``V_n``), of the others that of the recommended action.
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
        Decision nodes in the tree, and those that an ``advance`` left behind as far as they are not freed yet.
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
    objective : Objective
        What is wanted of the total; the ERM at ``root_beta`` if not given.
    method : str
        How the plan was found, in words.
    unit : str
        What iterations and visits are: iterations, trials or episodes.
    lower, upper : float, optional
        Bounds of the optimal risk at the root that are certain.
    proven : bool
        Whether no other action is better (by more than the planner's tolerance).
    optimal_actions : tuple
        Of an exact plan, every action that ties with the best.
    states_recur : bool, optional
        Of a learned model, whether states come back often enough for what there is to try in them, so that outcomes
        were pooled over steps; if not, a tree was searched.
    too_early : bool
        Whether too little was seen to say how sure the plan is, so that there are no intervals and no probability of
        being best; ``notes`` says what would help.
    accrued : float
        Discounted cost (or reward) paid before the root, for an objective to which it matters.
    pursued : str, optional
        The function of the whole total whose mean is made least (or largest), for the rest of the episode too.
    threshold : float, optional
        Of a plan for the CVaR, the total that its tail is measured from.
    certainty_equivalent : float, optional
        Sure total cost (or reward) of the whole episode that is as good as a utility ``value``.
    tree : TreeReader, optional
        The tree, for ``root``.
    policy : object, optional
        What :meth:`act` follows.
    origin : Origin, optional
        The model and how it was planned; like the tree and the policy, it stays behind when a plan is copied or saved.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective is None:
            object.__setattr__(self, "objective", ERM(self.root_beta))
        model_notes = getattr(getattr(self.origin, "model", None), "notes", ())
        cut = tuple(note for note in model_notes if note.startswith(CUT_SHORT) and note not in self.notes)
        if cut:
            object.__setattr__(self, "notes", (*self.notes, *cut))
        told_of = getattr(getattr(self.origin, "model", None), "told_of", None)  # a table that was learned from a log
        if told_of is not None:
            new = tuple(note for note in told_of(self) if note not in self.notes)
            object.__setattr__(self, "notes", (*self.notes, *new))

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
        OptionError
            If the file is named as something else than a page.
        RunError
            If the file cannot be written.
        """
        target = page_path(path)
        if target.is_dir() or not target.parent.is_dir():  # before the work
            raise RunError(f"the report cannot be written to {target}: it must be a file in a folder that exists")
        return Path(report_layer("decision").decision_report(self).save(target))

    def plot(self, *, level: float = 0.95) -> go.Figure:
        """Draw the total after each action, as :func:`tailwise.report.plots.distribution`: a plotly figure.

        Parameters
        ----------
        level : float in (0, 1), default 0.95
            Where the tail begins.

        Raises
        ------
        OptionError
            If the plan has no totals.
        MissingExtraError
            If plotly is not installed (extra ``report``).
        """
        drawn: go.Figure = report_layer("plots").distribution(self, level=level)
        return drawn

    @property
    def promise(self) -> Any:
        """What the plan promises on a table learned from a log, a :class:`tailwise.logs.Promise`.

        Raises
        ------
        OptionError
            If the plan has no policy for later decisions, or its table was not learned from a log.
        """
        return self._of_policy("promise")

    @property
    def feared_model(self) -> FearedModel:
        """The model that the plan acts against; see :func:`tailwise.exact.feared_model`.

        Raises
        ------
        OptionError
            If the plan has no policy for later decisions, or is for another objective.
        """
        feared: FearedModel = self._of_policy("feared_model")
        return feared

    def fears(self, most: float = math.inf) -> tuple[str, ...]:
        """Return the model that the plan acts against from here on, in sentences; none where there is no such model.

        Parameters
        ----------
        most : float, optional
            Say nothing of tables of more outcomes, times decisions, than this.
        """
        policy, root = self.policy, getattr(self.origin, "root", None)
        mdp = getattr(policy, "mdp", None)
        is_averse = self.root_beta > 0.0 or isinstance(self.objective, Robust)
        if not (hasattr(type(policy), "feared_model") and is_averse) or root is None:
            return ()
        if mdp is None or mdp.horizon is None or mdp.num_outcomes * mdp.horizon > most:
            return ()
        try:
            here = dataclasses.replace(policy.rooted(root, self.step), objective=self.objective)
            lines: tuple[str, ...] = here.feared_model.lines
        except OptionError:  # of another objective
            return ()
        return lines

    def _of_policy(self, name: str) -> Any:
        if not hasattr(type(self.policy), name):
            raise OptionError(
                f"this plan has no {name.replace('_', ' ')}: its planner decides step by step, or it was "
                "copied or loaded; "
                "solve(model, objective) makes a policy that has"
            )
        return getattr(self.policy, name)

    @property
    def root(self) -> NodeView:
        """The tree (the first of several) as it was when the plan was made: its root (see :class:`NodeView`).

        Raises
        ------
        OptionError
            If the plan came without a tree, or if the tree is larger than 256 MiB and its search has gone on since.
        """
        if self.tree is None:
            raise OptionError("this plan has no tree: it was not made by a tree search, or it was copied or loaded")
        from tailwise.search.views import NodeView

        return NodeView(self.tree, self.tree.tree.root, self.step)

    def act(self, state: Any, step: int, accrued: float = 0.0) -> object:
        """Return what the plan does later: its action after ``accrued`` discounted cost (or reward) since step 0.

        Raises
        ------
        OptionError
            If the plan is for the root's decision alone.
        """
        if self.policy is None:
            raise OptionError(
                "this plan says no later actions: its planner plans each anew, or it was copied or loaded"
            )
        return self.policy.act(state, step, accrued)

    def to_dict(self) -> dict[str, object]:
        """Return the public fields as plain values, ready for ``json.dumps``, without those that nothing filled.

        ``measure`` and ``aim`` say what the numbers are. Numbers that JSON lacks (NaN, infinities) are None, arrays are
        lists, results within are dicts.
        """
        return {**super().to_dict(), "measure": self.measure, "aim": self.aim}

    def __getstate__(self) -> dict[str, Any]:  # the tree, the model and the policy stay with the search
        aim: Any = self.objective
        aim = SaidObjective(aim.name, aim.words) if _has_function(aim) else aim
        totals = () if callable(self.totals) else self.totals
        return {**self.__dict__, "tree": None, "policy": None, "origin": None, "objective": aim, "totals": totals}

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
        target, arrays = file_path(path), list[Any]()
        content = pack(copy.copy(self), arrays, instead=_portable)  # a copy has left its tree behind
        write_record(target, "plan", _VERSION, Record(content, arrays))
        return target

    def row(self, action: Any) -> ActionRow:
        """Return the row of ``action`` (as the model names it, or by label), or raise ``StateError``."""
        for row in self.rows:
            if (isinstance(action, str) and row.label == action) or is_same(row.action, action):
                return row
        raise StateError(f"no action {action!r} at the root; there are {', '.join(row.label for row in self.rows)}")

    def samples(self, action: Any) -> NDArray[np.float64]:
        """Return totals of what may follow ``action``: float64, shape (k,), in no particular order; empty if unknown.

        Of a search the latest that it sampled through the action: the last 16,384 of each tree at most, fewer where
        there are many actions, 64 at least. Of bounded RTDP up to 4,096 episodes, played at the first call, that
        follow the action of the least risk that is certain. Of a distribution 1,024 equally likely totals.
        """
        position = self.rows.index(self.row(action))
        if callable(self.totals):
            return self.totals(position)
        if self.totals:
            return self.totals[position]
        found = self.rows[position].distribution
        return np.empty(0) if found is None else found.equally_likely(_SAMPLES)


_VERSION = 3  # of the files of plans
_OWN = (Plan, ActionRow, Interval, ReturnDistribution, Objective, SaidObjective, StopReason)


def _has_function(objective: Any) -> bool:
    return any(callable(value) or _has_function(value) for value in getattr(objective, "__dict__", {}).values())


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

    It equals the plan that was saved, with the same table, texts, ``to_dict()`` and sampled totals.
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
    target = file_path(path)
    record = read_record(target, "plan", _VERSION)
    plan: Plan = checked(target, "plan", lambda: unpack(record.content, record.arrays, _find_own))
    if isinstance(plan, Plan):
        return plan
    raise FormatError(f"{target}: it holds a {type(plan).__name__}, no plan")
