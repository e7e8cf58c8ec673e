"""The one result of solving: what to do in every state, how good that is, and what the total may then be."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats
from tailwise._files import Record, write_record
from tailwise._results import Columns, Shown, Tabled, amount, amounts, number, plain, report_layer
from tailwise._validate import file_path, real, truth
from tailwise._values import CannotPackError, pack
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.exact.adversary import FearedModel, feared_model
from tailwise.exact.distributions import distribution_of, followed, return_distribution
from tailwise.exact.fixed_policies import action_id, policy_columns
from tailwise.exact.grid_totals import Choices, GridTotals, Upward
from tailwise.exact.parts import Part
from tailwise.exact.sweeps import TIE_TOLERANCE, RowRisks, Sweeps, row_worst
from tailwise.exact.totals import ReachableTotals
from tailwise.models import TabularMDP
from tailwise.models.check import fingerprint
from tailwise.models.contract import choices_of, short, state_fault
from tailwise.models.simulator import action_label, model_name, state_label
from tailwise.risk import ERM, Average, EVaR, Expectation, NestedCVaR, Objective, Recursive, RobustKL, RobustL1
from tailwise.risk.distribution import ReturnDistribution
from tailwise.risk.measures import Interval
from tailwise.search.action_rows import ActionRow
from tailwise.search.plan import Origin, Plan, StopReason

if TYPE_CHECKING:
    import plotly.graph_objects as go

KIND, VERSION = "policy", 1

Places: TypeAlias = dict[Hashable, tuple[int, int]]
"""Index and first step of each state of a simulator that was made a table."""

_MOST_ROWS = 16  # of a text
_MOST_ATOMS = 20_000  # pairs of state and accrued cost at a step, for the total after each action


@dataclass(frozen=True, eq=False)
class Policy(Shown, Tabled):
    """The optimum of a model for one objective. All numbers are in the model's own sense.

    ``to_frame()``, ``to_csv(path)`` and ``to_excel(path)`` give it as a table: a row for each step and state, with the
    action and what the objective is worth from there on (``value``). A policy that acts on what was paid has a row for
    each range of it (``paid_from`` to ``paid_to``, where sums between two ranges belong to the nearest) instead.
    Without a horizon the last step stands for all later.

    Attributes
    ----------
    objective : Objective
        What was made best.
    mdp : TabularMDP
        The table that was solved: the model, or what a simulator's start can reach.
    value : float
        The objective under this policy, from the start; of a budget, the mean.
    gap : float
        No policy is better by more than this; 0 where the value is exact but for rounding.
    beta : float
        Risk level at step 0 of the ERM that the policy is best for: infinity stands for the worst case, NaN for none.
    values : ndarray of float64, shape (H + 1, S), or None
        Optimal value from each state on; +inf (costs) or -inf (rewards) where no action is allowed, and where every
        action can lead to such a state before the horizon. None for a policy that acts on what was paid so far.
    policy : ndarray of int32, shape (H, S), or None
        Optimal action id: the lowest of those that tie; -1 where no action is allowed. None as above.
    threshold : float or None
        The total from which on costs count: the best b of a CVaR, the threshold of an exceedance, the bound of a
        budget.
    risk, multiplier : float or None
        Of a budget: the policy's risk, and the price of the constraint at the best bound (0 where it does not bind).
    solves : int
        How many problems were solved on the way.
    model : object
        The simulator that was solved, in whose states and actions the policy speaks; None for a table.
    bracket : tuple of (float, float) or None
        Without a horizon: what the best value is certain to lie between, in order.
    stationary_from : int
        Without a horizon: the step from which on the policy is stationary. ``policy`` has a row for each step, of which
        the last is followed for ever; ``values`` as many.
    graph, chosen : object
        Of a policy that acts on what was paid: the pairs (state, accrued cost), and what to do there.
    row_risks : callable, optional
        Of an objective that is taken again at every step: the risk of each row of the table; else the ERM's.
    """

    objective: Objective
    mdp: TabularMDP
    value: float
    gap: float = 0.0
    beta: float = math.nan
    values: Floats = field(default=None)  # type: ignore[arg-type]  # where there are none; see above
    policy: NDArray[np.int32] = field(default=None)  # type: ignore[arg-type]
    threshold: float | None = None
    risk: float | None = None
    multiplier: float | None = None
    solves: int = 1
    model: Any = None
    bracket: tuple[float, float] | None = None
    stationary_from: int = 0
    graph: ReachableTotals | GridTotals | None = field(default=None, repr=False)
    chosen: Choices = field(default=(), repr=False)
    row_risks: RowRisks | None = field(default=None, repr=False)
    _law: ReturnDistribution | None = field(default=None, repr=False)
    _places: Places = field(default_factory=dict, repr=False)

    @property
    def action(self) -> Any:
        """First action, from the start state."""
        return self.act(self.start, 0)

    @property
    def start(self) -> Hashable:
        """The model's start state."""
        return self.mdp.start if self.model is None else self.model.start

    @property
    def minds_the_past(self) -> bool:
        """Whether what to do depends on what was paid so far."""
        return self.graph is not None

    def act(self, state: Any, step: int, accrued: float = 0.0) -> Any:
        """Return the optimal action in ``state`` at ``step``.

        Parameters
        ----------
        state : int, str or object
            Index or label of the table's state, or the simulator's state.
        step : int
            Step h of the decision, 0 to H - 1.
        accrued : float, default 0.0
            Discounted cost (or reward) paid since step 0. It matters to policies that act on it alone, which take it
            for the nearest sum of the table's own: real costs may lie beyond those of a table that was learned.

        Returns
        -------
        int or object
            The action's id, or the simulator's own action; -1 where no action is allowed.

        Raises
        ------
        StateError
            If there is no such state or step, or the policy never gets there.
        OptionError
            If ``accrued`` is no finite number.
        """
        index = self.index(state, step)
        paid = accrued if type(accrued) is float and math.isfinite(accrued) else real(accrued, "accrued")
        if self.graph is not None:
            paid = float(self.mdp.signed(paid))
            return self._named(self.graph.action(self.chosen, index, step, paid), state)
        return self._named(int(self._policy[self._place(step), index]), state)

    def _place(self, step: int) -> int:
        """Return which row of the policy is followed at a step."""
        return step if self.mdp.horizon is not None else min(step, len(self._policy) - 1)

    def index(self, state: Any, step: int = 0) -> int:
        """Return the table's index of a state at a step, or raise ``StateError``.

        A simulator's table holds what its start reaches; a state that it reaches only later than ``step``, or not at
        all, has no full future there.
        """
        return find_index(self.mdp, self.model, self._places, state, step)

    def _named(self, position: int, state: Any) -> Any:
        """Return the model's own name of the table's action."""
        if self.model is None or position < 0:
            return position
        return choices_of(self.model.actions(state))[position]

    def action_values(self, step: int) -> Floats:
        """Return the value of every action at ``step``, shape (S, A); inf (-inf for rewards) = illegal.

        Raises
        ------
        OptionError
            If the policy acts on what was paid so far: it has values from the start alone (:meth:`plan`).
        """
        self.index(self.start, step)
        rows = self._row_values(step)
        full = np.full((self.mdp.num_states, self.mdp.num_actions), math.inf)
        full[self.mdp.row_states, self.mdp.action_ids] = rows
        return np.asarray(self.mdp.signed(full))

    @cached_property
    def q_values(self) -> Floats:
        """All action values, shape (H, S, A); inf (-inf for rewards) = illegal. Computed at first use."""
        return np.stack([self.action_values(h) for h in range(len(self._policy))])

    def optimal_actions(self, step: int, state: Any, *, tolerance: float = TIE_TOLERANCE) -> NDArray[np.int64]:
        """Return every action id whose value ties with the best: int64, shape (k,)."""
        index = self.index(state, step)
        real(tolerance, "tolerance", low=0.0)
        row = self.mdp.signed(self.action_values(step)[index])
        best = row.min()
        if best == math.inf:
            return np.empty(0, np.int64)
        chosen = row[self._policy[self._place(step), index]]  # it ties by the sizes of what was added up
        return np.flatnonzero(row <= max(best + tolerance * abs(best), chosen))

    @property
    def _policy(self) -> NDArray[np.int32]:
        if self.policy is None:
            raise OptionError(
                f"a policy for the {self.objective.words} acts on what was paid so far: it has no action or value of a "
                "state alone; use act(state, step, accrued), or plan() from the start"
            )
        return self.policy

    def _row_values(self, step: int) -> Floats:
        """Return the value of each row of the table at a step, as a loss."""
        if self.mdp.horizon is None:
            return self._endless_row_values(step)
        self._policy  # noqa: B018
        mdp, after = self.mdp, np.array(self.mdp.signed(self.values[step + 1]))
        if self.row_risks is not None:
            return self.row_risks(mdp, step, after, np.abs(after))[0]
        flat, spare = np.empty(mdp.num_rows), np.empty(mdp.num_states)
        Sweeps(mdp, self.beta)(step, after, flat, spare, np.empty(spare.size, np.int32))
        return flat

    def _endless_row_values(self, step: int) -> Floats:
        mdp, objective = self.mdp, self.objective
        part, discount = Part.of(mdp), float(mdp.discount)
        after = np.array(mdp.signed(self.values[min(step + 1, len(self.values) - 1)]))
        if self.beta == math.inf:
            return np.asarray(np.maximum.reduceat(part.ahead(after, discount), part.offsets[:-1]))
        level = self.beta
        if isinstance(objective, Recursive) and objective.apart:
            part, level = part.at_mean_costs(), level / discount
        elif not isinstance(objective, Recursive):
            level *= discount**step
        with np.errstate(invalid="ignore"):
            return part.risks(after, level, discount)

    def distribution(self, action: Any = None) -> ReturnDistribution:
        """Return the exact distribution of the total from the start, of the policy or with another action first.

        Where there are too many totals to list, close ones are merged; ``tolerance`` says how far they moved.

        Parameters
        ----------
        action : int or str, optional
            Id or label of the first action, one of the table's.

        Raises
        ------
        OptionError
            If the objective is an average, which has no total; or the policy acts on what was paid, and ``action`` is
            worse than it whatever happens.
        """
        if isinstance(self.objective, Average):
            raise OptionError(f"the {self.objective.words} is of a plant that runs for ever, which has no total")
        if action is None:
            return self._own_law
        first = action_id(self.mdp, action, self.mdp.start, 0)
        if self.graph is None:
            policy = self._policy.copy()
            if self.mdp.horizon is None:
                policy = np.concatenate((policy[:1], policy[min(1, len(policy) - 1) :]))
            policy[0, self.mdp.start] = first
            return return_distribution(self.mdp, policy, tolerance=None, max_atoms=_MOST_ATOMS)
        table = self.graph.mdp
        rows = np.arange(*table.action_offsets[table.start : table.start + 2])
        rows = rows[table.action_ids[rows] == first]
        if not rows.size:
            name = self.mdp.action_name(first)
            raise OptionError(f"{name} is worse than this policy, whatever happens; it was left out")
        return self._on_totals(self.graph.begun_with(self.chosen, int(rows[0])))

    @cached_property
    def _own_law(self) -> ReturnDistribution:
        if self._law is not None:
            return self._law
        if self.graph is not None:
            return self._on_totals(self.chosen)
        return return_distribution(self.mdp, self._policy, tolerance=None)

    def _on_totals(self, chosen: Choices) -> ReturnDistribution:
        graph: Any = self.graph
        law, tolerance = followed(graph, chosen) if isinstance(graph, GridTotals) else None, 0.0
        if law is None:
            law, tolerance = graph.law(chosen), float(graph.tolerance)
        totals, masses = law
        return distribution_of(self.mdp, totals, masses, tolerance)

    @cached_property
    def feared_model(self) -> FearedModel:
        """The model that a policy fears; see :func:`tailwise.exact.feared_model`."""
        return feared_model(self)

    @cached_property
    def promise(self) -> Any:
        """What the policy promises on a table learned from a log, a :class:`tailwise.logs.Promise`.

        Raises
        ------
        OptionError
            If the table was not learned from a log.
        """
        promised: Callable[[Policy], Any] | None = getattr(self.mdp, "promise", None)
        if promised is None:
            raise OptionError("only a policy on a table that learn_model() made has a promise")
        return promised(self)

    def plan(self, state: Any = None, step: int = 0, *, distributions: bool = True) -> Plan:
        """Return the decision in one state: a row per action, with its exact value and distribution.

        Parameters
        ----------
        state : int, str or object, optional
            The start if not given.
        step : int, default 0
            Step h of the decision. A policy that acts on what was paid plans from the start alone.
        distributions : bool, default True
            Find the distribution of the total after each action; without, mean to maximum of the rows are NaN.

        Returns
        -------
        Plan

        Raises
        ------
        StateError
            If no action is allowed there, or the policy never gets there.
        OptionError
            If the policy acts on what was paid, and the decision is another than the first.
        """
        begun, mdp = time.perf_counter(), self.mdp
        truth(distributions, "distributions")
        own = self.model if self.model is not None else mdp
        at = self.start if state is None else state
        root = self.index(at, step)
        at = root if self.model is None else at
        ids = mdp.actions(root)
        if not ids.size:
            name = state_label(own, at)
            raise StateError(f"no action is allowed in state {name}; there is nothing to decide")
        if self.graph is not None and (root, step) != (mdp.start, 0):
            raise OptionError(
                f"a policy for the {self.objective.words} plans from the start alone; use act() elsewhere, or a "
                "planner that samples ('tailwise planners' lists them)"
            )
        later = self.rooted(root, step)
        laws = [later._law_after(int(action)) if distributions or self.graph is not None else None for action in ids]
        if self.graph is None:
            values = self.action_values(step)[root, ids] + self._over(root, step)
            best = ids.tolist().index(int(self._policy[self._place(step), root]))
            value = float(self.values[self._place(step), root]) + self._over(root, step)
            if isinstance(self.objective, Average):  # the values are biases, to which each step adds the rate
                value += self.value
            tied = set(self.optimal_actions(step, at).tolist())
        else:
            values = np.array([math.nan if law is None else law.risk(self.objective) for law in laws])
            best, value = ids.tolist().index(self._first), self.value
            tied = {self._first}
        names = [self._named(int(action), at) for action in ids]
        rows = tuple(
            exact_row(name, self._label(name, at), float(one), law)
            for name, one, law in zip(names, values, laws, strict=True)
        )
        return Plan(
            action=rows[best].action, label=rows[best].label, value=value, rows=rows, state=at, step=step,
            beta=self.beta, root_beta=later.beta, sense=mdp.sense,
            iterations=0, simulator_steps=0,
            nodes=0 if self.policy is None else int(self.policy.size),
            bytes=0 if self.values is None else int(self.values.nbytes + self._policy.nbytes),
            seconds=time.perf_counter() - begun, stopped=StopReason.PROVEN,
            interval_meaning=f"the exact {self.objective.name} of the action, followed by optimal ones",
            method=self._method,
            objective=self._shown_objective(root, step), proven=bool(self.gap <= 1e-9 * abs(self.value)),
            optimal_actions=tuple(row.action for row, action in zip(rows, ids, strict=True) if int(action) in tied),
            threshold=self.threshold, policy=self,
            origin=Origin(own, {"objective": self.objective.words}, "none is needed", table=mdp, root=root),
        )  # fmt: skip

    @property
    def _method(self) -> str:
        if self.mdp.horizon is None:
            return "policy iteration, without a horizon"
        return "backward induction" if self.graph is None else "pairs of state and accrued cost, solved exactly"

    def _over(self, root: int, step: int) -> float:
        """Return what the objective is over the policy's own values: of an EVaR at the start, what its beta costs."""
        at_start = (root, step) == (self.mdp.start, 0)
        return self.value - float(self.values[0, root]) if self._has_beta_of_evar and at_start else 0.0

    @property
    def _has_beta_of_evar(self) -> bool:
        return isinstance(self.objective, EVaR) and 0.0 < self.beta < math.inf

    def _shown_objective(self, root: int, step: int) -> Objective:
        """Return what the values of a decision are: of an EVaR after the start, the ERM that its policy keeps to."""
        factor = float(self.mdp.discount) ** step
        if isinstance(self.objective, Expectation):
            return ERM(0.0)
        if self._has_beta_of_evar and (root, step) != (self.mdp.start, 0):
            return ERM(self.beta * factor)
        return self.objective.later(factor)

    @property
    def _first(self) -> int:
        return int(self.graph.action(self.chosen, self.mdp.start, 0, 0.0))  # type: ignore[union-attr]

    def rooted(self, state: int, step: int) -> Policy:
        """Return the same policy as one that begins in a state (an index) at a step."""
        mdp = self.mdp
        if (state, step) == (mdp.start, 0):
            return self
        row, factor = self._place(step), float(mdp.discount) ** step
        if mdp.horizon is None:
            table, factor = replace(mdp, start=state), 1.0 if isinstance(self.objective, Recursive) else factor
        else:
            table = replace(mdp, start=state, horizon=mdp.horizon - step, step_losses=mdp.step_losses[step:])
        value = self.value if isinstance(self.objective, Average) else float(self.values[row, state])
        return replace(
            self, objective=self.objective.later(factor), mdp=table, values=self.values[row:],
            policy=self._policy[row:], beta=self.beta * factor, value=value, model=None, bracket=None,
            stationary_from=max(0, self.stationary_from - step), _law=None,
        )  # fmt: skip

    def _law_after(self, action: Any) -> ReturnDistribution | None:
        try:
            return self.distribution(action)
        except (OptionError, StateError, ModelError):  # left out; or a state without an action lies ahead
            return None

    def _label(self, action: Any, state: Any) -> str:
        return action_label(self.mdp if self.model is None else self.model, action, state)

    def report(self, path: str | Path) -> Path:
        """Write the decision report of the first decision, with the policy; see :meth:`tailwise.Plan.report`."""
        return self.plan().report(path)

    def plot(self, step: int = 0) -> go.Figure:
        """Draw what to do in each state, as :func:`tailwise.report.plots.policy`: a plotly figure (extra ``report``).

        Where that depends on more than the state and the step, the total after each first action is drawn instead.
        """
        plots = report_layer("plots")
        drawn: go.Figure = plots.policy(self, step) if self.policy is not None else self.plan().plot()
        return drawn

    def save(self, path: str | Path) -> Path:
        """Write the policy to a file, for :func:`tailwise.load_policy`; the file is there as a whole or not at all.

        The model is not in it.

        Raises
        ------
        OptionError
            If the objective has a function of the user's, or the policy acts on what was observed of a hidden state.
        FormatError
            If the file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> from tailwise import CVaR, domains, load_policy, solve
        >>> mdp = domains.make("grid-mdp")
        >>> policy = solve(mdp, CVaR(0.9))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load_policy(policy.save(f"{folder}/careful.policy"), mdp)
        >>> again.value == policy.value, again.act("(1,0)", 3, accrued=2.97) == policy.act("(1,0)", 3, accrued=2.97)
        (True, True)
        """
        target, arrays = file_path(path), list[Any]()
        others = "its first decision can (policy.plan().save(path)), and its table (to_csv, to_excel)"
        known = self.row_risks in (None, row_worst) or isinstance(self.objective, (NestedCVaR, RobustKL, RobustL1))
        if type(self) is not Policy or not known:  # the risk of each row is of the solver's own
            raise OptionError(f"{path}: a {type(self).__name__} cannot be kept in a file; {others}")
        graph: Any = None if self.graph is None else replace(self.graph, mdp=None)  # type: ignore[arg-type]
        bare: Any = None
        kept = replace(self, mdp=bare, model=None, graph=graph, row_risks=None, _places={}, chosen=list(self.chosen))
        try:
            content = pack(kept, arrays)
        except CannotPackError as error:
            raise OptionError(
                f"{path}: a policy for the {self.objective.words} cannot be kept in a file: {error}; {others}"
            ) from None
        own = self.mdp if self.model is None else self.model
        whole = self.graph is not None and self.graph.mdp is self.mdp
        about = {
            "model": [model_name(own), fingerprint(own).hex()], "has_rows": self.row_risks is not None,
            "is_worst": self.row_risks is row_worst, "whole": whole, "upward": isinstance(self.chosen, Upward),
        }  # fmt: skip
        write_record(target, KIND, VERSION, Record({"policy": content, **about}, arrays))
        return target

    def to_dict(self) -> dict[str, object]:
        """Return what was found as plain values, ready for ``json.dumps``: the numbers, and the first decision."""
        names = ("value", "gap", "beta", "threshold", "risk", "multiplier", "solves")
        return {
            "objective": self.objective.words,
            "sense": self.mdp.sense,
            "action": plain(self.action),
            "label": self._label(self.action, self.start),
            **{name: plain(getattr(self, name)) for name in names},
        }

    def to_columns(self) -> Columns:
        """Return the table column by column, by name."""
        if self.model is None:
            names = [self.mdp.state_name(k) for k in range(self.mdp.num_states)]
            return policy_columns(self, names, [0] * len(names))
        names = [state_label(self.model, state) for state in self._places]
        last = len(self._policy) - 1 if self.mdp.horizon is None else self.mdp.horizon  # it stands for all later steps
        return policy_columns(self, names, [min(first, last) for _, first in self._places.values()])

    def __str__(self) -> str:
        plan = self.plan(distributions=False)
        sure = "exact" if self.gap == 0.0 else f"no policy is better by more than {self.gap:.2g}"
        lines = [
            f"take {plan.label} in {self.mdp.name}: {self.objective.words} is {number(self.value, 9)} "
            f"({amounts(self.mdp.sense)}; {sure})"
        ]
        if self.risk is not None:
            lines.append(f"its risk is {amount(number(self.risk, 9))}")
        if self.graph is not None:
            lines.append("it acts on what was paid so far: act(state, step, accrued)")
        lines += [f"  {row.label:>12}  {plan.measure} {number(row.erm, 9)}" for row in plan.rows[:_MOST_ROWS]]
        if len(plan.rows) > _MOST_ROWS:
            lines.append(f"  and {len(plan.rows) - _MOST_ROWS} more actions")
        return "\n".join(lines)


