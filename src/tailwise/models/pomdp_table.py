"""Finite partly observed problems as sparse tables: a table of which each outcome also says what is observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailwise._arrays import Floats, Ints
from tailwise._results import Shown
from tailwise._validate import numeric, truth
from tailwise.errors import ModelError, StateError
from tailwise.models.contract import LARGEST_COST, SUM_TOLERANCE, Sense
from tailwise.models.partly_observed import Draw
from tailwise.models.table import Report, Violation
from tailwise.models.tabular import TabularMDP
from tailwise.models.tabular_build import find_start, labels, pick


@dataclass(frozen=True, eq=False, kw_only=True)
class PomdpTable(Shown):
    """A finite-horizon problem whose state is not seen, held as a sparse table.

    Build one with :meth:`from_arrays` or :meth:`from_outcomes`, or load a ``.pomdp`` file with :func:`tailwise.load`.

    Attributes
    ----------
    table : TabularMDP
        The problem as it were if its state were seen: one outcome for each next state, observation and cost.
    observed : ndarray of int64, shape (outcomes,)
        What each outcome of ``table`` shows.
    start_belief : ndarray of float64, shape (S,)
        Probability of each state before the first decision.
    observation_labels : tuple of str
        Names of the observations 0 to O - 1.
    observation_values : tuple
        The observations as a simulator names them, where the table was made from one; else empty.
    cost_seen : bool
        Whether the decision maker sees the cost of each step; see :class:`tailwise.PartlyObserved`.
    """

    table: TabularMDP
    observed: Ints
    start_belief: Floats
    observation_labels: tuple[str, ...]
    observation_values: tuple[Any, ...] = ()
    cost_seen: bool = False

    @classmethod
    def from_arrays(
        cls,
        transitions: Any,
        observations: ArrayLike,
        costs: Any = None,
        *,
        rewards: Any = None,
        order: str | None = None,
        costs_order: str | None = None,
        horizon: int,
        discount: float = 1.0,
        start: ArrayLike | str | None = None,
        terminal_costs: ArrayLike | None = None,
        terminal_rewards: ArrayLike | None = None,
        end_states: ArrayLike | None = None,
        cost_seen: bool = False,
        state_labels: Sequence[str] = (),
        action_labels: Sequence[str] = (),
        observation_labels: Sequence[str] = (),
        name: str = "pomdp",
        validate: bool = True,
    ) -> Self:
        """Build a table from arrays of transitions, observations and costs.

        Parameters
        ----------
        transitions : array_like of float, shape (S, A, S) or (A, S, S)
            Probabilities of the next state.
        observations : array_like of float, shape (S, A, O), (A, S, O) or (S, O)
            Probabilities of what is observed, by the action and the state that it led *to*. Where both of the first
            two fit (A == S) they are read in the ``order`` of ``transitions``.
        costs : array_like of float, shape (S,), (S, A), (S, A, S), (A, S, S), (S, A, S, O) or (A, S, S, O)
            Costs. In the last two, by what is observed as well, in the ``order`` of ``transitions``.
        rewards : array_like of float
            Instead of ``costs``, in the same shapes; the model then has ``sense="reward"``.
        order : "SAS" or "ASS", optional
            Axes of ``transitions``; told from the shape where A != S.
        costs_order : optional
            Axes of ``costs`` or ``rewards``, where the shape fits two readings; see :meth:`TabularMDP.from_arrays`.
        horizon, discount, terminal_costs, terminal_rewards, name
            As for :meth:`TabularMDP.from_arrays`.
        start : array_like of float, shape (S,), or int or str, optional
            Probability of each state before the first decision, or the one state. Uniform if not given.
        end_states : array_like of bool, shape (S,), optional
            States on whose entry the episode ends. That it ended is seen; nothing more is charged.
        cost_seen : bool, default False
            Whether the decision maker sees what each step cost.
        state_labels, action_labels, observation_labels : sequence of str
            Names.
        validate : bool, default True
            Raise on a model that :func:`tailwise.check_model` would fault.

        Returns
        -------
        PomdpTable

        Raises
        ------
        ModelError
            Naming every state, action and observation whose entries are wrong.

        Examples
        --------
        >>> from tailwise import ERM, PomdpTable, solve
        >>> stay, anew = [[1, 0], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]
        >>> hears, nothing = [[0.85, 0.15], [0.15, 0.85]], [[0.5, 0.5], [0.5, 0.5]]
        >>> tiger = PomdpTable.from_arrays(
        ...     [stay, anew, anew], [hears, nothing, nothing], [[1, 100, -10], [1, -10, 100]], horizon=5, discount=0.95)
        >>> round(solve(tiger, ERM(0.1)).value, 8)
        4.52438125
        """
        values = pick(costs, rewards)[1]
        if not hasattr(values, "todense") and np.ndim(values) == 4:
            costs_like, by_observation = None, np.asarray(values, dtype=np.float64)
        else:
            costs_like, by_observation = values, None
        sense = "cost" if costs is not None else "reward"
        plain = _seen_table(
            transitions, costs_like, sense, order=order, costs_order=costs_order, horizon=horizon, discount=discount,
            terminal_costs=terminal_costs, terminal_rewards=terminal_rewards, state_labels=state_labels,
            action_labels=action_labels, name=name,
        )  # fmt: skip
        size, count = plain.num_states, plain.num_actions
        order = order or ("SAS" if np.shape(transitions)[0] == size and np.ndim(transitions) == 3 else "ASS")
        chances = _observation_array(observations, size, count, order)
        ends = np.zeros(size, np.bool_) if end_states is None else np.asarray(end_states, dtype=np.bool_).reshape(-1)
        if ends.size != size:
            raise ModelError(f"end_states has {ends.size} entries, expected one per state: {size}")
        entry, seen = np.nonzero(chances[plain.action_ids[plain.outcome_rows], plain.next_states] != 0.0)
        row = plain.outcome_rows[entry]
        states, ids, target = plain.row_states[row], plain.action_ids[row], plain.next_states[entry]
        paid: Any = plain.signed(plain.losses[entry])
        if by_observation is not None:
            shape = (size, count, size, chances.shape[2])
            if order == "ASS" and by_observation.shape == (count, size, *shape[2:]):
                by_observation = by_observation.transpose(1, 0, 2, 3)
            if by_observation.shape != shape:
                raise ModelError(f"{sense}s has shape {by_observation.shape}; expected {shape} in the axes of {order}")
            paid = by_observation[states, ids, target, seen]
        with np.errstate(invalid="ignore"):
            chance = plain.probabilities[entry] * chances[ids, target, seen]
        names = labels(observation_labels, chances.shape[2], "observation_labels")
        Report(name, tuple(_observation_faults(chances, plain, names))).raise_for_errors()
        return cls.from_outcomes(
            states, ids, target, seen, chance, **{f"{sense}s": paid}, done=ends[target], num_states=size,
            num_observations=chances.shape[2], horizon=horizon, discount=discount, start=start,
            terminal_costs=terminal_costs, terminal_rewards=terminal_rewards, cost_seen=cost_seen,
            state_labels=state_labels, action_labels=action_labels or tuple(map(str, range(count))),
            observation_labels=observation_labels, name=name, validate=validate,
        )  # fmt: skip

    @classmethod
    def from_outcomes(
        cls,
        states: ArrayLike,
        actions: ArrayLike,
        next_states: ArrayLike,
        observations: ArrayLike,
        probabilities: ArrayLike,
        costs: ArrayLike | None = None,
        *,
        rewards: ArrayLike | None = None,
        done: ArrayLike | None = None,
        num_states: int | None = None,
        num_observations: int | None = None,
        horizon: int,
        discount: float = 1.0,
        start: ArrayLike | str | None = None,
        terminal_costs: ArrayLike | None = None,
        terminal_rewards: ArrayLike | None = None,
        cost_seen: bool = False,
        state_labels: Sequence[str] = (),
        action_labels: Sequence[str] = (),
        observation_labels: Sequence[str] = (),
        observation_values: Sequence[Any] = (),
        name: str = "pomdp",
        notes: Sequence[str] = (),
        validate: bool = True,
    ) -> Self:
        """Build a table from one entry per outcome (next state, observation and cost), in any order.

        Parameters
        ----------
        states, actions, next_states, observations : array_like of int, shape (n,)
            From-state, action id, to-state and observation of each outcome.
        probabilities : array_like of float, shape (n,)
            They must sum to 1 for each (state, action).
        num_observations : int, optional
            Number of observations; the largest index plus 1 if not given.
        costs, rewards, done, num_states, horizon, discount, terminal_costs, terminal_rewards, name, notes, validate
            As for :meth:`TabularMDP.from_outcomes`.
        start, cost_seen, state_labels, action_labels, observation_labels
            As for :meth:`from_arrays`.
        observation_values : sequence, optional
            The observations as whoever acts names them.

        Returns
        -------
        PomdpTable

        Raises
        ------
        ModelError
            Naming every state and action whose entries are wrong.
        """
        seen, chance = (
            np.asarray(observations).reshape(-1),
            numeric(probabilities, "probabilities", ModelError).reshape(-1),
        )
        if seen.dtype.kind not in "iu" or (seen.size and seen.min() < 0):
            raise ModelError("observations must be whole numbers, 0 or more")
        table = TabularMDP.from_outcomes(
            states, actions, next_states, chance, costs, rewards=rewards, done=done, num_states=num_states,
            horizon=horizon, discount=discount, terminal_costs=terminal_costs, terminal_rewards=terminal_rewards,
            state_labels=state_labels, action_labels=action_labels, name=name, notes=notes, validate=False,
        )  # fmt: skip
        origin, ids = np.asarray(states).reshape(-1), np.asarray(actions).reshape(-1)
        if seen.size != origin.size:
            raise ModelError(f"observations has {seen.size} entries, states has {origin.size}; they must match")
        kept = chance != 0.0
        order = np.lexsort((ids[kept], origin[kept]))  # stable, as the table's own
        count = int(seen.max()) + 1 if num_observations is None else num_observations
        if seen.max() >= count:
            raise ModelError(f"observation {int(seen.max())} is out of range for num_observations={count}")
        names = labels(observation_labels, count, "observation_labels") or tuple(map(str, range(count)))
        built = cls(
            table=table, observed=seen[kept][order].astype(np.int64),
            start_belief=belief_of(start, table), observation_labels=names,
            observation_values=tuple(observation_values), cost_seen=truth(cost_seen, "cost_seen"),
        )  # fmt: skip
        if truth(validate, "validate"):
            built.require_sound()
        return built

    @property
    def horizon(self) -> int:
        """Number of decisions H."""
        return int(self.table.horizon)

    @property
    def discount(self) -> float:
        """Factor per step."""
        return self.table.discount

    @property
    def sense(self) -> Sense:
        """Whether the user speaks of costs or of rewards."""
        return self.table.sense

    @property
    def name(self) -> str:
        """Name of the problem, for display."""
        return self.table.name

    @property
    def notes(self) -> tuple[str, ...]:
        """What a loader wants the user to know."""
        return self.table.notes

    @property
    def num_states(self) -> int:
        """Number of states S."""
        return self.table.num_states

    @property
    def num_actions(self) -> int:
        """Number of actions A."""
        return self.table.num_actions

    @property
    def num_outcomes(self) -> int:
        """Number of outcomes: of next state, observation and cost."""
        return self.table.num_outcomes

    @property
    def num_observations(self) -> int:
        """Number of observations O."""
        return len(self.observation_labels)

    def signed(self, loss: Any) -> Any:
        """Turn losses into the model's own sense, or back."""
        return self.table.signed(loss)

    def actions(self) -> int:
        """Return the number of actions; they do not depend on the state, which is not seen."""
        return self.num_actions

    def action_name(self, action: int) -> str:
        """Return the label of an action."""
        return self.table.action_name(int(action))

    def find_action(self, action: int | str) -> int:
        """Return the id of an action given by id or label, or raise ``StateError``."""
        if isinstance(action, str) and action in self.table.action_labels:
            return self.table.action_labels.index(action)
        if isinstance(action, (int, np.integer)) and 0 <= action < self.num_actions:
            return int(action)
        known = ", ".join(map(self.action_name, range(min(9, self.num_actions))))
        raise StateError(f"there is no action {action!r} in {self.name}; there are {known}")

    def find_observation(self, observation: Any) -> int:
        """Return the index of an observation given by index, label or a simulator's value, or raise ``StateError``."""
        if self.observation_values:
            if observation in self.observation_values:
                return self.observation_values.index(observation)
        elif isinstance(observation, (int, np.integer)) and 0 <= observation < self.num_observations:
            return int(observation)
        if isinstance(observation, str) and observation in self.observation_labels:
            return self.observation_labels.index(observation)
        raise StateError(
            f"there is no observation {observation!r} in {self.name}; there are "
            f"{', '.join(self.observation_labels[:9])}"
        )

    def sample_start(self, rng: np.random.Generator) -> int:
        """Draw the state in which an episode begins."""
        sums = np.cumsum(self.start_belief)
        return int(min(np.searchsorted(sums, rng.random() * sums[-1], side="right"), self._last_start))

    @cached_property
    def _last_start(self) -> int:
        return int(np.flatnonzero(self.start_belief)[-1])

    def draw(self, state: int, action: int, rng: np.random.Generator) -> Draw:
        """Draw next state, cost, end and observation (its index) of a step together."""
        k = self.table.data.drawn(self.table.row(state, action), rng.random)
        cost, done = float(self.table.signed(self.table.losses[k])), bool(self.table.done[k])
        return Draw(int(self.table.next_states[k]), cost, done, None if done else int(self.observed[k]))

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[int, float, bool]:
        """Draw ``(next_state, cost, done)``; see :meth:`draw` where the cost goes with what is observed."""
        return self.draw(state, action, rng)[:3]

    def observe(self, state: int, action: int, next_state: int, rng: np.random.Generator) -> int:
        """Draw what is observed after ``action`` led from ``state`` to ``next_state``: an index.

        Raises
        ------
        ModelError
            If the cost of that move goes with what is observed, so that the two must be drawn together.
        """
        row = self.table.row(state, action)
        kept = np.arange(self.table.outcome_offsets[row], self.table.outcome_offsets[row + 1])
        kept = kept[self.table.next_states[kept] == next_state]
        if not kept.size:
            raise StateError(f"action {self.action_name(action)} never leads from state {state} to {next_state}")
        if np.unique(self.table.losses[kept]).size > 1:
            raise ModelError(
                f"{self.name}: what this move costs goes with what is observed; use draw(state, action, rng)"
            )
        sums = np.cumsum(self.table.probabilities[kept])
        k = min(int(np.searchsorted(sums, rng.random() * sums[-1], side="right")), kept.size - 1)
        return int(self.observed[kept[k]])

    def terminal_cost(self, state: int) -> float:
        """Return what reaching step H in ``state`` costs (or earns), in the model's own sense."""
        return self.table.terminal_cost(state)

    def with_options(
        self, *, horizon: int | None = None, discount: float | None = None, start: ArrayLike | str | None = None
    ) -> Self:
        """Return a copy with another horizon, discount or start (a belief, or a state)."""
        table = self.table.with_options(horizon=horizon, discount=discount)
        belief = self.start_belief if start is None else belief_of(start, table)
        return replace(self, table=table, start_belief=belief)

    @cached_property
    def _report(self) -> Report:
        return Report(self.name, (*self.table.check().violations, *_belief_faults(self)), self.table.check().warnings)

    def check(self) -> Report:
        """Report everything that is wrong with the table (see :func:`tailwise.check_model`)."""
        return self._report

    def require_sound(self) -> None:
        """Raise ``ModelError`` for whatever :meth:`check` faults."""
        self._report.raise_for_errors()

    def __repr__(self) -> str:
        return (
            f"PomdpTable(name={self.name!r}, states={self.num_states}, actions={self.num_actions}, "
            f"observations={self.num_observations}, horizon={self.horizon}, discount={self.discount}, "
            f"sense={self.sense!r}, cost_seen={self.cost_seen})"
        )


