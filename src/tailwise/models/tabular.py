"""Finite decision problems as sparse tables; :mod:`tailwise.models.table` says how they are laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailwise._arrays import Ints
from tailwise._results import Shown
from tailwise._validate import truth
from tailwise.errors import ModelError, OptionError, StateError
from tailwise.models import tabular_build
from tailwise.models.contract import OWN, Outcome, Own, check_any_horizon, check_discount, needs_horizon
from tailwise.models.table import ARRAYS, Report, Table, TableData, check_table
from tailwise.models.tabular_build import Frame, count_actions


def require_table(model: Any, who: str, way_out: str = "make one with models.tabulate") -> None:
    """Raise ``ModelError`` where ``who`` is given anything but a table."""
    if not isinstance(model, TabularMDP):
        raise ModelError(f"{who} needs a TabularMDP, not {type(model).__name__}; {way_out}")


@dataclass(frozen=True, eq=False, kw_only=True)
class TabularMDP(Shown, Table):
    """An MDP held as a sparse table.

    Build one with :meth:`from_arrays`, :meth:`from_outcomes` or :meth:`from_gymnasium`, or load it
    from a file with :func:`tailwise.load`.

    Attributes
    ----------
    action_offsets : ndarray of int64, shape (S + 1,)
        First row of each state.
    action_ids : ndarray of int64, shape (rows,)
        The action's id (0 to A - 1) of each row; increasing within a state.
    outcome_offsets : ndarray of int64, shape (rows + 1,)
        First outcome of each row.
    probabilities : ndarray of float64, shape (outcomes,)
        Positive; they sum to 1 within a row.
    next_states : ndarray of int32, shape (outcomes,)
        Where the outcome leads.
    losses : ndarray of float64, shape (outcomes,)
        What the outcome costs at every step: its cost, or minus its reward (see :meth:`signed`).
    done : ndarray of bool, shape (outcomes,)
        Whether the outcome ends the episode.
    step_losses : ndarray of float64, shape (H, rows) or (0, 0)
        Loss of each row that depends on the step, added to ``losses``; empty if there is none.
    terminal_losses : ndarray of float64, shape (S,)
        Charged once, at step H.
    horizon : int or None
        Number of decisions H. None: no horizon; the episode goes on until it is done, or for ever.
    discount : float in (0, 1]
        Factor per step.
    start : int
        Initial state.
    sense : "cost" or "reward"
        Whether the user speaks of costs or of rewards.
    state_labels, action_labels : tuple of str
        Names; empty if there are none.
    name : str
        Name of the problem, for display.
    notes : tuple of str
        What a loader or adapter wants the user to know.
    """

    takes_step = True  # ``step`` wants to know which one it is: costs may depend on it

    @classmethod
    def from_arrays(
        cls,
        transitions: Any,
        costs: Any = None,
        *,
        rewards: Any = None,
        order: str | None = None,
        costs_order: str | None = None,
        mask: ArrayLike | None = None,
        horizon: int | None,
        discount: float = 1.0,
        start: int | str = 0,
        terminal_costs: ArrayLike | None = None,
        terminal_rewards: ArrayLike | None = None,
        state_labels: Sequence[str] = (),
        action_labels: Sequence[str] = (),
        name: str = "table",
        validate: bool = True,
    ) -> Self:
        """Build a table from transition and cost arrays.

        Parameters
        ----------
        transitions : array_like of float, shape (S, A, S) or (A, S, S)
            Probabilities; or a list of A scipy sparse matrices of shape (S, S) (order "ASS").
        costs : array_like of float, shape (S,), (S, A), (S, A, S), (A, S, S) or (H, S, A)
            Costs; a list of A sparse matrices is (A, S, S). In an (S, A) or (H, S, A) array +inf
            marks an illegal action.
        rewards : array_like of float
            Instead of ``costs``, in the same shapes (-inf marks an illegal action); the model then
            has ``sense="reward"``.
        order : "SAS" or "ASS", optional
            Axes of ``transitions``. Needed for a dense array with A == S; told from the shape otherwise.
        costs_order : "S", "SA", "SAS", "ASS" or "HSA", optional
            Axes of ``costs`` or ``rewards``, where the shape fits two readings.
        mask : array_like of bool, shape (S, A), optional
            True where the action is allowed.
        horizon : int or None
            Number of decisions, at least 1; None for no horizon (see :func:`tailwise.solve`).
        discount : float in (0, 1], default 1.0
            Factor per step.
        start : int or str, default 0
            Initial state (a label, where there are labels).
        terminal_costs, terminal_rewards : array_like of float, shape (S,), optional
            Charged (or earned) once, at step ``horizon``; give one of the two.
        state_labels, action_labels : sequence of str
            Names.
        name : str
            Name of the problem, for display.
        validate : bool, default True
            Raise on a model that :func:`tailwise.check_model` would fault.

        Returns
        -------
        TabularMDP

        Raises
        ------
        ModelError
            Naming every state and action whose entries are wrong.

        Examples
        --------
        >>> from tailwise import TabularMDP
        >>> mdp = TabularMDP.from_arrays([[[0.5, 0.5], [1, 0]], [[0, 1], [0, 1]]],
        ...                              costs=[[0, 1], [2, 2]], order="SAS", horizon=3)
        >>> mdp.num_states, mdp.num_actions, mdp.num_outcomes
        (2, 2, 5)
        """
        parts, declared = tabular_build.parts_from_arrays(
            transitions,
            costs,
            rewards,
            order=order,
            costs_order=costs_order,
            mask=mask,
            horizon=check_any_horizon(horizon),
        )
        if count_actions(parts) < declared and not action_labels:
            action_labels = tuple(map(str, range(declared)))  # keeps A, though its last action is illegal everywhere
        frame = Frame(
            horizon, discount, start, terminal_costs, terminal_rewards, state_labels, action_labels, name
        )  # fmt: skip
        return cls._assemble(parts, frame, validate=validate)

    @classmethod
    def from_outcomes(
        cls,
        states: ArrayLike,
        actions: ArrayLike,
        next_states: ArrayLike,
        probabilities: ArrayLike,
        costs: ArrayLike | None = None,
        *,
        rewards: ArrayLike | None = None,
        done: ArrayLike | None = None,
        num_states: int | None = None,
        horizon: int | None,
        discount: float = 1.0,
        start: int | str = 0,
        terminal_costs: ArrayLike | None = None,
        terminal_rewards: ArrayLike | None = None,
        state_labels: Sequence[str] = (),
        action_labels: Sequence[str] = (),
        name: str = "table",
        notes: Sequence[str] = (),
        validate: bool = True,
    ) -> Self:
        """Build a table from one entry per outcome, in any order; entries are never merged.

        Parameters
        ----------
        states, actions, next_states : array_like of int, shape (n,)
            From-state, action id and to-state of each outcome.
        probabilities : array_like of float, shape (n,)
            They must sum to 1 for each (state, action); entries of probability 0 are dropped.
        costs, rewards : array_like of float, shape (n,)
            Give one of the two.
        done : array_like of bool, shape (n,), optional
            Whether the outcome ends the episode.
        num_states : int, optional
            Number of states; the largest index plus 1 if not given.
        horizon, discount, start, terminal_costs, terminal_rewards, state_labels, action_labels, name, validate
            As in :meth:`from_arrays`.
        notes : sequence of str
            What the user should know of how the table came about.

        Returns
        -------
        TabularMDP

        Raises
        ------
        ModelError
            Naming every state and action whose entries are wrong.

        Examples
        --------
        >>> from tailwise import TabularMDP
        >>> coin = TabularMDP.from_outcomes([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0.0, 1.0], horizon=2)
        >>> coin.outcomes(0, 0)[1].cost
        1.0
        """
        columns = states, actions, next_states, probabilities
        values = tabular_build.pick(costs, rewards)
        parts = tabular_build.parts_from_outcomes(columns, values, done=done, num_states=num_states)
        frame = Frame(
            horizon, discount, start, terminal_costs, terminal_rewards, state_labels, action_labels, name, notes
        )  # fmt: skip
        return cls._assemble(parts, frame, validate=validate)

    @classmethod
    def from_gymnasium(
        cls,
        env_or_id: Any,
        *,
        horizon: int | None = None,
        discount: float = 1.0,
        start: int | None = None,
        **options: Any,
    ) -> Self:
        """Build a table from a Gymnasium environment that has a transition table ``P``.

        Parameters
        ----------
        env_or_id : gymnasium.Env or str
            The environment (wrappers are removed) or the id to make it from.
        horizon : int, optional
            Number of decisions; the environment's own time limit if not given.
        discount : float in (0, 1], default 1.0
            Factor per step.
        start : int, optional
            Initial state; the environment's own if it has one, else the state after ``reset(seed=0)``.
        **options
            Options for ``gymnasium.make``, as ``is_slippery=False``.

        Returns
        -------
        TabularMDP
            With ``sense="reward"``; outcomes flagged as terminated end the episode.

        Raises
        ------
        ModelError
            If the environment has no table, or no horizon is known.
        UnknownNameError
            If Gymnasium knows no such id.

        Examples
        --------
        >>> from tailwise import TabularMDP
        >>> TabularMDP.from_gymnasium("FrozenLake-v1").num_states  # doctest: +SKIP
        16
        """
        from tailwise.models.gymnasium.table import read_table

        table = read_table(env_or_id, horizon=horizon, start=start, **options)
        return cls.from_outcomes(**table, discount=discount)

    @classmethod
    def _assemble(cls, parts: tabular_build.Parts, frame: Frame, *, validate: bool) -> Self:
        num_states = parts.action_offsets.size - 1
        terminal = tabular_build.terminal(frame.terminal_costs, frame.terminal_rewards, num_states)
        for array in (*parts[:-1], terminal):  # the last part is the sense
            array.setflags(write=False)
        built = cls(
            **parts._asdict(),
            terminal_losses=terminal,
            horizon=check_any_horizon(frame.horizon),
            discount=check_discount(frame.discount),
            start=tabular_build.find_start(frame.start, num_states, frame.state_labels),
            state_labels=tabular_build.labels(frame.state_labels, num_states, "state_labels"),
            action_labels=tabular_build.labels(frame.action_labels, count_actions(parts), "action_labels"),
            name=frame.name,
            notes=tuple(frame.notes),
        )
        if truth(validate, "validate"):
            built.require_sound(endless=True)
        return built

    def actions(self, state: int) -> Ints:
        """Return the ids of the actions allowed in ``state``: int64, shape (n,)."""
        first, last = self._rows(state)
        return self.action_ids[first:last]

    def outcomes(self, state: int, action: int, h: int = 0) -> list[Outcome]:
        """Return the outcomes of ``action`` in ``state`` at step ``h``, in the model's own sense."""
        row = self.row(state, action)
        kept = slice(int(self.outcome_offsets[row]), int(self.outcome_offsets[row + 1]))
        costs = self.signed(self.losses[kept] + self._step_loss(row, h))
        columns = (
            self.probabilities[kept].tolist(),
            self.next_states[kept].tolist(),
            costs.tolist(),
            self.done[kept].tolist(),
        )
        return [Outcome(*fields) for fields in zip(*columns, strict=True)]

    def step(self, state: int, action: int, rng: np.random.Generator, h: int = 0) -> tuple[int, float, bool]:
        """Draw ``(next_state, cost, done)`` of ``action`` in ``state`` at step ``h``."""
        row = self.row(state, action)
        if not hasattr(rng, "random"):
            raise OptionError(f"rng must be a NumPy Generator, as numpy.random.default_rng(0), not {rng!r}")
        index = self.data.drawn(row, rng.random)
        cost = float(self.signed(self.losses[index] + self._step_loss(row, h)))
        return int(self.next_states[index]), cost, bool(self.done[index])

    def terminal_cost(self, state: int) -> float:
        """Return what reaching step H in ``state`` costs (or earns), in the model's own sense."""
        self._rows(state)
        return float(self.signed(self.terminal_losses[state]))

    def row(self, state: int, action: int) -> int:
        """Return the row of ``action`` in ``state``, or raise ``StateError``."""
        first, last = self._rows(state)
        is_one = getattr(action, "ndim", int(isinstance(action, (list, tuple)))) == 0
        found = np.flatnonzero(self.action_ids[first:last] == action) if is_one else np.empty(0)
        if not found.size:
            allowed = ", ".join(map(self.action_name, self.action_ids[first:last].tolist()))
            raise StateError(f"action {action!r} is not allowed in state {self.state_name(state)}; allowed: {allowed}")
        return first + int(found[0])

    def _step_loss(self, row: int, h: int) -> float:
        if not self.step_losses.size:
            return 0.0
        if not 0 <= h < self.horizon:
            raise StateError(f"step {h} is outside 0..{self.horizon - 1}")
        return float(self.step_losses[h, row])

    def _rows(self, state: Any) -> tuple[int, int]:
        if isinstance(state, np.ndarray) and state.ndim == 0:  # of Gymnasium's spaces
            state = state.item()
        is_number = isinstance(state, (int, float, np.number)) and not isinstance(state, bool)
        if not is_number or not 0 <= state < self.num_states or int(state) != state:
            raise StateError(f"state {state!r} is not in the table; states are 0..{self.num_states - 1}")
        return int(self.action_offsets[state]), int(self.action_offsets[state + 1])

    def find_state(self, text: int | str) -> int:
        """Return the index of the state given by index or label, or raise ``StateError``."""
        try:
            return tabular_build.find_start(text, self.num_states, self.state_labels)
        except ModelError as error:
            raise StateError(str(error).replace("start", "state", 1)) from None

    def with_options(
        self, *, horizon: int | Own | None = OWN, discount: float | None = None, start: int | str | None = None
    ) -> Self:
        """Return a copy with another horizon (None: without one), discount or start.

        Raises
        ------
        ModelError
            If the table has per-step costs and ``horizon`` is longer than they are.
        """
        changed: dict[str, Any] = {}
        if horizon is None:
            changed = self._without_horizon()
        elif horizon is not OWN:
            changed["horizon"] = check_any_horizon(horizon)
            if self.step_losses.size:
                if horizon > self.step_losses.shape[0]:
                    raise ModelError(
                        f"horizon {horizon} is longer than the {self.step_losses.shape[0]} steps with costs"
                    )
                changed["step_losses"] = self.step_losses[:horizon]
        if discount is not None:
            changed["discount"] = check_discount(discount)
        if start is not None:
            changed["start"] = self.find_state(start)
        return replace(self, **changed)

    def _without_horizon(self) -> dict[str, Any]:
        """Return what changes where the horizon is left out."""
        if self.step_losses.size:
            raise ModelError(f"costs of {self.name} depend on the step, up to its horizon: it cannot go without one")
        notes = tuple(note for note in self.notes if "gives no horizon" not in note)
        if self.terminal_losses.any():
            notes = (*notes, "there is no horizon, so that terminal costs are never charged; they were left out")
        return {"horizon": None, "terminal_losses": np.zeros(self.num_states), "notes": notes}

    @cached_property
    def _report(self) -> Report:
        return check_table(self)

    def check(self) -> Report:
        """Report everything that is wrong with the table (see :func:`tailwise.check_model`); it is looked at once."""
        return self._report

    def require_sound(self, *, endless: bool = False) -> None:
        """Raise ``ModelError`` for whatever :meth:`check` faults, and for having no horizon unless ``endless``."""
        self._report.raise_for_errors()
        if self.horizon is None and not endless:
            raise ModelError(needs_horizon(self.name))

    @cached_property
    def data(self) -> TableData:
        """The arrays in the layout that compiled kernels read, which check nothing: of sound tables only.

        Raises
        ------
        ModelError
            If :meth:`check` faults the table.
        """
        self.require_sound(endless=True)
        return TableData.build(self)

    def equals(self, other: TabularMDP) -> bool:
        """Whether ``other`` is the same problem, entry by entry (names and notes do not count)."""
        plain = ("horizon", "discount", "start", "sense", "state_labels", "action_labels")
        return all(np.array_equal(getattr(self, key), getattr(other, key)) for key in ARRAYS) and all(
            getattr(self, key) == getattr(other, key) for key in plain
        )

    def __repr__(self) -> str:
        return (
            f"TabularMDP(name={self.name!r}, states={self.num_states}, actions={self.num_actions}, "
            f"outcomes={self.num_outcomes}, horizon={self.horizon}, discount={self.discount}, sense={self.sense!r})"
        )
