"""The policy of a problem whose state is not seen: what to do for each tilted belief, or each history."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailwise._arrays import Floats, Ints, log_of, ranges
from tailwise._progress import Progress
from tailwise._results import amounts, number
from tailwise._validate import integer, real
from tailwise.errors import OptionError, StateError
from tailwise.exact.alpha_vectors import (
    Belief,
    Branch,
    backed_up,
    belief_after,
    belief_erm,
    belief_unseen,
    best_actions,
    branches_of,
    key_of,
    normalised,
    tilted,
)
from tailwise.exact.belief_levels import Level, solved_levels
from tailwise.exact.distributions import collected, distribution_of, merged
from tailwise.exact.policy import Policy, exact_row
from tailwise.exact.tails import Limits
from tailwise.models.partly_observed import hidden_actions
from tailwise.models.pomdp_table import PomdpTable, belief_of
from tailwise.risk import ERM, Expectation, Objective
from tailwise.risk.distribution import ReturnDistribution
from tailwise.search.plan import Origin, Plan, StopReason

MOST_PLANS = 100_000  # tilted beliefs, or conditional plans to look at
_MOST_ATOMS = 200_000


@dataclass(frozen=True, eq=False)
class BeliefPolicy(Policy):
    """The optimum of a problem whose state is not seen. All numbers are in the model's own sense.

    It acts on a belief, or on what was done and observed. Fields that it has beside those of :class:`tailwise.Policy`:

    Attributes
    ----------
    pomdp : PomdpTable
        The table that was solved.
    levels, branches : tuple
        The conditional plans that were found, by step, and the outcomes of each action.
    most : int
        Most tilted beliefs that are told apart, or conditional plans that are looked at.
    """

    pomdp: PomdpTable = None  # type: ignore[assignment]  # always given
    levels: tuple[Level, ...] = field(default=(), repr=False)
    branches: tuple[Branch, ...] = field(default=(), repr=False)
    most: int = MOST_PLANS
    _others: dict[Any, BeliefPolicy] = field(default_factory=dict, repr=False)

    @property
    def start(self) -> Belief:
        """What is known before the first decision."""
        return self._belief(self.pomdp.start_belief, 0)

    def _belief(self, probabilities: Floats, step: int) -> Belief:
        return Belief(normalised(log_of(probabilities)), probabilities, step, self.pomdp.table.state_labels)

    def update(
        self,
        belief: Belief | ArrayLike,
        action: Any,
        observation: Any,
        cost: float | None = None,
        *,
        step: int | None = None,
    ) -> Belief:
        """Return what is known after an action and what was then observed.

        Parameters
        ----------
        belief : Belief or array_like of float, shape (S,)
            What was known before.
        action : int or str
            Id or label of what was done.
        observation : int, str or object
            What was observed: its index, its label, or the simulator's own.
        cost : float, optional
            What the step cost (or earned); needed where the model says that it is seen.
        step : int, optional
            Step at which the action was taken, where ``belief`` is an array; 0 if not given.

        Returns
        -------
        Belief

        Raises
        ------
        StateError
            If this cannot be observed.
        OptionError
            If the cost is seen and not given.
        """
        known = self._known(belief, step)
        if known.step >= self.pomdp.horizon:
            raise StateError(f"step {known.step} is the horizon: nothing is observed any more")
        place, seen = self._action_id(action), self.pomdp.find_observation(observation)
        return belief_after(self.pomdp, self.branches[place], known, place, self._level(known), seen, cost)

    def unseen(self, belief: Belief | ArrayLike, action: Any, *, step: int | None = None) -> Belief:
        """Return what is known after an action of which nobody knows what was observed after it.

        Parameters
        ----------
        belief, action, step
            As for :meth:`update`.

        Returns
        -------
        Belief

        Raises
        ------
        StateError
            If every episode ends with the action.
        """
        known = self._known(belief, step)
        place = self._action_id(action)
        return belief_unseen(self.pomdp, self.branches[place], known, place, self._level(known))

    def _level(self, known: Belief) -> float:
        """Return the risk level of a belief's step."""
        return self.beta * float(self.pomdp.discount) ** known.step

    @property
    def _spoken(self) -> Any:
        return self.pomdp if self.model is None else self.model

    def _action_id(self, action: Any) -> int:
        if self.model is not None:
            listed = list(self._model_actions)
            if action in listed:
                return listed.index(action)
        return self.pomdp.find_action(action)

    @cached_property
    def _model_actions(self) -> Sequence[Any]:
        return hidden_actions(self.model)

    def _named(self, position: int, state: Any = None) -> Any:
        return position if self.model is None else self._model_actions[position]

    def _known(self, belief: Any, step: int | None) -> Belief:
        """Return a belief given as such, as probabilities, as a history, or not at all (the start)."""
        if belief is None:
            belief = self.start
        if isinstance(belief, Belief):
            if step not in (None, belief.step):
                raise StateError(f"the belief is that of step {belief.step}, not {step}")
            return belief
        if isinstance(belief, (list, tuple)) and all(isinstance(item, (list, tuple)) for item in belief):
            known = self.start
            for item in belief:
                if len(item) not in (2, 3):
                    raise StateError(
                        f"a history is a list of (action, observation) or (action, observation, cost), not {item!r}"
                    )
                known = self.update(known, *item)
            if step not in (None, known.step):
                raise StateError(f"a history of {known.step} steps leads to step {known.step}, not {step}")
            return known
        given = belief_of(belief, self.pomdp.table)
        if not (given >= 0.0).all() or not abs(given.sum() - 1.0) <= 1e-6:
            raise StateError(f"a belief must hold probabilities that sum to 1, not {belief!r}")
        return self._belief(given / given.sum(), 0 if step is None else step)

    def act(self, state: Any = None, step: int | None = None, accrued: float = 0.0) -> Any:
        """Return the optimal action for what is known.

        Parameters
        ----------
        state : Belief, array_like or list of tuples, optional
            What is known: a belief (as :meth:`update` returns it), probabilities of the states at ``step`` of someone
            to whom nothing was paid unseen, or the history so far, a list of (action, observation), or of (action,
            observation, cost) where the cost is seen. The start if not given.
        step : int, optional
            Step h of the decision; that of the belief or the history if not given.
        accrued : float
            What was paid does not matter to an ERM.

        Returns
        -------
        int or object
            The action's id, or the simulator's own action.

        Raises
        ------
        StateError
            If there is no such step, or the history cannot be.
        """
        real(accrued, "accrued")
        known = self._known(state, step)
        return self._named(int(self._values_at(known)[1]))

    def _values_at(self, known: Belief) -> tuple[Floats, int]:
        """Return the value of each action (as a loss), and the best."""
        integer(known.step, "step", low=0, high=self.pomdp.horizon - 1, hint="no decision is left at the horizon")
        level = self.levels[known.step] if known.step < len(self.levels) else None
        if level is not None and level.keys is not None and level.options is not None:
            place = level.keys.get(key_of(known.log_tilted))
            if place is not None:
                return level.options[place], int(level.actions[place])
        if level is not None and level.keys is None:
            values = belief_erm(level.values, known.log_tilted, self._level(known))
            options = np.array([self._option(known, a) for a in range(self.pomdp.num_actions)])
            return options, int(best_actions(options[None, :], abs(float(values.min())))[0])
        other = self._rooted_at(known)
        first = other.levels[0]
        if first.options is not None:
            return first.options[0], int(first.actions[0])
        return other._values_at(replace(known, step=0))

    def _option(self, known: Belief, action: int) -> float:
        """Return the value of one action at a belief, where the next level has every plan that is best somewhere."""
        beta, level = self._level(known), self._level_after(known)
        later = self.pomdp.table.terminal_losses[None, :] if level is None else level.values
        rows = backed_up(self.branches[action], later, self._next_plans(known, action), beta, self.pomdp.discount)
        return float(belief_erm(rows[0], known.log_tilted, beta))

    def _level_after(self, known: Belief) -> Level | None:
        return self.levels[known.step + 1] if known.step + 1 < len(self.levels) else None

    def _rooted_at(self, known: Belief) -> BeliefPolicy:
        """Return the solution of what is left, from a belief that the start does not reach."""
        key = (known.step, key_of(known.log_tilted))
        if key not in self._others:
            model = self.pomdp.with_options(horizon=self.pomdp.horizon - known.step, start=known.probabilities)
            beta = self._level(known)
            self._others[key] = _solved(model, ERM(beta), known.log_tilted, self.most, None)
        return self._others[key]

    def index(self, state: Any, step: int = 0) -> int:
        """Raise ``OptionError``: the policy knows no states."""
        raise OptionError(self._unseen)

    @property
    def _policy(self) -> NDArray[np.int32]:
        raise OptionError(self._unseen)

    @property
    def _unseen(self) -> str:
        return (
            f"the state of {self.pomdp.name} is not seen: there is no action or value of a state; use act(belief or "
            "history), value_at() and plan()"
        )

    def value_at(self, state: Any = None, step: int | None = None) -> float:
        """Return the optimal risk of what is still to come, for what is known (see :meth:`act`)."""
        return float(self.pomdp.signed(self._values_at(self._known(state, step))[0].min()))

    def distribution(self, action: Any = None) -> ReturnDistribution:
        """Return the exact distribution of the total, of the policy or with another action first.

        Parameters
        ----------
        action : int, str or object, optional
            The first action.

        Raises
        ------
        OptionError
            If there are over 200,000 pairs of hidden state and total.
        """
        known = self.start
        first = self._values_at(known)[1] if action is None else self._action_id(action)
        table, discount = self.pomdp.table, self.pomdp.discount
        plans = self._next_plans(known, first)
        states = np.flatnonzero(known.probabilities)
        plan, paid, mass = np.zeros(states.size, np.int64), np.zeros(states.size), known.probabilities[states]
        ended: list[tuple[Floats, Floats]] = []
        factor = 1.0
        for h in range(self.pomdp.horizon):
            actions, children = (
                (np.array([first]), plans) if h == 0 else (self.levels[h].actions, self.levels[h].children)
            )
            parts = []
            for a in np.unique(actions[plan]).tolist():
                mine = np.flatnonzero(actions[plan] == a)
                branch = self.branches[a]
                ends = np.append(branch.starts, branch.states.size)
                _, owner, entry = ranges(ends[states[mine]], ends[states[mine] + 1])
                owner, signal = mine[owner], branch.signals[entry]
                total, weight = paid[owner] + factor * branch.losses[entry], mass[owner] * branch.chances[entry]
                over, keep = signal < 0, signal >= 0
                ended.append((total[over], weight[over]))
                parts.append(
                    (children[plan[owner[keep]], signal[keep]], branch.targets[entry[keep]], total[keep], weight[keep])
                )
            plan, states, paid, mass = (np.concatenate(column) for column in zip(*parts, strict=True))
            cells, paid, mass = merged(plan * table.num_states + states, paid, mass)
            plan, states = np.divmod(cells, table.num_states)
            if paid.size > _MOST_ATOMS:
                raise OptionError(
                    f"over {_MOST_ATOMS:,} pairs of hidden state and total at step {h + 1}; sample with "
                    "tailwise.evaluate"
                )
            factor *= discount
        ended.append((paid + factor * table.terminal_losses[states], mass))
        return distribution_of(table, *collected(ended))

    def _next_plans(self, known: Belief, action: int) -> Ints:
        """Return with which plan each observation after an action goes on, shape (1, Z)."""
        beta, level, found = self._level(known), self._level_after(known), list[int]()
        for after in tilted(self.branches[action], known.log_tilted[None, :], beta):
            place = 0
            if level is not None and np.isfinite(after).any():
                logs = normalised(after)[0]
                if level.keys is not None:
                    if key_of(logs) not in level.keys:
                        raise OptionError(
                            "rounding parts two tilted beliefs that are one; sample with tailwise.evaluate"
                        )
                    place = level.keys[key_of(logs)]
                else:
                    place = int(np.argmin(belief_erm(level.values, logs, beta * self.pomdp.discount)))
            found.append(place)
        return np.array([found or [0]], dtype=np.int64)

    def plan(self, state: Any = None, step: int | None = None, *, distributions: bool = True) -> Plan:
        """Return the decision for what is known (see :meth:`act`): a row per action, with its exact value.

        Parameters
        ----------
        state, step : optional
            What is known, and when.
        distributions : bool, default True
            Find the distribution of the total after each first action, where that is not too much.

        Returns
        -------
        Plan
        """
        begun = time.perf_counter()
        known = self._known(state, step)
        options, best = self._values_at(known)
        own = known.step == 0 and key_of(known.log_tilted) == key_of(self.start.log_tilted)
        laws = [self._law_after(self._named(a)) if distributions and own else None for a in range(options.size)]
        rows = tuple(
            exact_row(self._named(a), self.pomdp.action_name(a), float(self.pomdp.signed(value)), law)
            for a, (value, law) in enumerate(zip(options, laws, strict=True))
        )
        tied = options <= max(options[best], options.min() + 1e-12 * abs(options.min()))
        root_beta, is_seen = self._level(known), self.pomdp.cost_seen
        seen = "is seen" if is_seen else "is not seen, so that the belief is tilted by what may have been paid"
        count = sum(level.actions.size for level in self.levels)
        return Plan(
            action=rows[best].action, label=rows[best].label, value=rows[best].erm, rows=rows, state=known,
            step=known.step, beta=self.beta, root_beta=root_beta, sense=self.pomdp.sense, iterations=0,
            simulator_steps=0, nodes=count,
            bytes=sum(level.values.nbytes + level.children.nbytes for level in self.levels),
            seconds=time.perf_counter() - begun, stopped=StopReason.PROVEN,
            interval_meaning=f"the exact {self.objective.name} of the action, followed by optimal ones",
            method="alpha vectors over the tilted belief, exactly", objective=ERM(root_beta),
            proven=bool(self.gap == 0.0),
            optimal_actions=tuple(row.action for row, ties in zip(rows, tied, strict=True) if ties), policy=self,
            notes=(f"the state is not seen: actions follow from what was observed; what a step costs {seen}",),
            origin=Origin(self._spoken, {"objective": self.objective.words}, "none is needed"),
        )  # fmt: skip

    def to_dict(self) -> dict[str, object]:
        """Return what was found as plain values, ready for ``json.dumps``."""
        first = self._values_at(self.start)[1]
        return {
            "objective": self.objective.words, "sense": self.pomdp.sense, "action": self._named(first),
            "label": self.pomdp.action_name(first), "value": self.value, "gap": self.gap, "beta": self.beta,
        }  # fmt: skip

    def __str__(self) -> str:
        plan = self.plan(distributions=False)
        lines = [
            f"take {plan.label} in {self.pomdp.name}: {self.objective.words} is {number(self.value, 9)} "
            f"({amounts(self.pomdp.sense)}; exact), in {plan.state}"
        ]
        lines += [f"  {row.label:>12}  {plan.measure} {number(row.erm, 9)}" for row in plan.rows[:16]]
        return "\n".join(lines)


def solve_hidden(
    model: PomdpTable, objective: Objective, limits: Limits, most: int = MOST_PLANS, original: Any = None
) -> BeliefPolicy:
    """Return the optimal policy of a problem whose state is not seen, for an ERM or the mean."""
    if not isinstance(objective, (ERM, Expectation)) or not math.isfinite(getattr(objective, "beta", 0.0)):
        raise OptionError(
            f"there is no exact solver for the {objective.words} where the state is not seen; there is for ERM(beta) "
            "and Expectation()"
        )
    model.require_sound()
    return _solved(model, objective, log_of(model.start_belief), most, original, limits.progress)


def _solved(
    model: PomdpTable, objective: Objective, log_start: Floats, most: int, original: Any, progress: Progress = None
) -> BeliefPolicy:
    beta, branches = float(getattr(objective, "beta", 0.0)), branches_of(model)
    levels = solved_levels(model, branches, beta, log_start, most=most, progress=progress)
    value = float(belief_erm(levels[0].values, normalised(log_start), beta).min())
    return BeliefPolicy(
        objective=objective, mdp=model.table, value=float(model.signed(value)), beta=beta, model=original, pomdp=model,
        levels=tuple(levels), branches=tuple(branches), most=most,
    )  # fmt: skip