def exact_row(action: Any, label: str, value: float, law: ReturnDistribution | None) -> ActionRow:
    """Return the row of an action whose value is exact, and the distribution of the total, too, if it is known."""
    moments = (math.nan,) * 4 if law is None else (law.mean, law.std, law.minimum, law.maximum)
    between = Interval(value, value)
    return ActionRow(action, label, 0, 0.0, value, *moments, between, lower=value, upper=value, distribution=law)


def find_index(mdp: TabularMDP, model: Any, places: Places, state: Any, step: int) -> int:
    """Return the table's index of a state of the model at a step, or raise ``StateError``; see :meth:`Policy.index`."""
    whole = isinstance(step, (int, np.integer)) and not isinstance(step, bool)
    if not whole or step < 0 or (mdp.horizon is not None and step >= mdp.horizon):
        last = "" if mdp.horizon is None else mdp.horizon - 1
        raise StateError(f"step {step!r} is outside 0..{last}")
    if model is None or model is mdp:
        if isinstance(state, np.ndarray) and state.ndim == 0:  # of Gymnasium's spaces
            state = state.item()
        if isinstance(state, (int, np.integer)) and not isinstance(state, bool) and 0 <= state < mdp.num_states:
            return int(state)
        if isinstance(state, str):
            return mdp.find_state(state)
        raise StateError(f"state {state!r} is outside 0..{mdp.num_states - 1}")
    if state_fault(state):
        raise StateError(f"state {state_fault(state)}")
    canonical = getattr(model, "canonical", None)
    place = places.get(state if canonical is None else canonical(state))
    if place is None or (place[1] > step and mdp.horizon is not None):
        raise StateError(f"state {short(state)} cannot be reached from the start by step {step}")
    return place[0]