def belief_of(start: Any, table: TabularMDP) -> Floats:
    """Return a belief from probabilities, a state or its label; uniform for None."""
    size = table.num_states
    if start is None:
        return np.full(size, 1.0 / size)
    if isinstance(start, (str, int, np.integer)):
        belief = np.zeros(size)
        belief[find_start(start, size, table.state_labels)] = 1.0
        return belief
    try:
        given = np.array(start, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise ModelError(f"start must be probabilities of the states, a state or its label: {error}") from None
    if given.size != size:
        raise ModelError(f"start has {given.size} probabilities, expected one per state: {size}")
    total = given.sum()
    if abs(total - 1.0) > 1e-12 and abs(total - 1.0) <= SUM_TOLERANCE:
        given = given / total
    return given


def _seen_table(transitions: Any, values: Any, sense: str, **options: Any) -> TabularMDP:
    """Build the table of the hidden chain; every action must be allowed everywhere."""
    if values is None:  # by what is observed: filled in later
        size = np.shape(transitions)[-1]
        values = np.zeros(size)
        options["costs_order"] = "S"
    by_step = options["costs_order"] == "HSA" or (
        np.ndim(values) == 3 and np.shape(values)[0] == options["horizon"] and options["costs_order"] is None
        and np.shape(values)[2] != np.shape(transitions)[-1]
    )  # fmt: skip
    table = None if by_step else TabularMDP.from_arrays(transitions, **{f"{sense}s": values}, **options)
    if table is None or table.step_losses.size:
        raise ModelError(
            f"{sense}s may not depend on the step, where the state is not seen; put the step into the state"
        )
    return table


def _observation_array(given: ArrayLike, size: int, count: int, order: str) -> Floats:
    """Return observation probabilities in the axes (action, state reached, observation)."""
    array = numeric(given, "observations", ModelError, "a numeric array")
    shape = array.shape
    if array.ndim == 2 and shape[0] == size:
        return np.broadcast_to(array, (count, *shape))
    fits = [kind for kind, first in (("ASS", (count, size)), ("SAS", (size, count))) if shape[:2] == first]
    if array.ndim != 3 or not fits or shape[2] == 0:
        raise ModelError(
            f"observations has shape {shape}; expected (A, S, O) = ({count}, {size}, O), (S, A, O) = "
            f"({size}, {count}, O) or (S, O) = ({size}, O)"
        )
    kind = order if order in fits else fits[0]
    return array if kind == "ASS" else array.transpose(1, 0, 2)


def _observation_faults(chances: Floats, table: TabularMDP, names: tuple[str, ...]) -> Any:
    """Yield what is wrong with the observations of the states that an action can lead to."""
    reached = np.zeros(chances.shape[:2], np.bool_)
    reached[table.action_ids[table.outcome_rows], table.next_states] = True
    for a, s in np.argwhere(reached).tolist():
        row = chances[a, s]
        where = f"observations after action {table.action_name(a)} led to state {table.state_name(s)}"
        for o in np.flatnonzero(~((row >= 0.0) & (row <= 1.0 + SUM_TOLERANCE))).tolist():
            seen = names[o] if names else o
            yield Violation(f"{where}, observation {seen}", f"probability {row[o]:g}", "it must lie in [0, 1]")
        if abs(row.sum() - 1.0) > SUM_TOLERANCE:
            yield Violation(where, f"probabilities sum to {row.sum():.9g}", "they must sum to 1")


def _belief_faults(model: PomdpTable) -> Any:
    belief, table = model.start_belief, model.table
    for s in np.flatnonzero(~((belief >= 0.0) & (belief <= 1.0 + SUM_TOLERANCE))).tolist():
        yield Violation(
            f"start belief, state {table.state_name(s)}", f"probability {belief[s]:g}", "it must lie in [0, 1]"
        )
    if not abs(belief.sum() - 1.0) <= SUM_TOLERANCE:
        yield Violation("start belief", f"probabilities sum to {belief.sum():.9g}", "they must sum to 1")
    counts = np.bincount(table.row_states, minlength=table.num_states)
    for s in np.flatnonzero(counts != table.num_actions).tolist():
        yield Violation(
            f"state {table.state_name(s)}", f"{counts[s]} of {table.num_actions} actions are allowed",
            "where the state is not seen each action must be allowed in each; give it a large finite cost",
        )  # fmt: skip
    if table.step_losses.size:
        yield Violation("costs", "they depend on the step", f"put the step into the state (at most {LARGEST_COST:g})")
