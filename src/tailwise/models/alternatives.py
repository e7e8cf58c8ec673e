"""Several tables of which one is true, unknown which, for the whole episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailwise._arrays import Floats
from tailwise.errors import ModelError
from tailwise.models.pomdp_table import PomdpTable
from tailwise.models.tabular import TabularMDP, require_table

_SAME = ("horizon", "discount", "start", "sense", "num_states", "state_labels", "action_labels")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Alternatives(PomdpTable):
    """Tables of the same states and actions, one of which is true for the whole episode; made by :meth:`of`.

    The state is seen, the model is not: a problem of hidden states whose hidden part never changes. Planners and
    :func:`tailwise.evaluate` take it as that, and learn which model is true on the way. :func:`tailwise.solve` finds a
    *fixed* plan, which acts on state and step alone; give it :meth:`hidden` for the plan that learns. Drawing a model
    anew at each step, which is what a mixed table does (:meth:`mixed`), is another problem, and hides most of the risk.

    Attributes
    ----------
    tables : tuple of TabularMDP
        The models.
    weights : ndarray of float64, shape (models,)
        How likely each is.
    """

    tables: tuple[TabularMDP, ...]
    weights: Floats

    @classmethod
    def of(
        cls,
        tables: Sequence[TabularMDP],
        weights: ArrayLike | None = None,
        *,
        cost_seen: bool = True,
        name: str = "",
        notes: Sequence[str] = (),
    ) -> Self:
        """Put tables together.

        Parameters
        ----------
        tables : sequence of TabularMDP
            With the same states, actions, horizon, discount, start and sense.
        weights : array_like of float, shape (models,), optional
            How likely each is; equal if not given.
        cost_seen : bool, default True
            Whether what a step costs tells those who plan which model is true.
        name : str, optional
            For display; that of the first table if not given.
        notes : sequence of str, optional
            What the user should know; those of the first table if not given.

        Returns
        -------
        Alternatives

        Raises
        ------
        ModelError
            If they do not match, or the weights are none.

        Examples
        --------
        >>> from tailwise import Alternatives, TabularMDP, solve
        >>> models = [TabularMDP.from_arrays([[[1.0]]], [[cost]], order="SAS", horizon=10) for cost in (0.0, 2.0)]
        >>> unknown = Alternatives.of(models)
        >>> round(solve(unknown, 0.5).value, 3), round(solve(unknown.mixed(), 0.5).value, 3)
        (18.614, 12.402)
        """
        models = tuple(tables)
        if not models:
            raise ModelError("alternatives are tables, at least one")
        for table in models:
            require_table(table, "Alternatives.of")
        first = models[0]
        if first.horizon is None:
            raise ModelError("alternatives are tables with a horizon: which is true is learned, or not, on the way")
        for k, other in enumerate(models):
            wrong = [what for what in _SAME if getattr(other, what) != getattr(first, what)]
            if not wrong and not (
                np.array_equal(other.action_offsets, first.action_offsets)
                and np.array_equal(other.action_ids, first.action_ids)
            ):
                wrong = ["actions of each state"]
            if wrong:
                raise ModelError(f"alternative {k} ({other.name}) has another {wrong[0]} than the first ({first.name})")
        chances = np.full(len(models), 1.0) if weights is None else np.asarray(weights, dtype=np.float64).reshape(-1)
        if chances.size != len(models) or not np.isfinite(chances).all() or (chances < 0).any() or chances.sum() <= 0:
            raise ModelError(f"weights must be {len(models)} numbers >= 0, not all 0: one for each alternative")
        chances = chances / chances.sum()
        own, said = name or first.name, tuple(notes) or first.notes
        belief = np.zeros(len(models) * first.num_states)
        belief[first.start :: first.num_states] = chances
        return cls(
            tables=models, weights=chances, table=_joint(models, own, said), start_belief=belief, cost_seen=cost_seen,
            observed=np.concatenate([table.next_states for table in models]).astype(np.int64),
            observation_labels=first.state_labels or tuple(map(str, range(first.num_states))),
        )  # fmt: skip

    @property
    def start(self) -> int:
        """Index of the first state, which is seen."""
        return self.tables[0].start

    def hidden(self) -> PomdpTable:
        """Return the problem as one of hidden states, of which :func:`tailwise.solve` finds the plan that learns."""
        return PomdpTable(**{part.name: getattr(self, part.name) for part in fields(PomdpTable)})

    def mixed(self) -> TabularMDP:
        """Return the table in which a model is drawn anew at each step: another problem, with less risk."""
        first, row = self.tables[0], np.concatenate([table.outcome_rows for table in self.tables])
        if any(table.step_losses.size for table in self.tables):
            raise ModelError("models whose costs depend on the step cannot be mixed into one table")
        losses = np.concatenate([table.losses for table in self.tables])
        values: dict[str, Any] = {f"{first.sense}s": first.signed(losses)}
        terminal = np.stack([table.terminal_losses for table in self.tables])
        if (terminal != terminal[0]).any():
            raise ModelError("models of different terminal costs cannot be mixed into one table")
        chances = [w * table.probabilities for w, table in zip(self.weights, self.tables, strict=True)]
        return TabularMDP.from_outcomes(
            first.row_states[row], first.action_ids[row],
            np.concatenate([table.next_states for table in self.tables]), np.concatenate(chances), **values,
            done=np.concatenate([table.done for table in self.tables]), num_states=first.num_states,
            horizon=first.horizon, discount=first.discount, start=first.start,
            state_labels=first.state_labels, action_labels=first.action_labels, name=self.name,
            notes=(*self.notes, "a model is drawn anew at each step"),
            **({f"terminal_{first.sense}s": first.signed(terminal[0])} if terminal.any() else {}),
        )  # fmt: skip

    def with_options(
        self, *, horizon: int | None = None, discount: float | None = None, start: ArrayLike | str | None = None
    ) -> Self:
        """Return a copy with another horizon, discount or start state."""
        given: Any = {"horizon": horizon, "discount": discount, "start": start}
        if isinstance(start, str):
            given["start"] = self.tables[0].find_state(start)
        changed = {key: value for key, value in given.items() if value is not None}
        tables = [table.with_options(**changed) for table in self.tables]
        return self.of(tables, self.weights, cost_seen=self.cost_seen, name=self.name, notes=self.notes)

    def __repr__(self) -> str:
        return f"Alternatives({len(self.tables)} models of {self.tables[0]!r})"


def _joint(models: tuple[TabularMDP, ...], name: str, notes: tuple[str, ...]) -> TabularMDP:
    """Return the table of (model, state), in which no step leads from one model to another."""
    first, count = models[0], len(models)
    shift = np.repeat(np.arange(count) * first.num_states, [table.num_outcomes for table in models])
    has_steps = any(table.step_losses.size for table in models)
    none = np.zeros((first.horizon, first.num_rows))
    steps = [table.step_losses if table.step_losses.size else none for table in models]
    return TabularMDP(
        action_offsets=_offsets([table.action_offsets for table in models]),
        action_ids=np.tile(first.action_ids, count),
        outcome_offsets=_offsets([table.outcome_offsets for table in models]),
        probabilities=np.concatenate([table.probabilities for table in models]),
        next_states=(np.concatenate([table.next_states for table in models]) + shift).astype(np.int32),
        losses=np.concatenate([table.losses for table in models]),
        done=np.concatenate([table.done for table in models]),
        step_losses=np.concatenate(steps, axis=1) if has_steps else first.step_losses,
        terminal_losses=np.concatenate([table.terminal_losses for table in models]),
        horizon=first.horizon, discount=first.discount, start=first.start, sense=first.sense,
        state_labels=tuple(f"{table.state_name(s)} ({k})" for k, table in enumerate(models)
                           for s in range(first.num_states)),
        action_labels=first.action_labels, name=name, notes=notes,
    )  # fmt: skip


def _offsets(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return offsets one after the other."""
    return np.append(0, np.cumsum(np.concatenate([np.diff(part) for part in parts]))).astype(np.int64)
