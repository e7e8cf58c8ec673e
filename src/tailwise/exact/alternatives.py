r"""A fixed plan against models of which one is true, unknown which, for the whole episode.

The ERM of a fixed plan is exact: with w_m the weight of model m and V^m the plan's ERM in it,

    ERM = ln(sum over m of w_m exp(beta V^m)) / beta.

The best fixed plan is found by coordinate descent (Su & Petrik, 2023, for the mean). From the start forward, L_h(m, s)
is the logarithm of what leads model m to state s at step h under the plan, each path weighed by exp(beta paid).
Backward, each step and state takes the action of the least ERM at beta_h over the models' own ``Q^m_h(s, a)``, weighed
by exp(L_h(m, s)): the exact optimum as long as the other decisions stay. The value never rises, and what is found is a
local optimum; no plan, not even one that learns which model is true, is better than knowing it from the start, which
bounds the gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, log_of
from tailwise._results import number
from tailwise.errors import OptionError
from tailwise.exact.adversary import FearedModel
from tailwise.exact.distributions import return_distribution
from tailwise.exact.induction import backward_induction
from tailwise.exact.policy import Policy
from tailwise.exact.sweeps import Sweeps, chosen_of, least_of
from tailwise.exact.tails import Limits
from tailwise.models import Alternatives, TabularMDP
from tailwise.risk import ERM, Expectation, Objective
from tailwise.risk.distribution import ReturnDistribution
from tailwise.risk.entropic import row_erms, weighted_erm
from tailwise.search.plan import Origin, Plan, StopReason

_MOST_STARTS = 8
_MOST_SWEEPS = 200
_WIDE = 600.0  # of logarithms of weights: beyond, some would be 0


@dataclass(frozen=True, eq=False)
class FixedPlan(Policy):
    """A plan that acts on state and step alone, whichever of the alternatives is true.

    ``mdp`` is one of the models; ``values`` and ``q_values`` weigh them by what led there.

    Attributes
    ----------
    alternatives : Alternatives
        The models.
    """

    alternatives: Alternatives = field(default=None)  # type: ignore[assignment]  # the solver always gives it
    _logs: Floats = field(default=None, repr=False)  # type: ignore[arg-type]  # (H, models, S)
    _after: Floats = field(default=None, repr=False)  # type: ignore[arg-type]  # (H + 1, models, S)

    def _row_values(self, step: int) -> Floats:
        level = self.beta * self.mdp.discount**step
        return _mixed_rows(self.mdp, _rows_of(self.alternatives, step, self._after, self.beta), self._logs[step], level)

    @property
    def model_values(self) -> Floats:
        """The plan's ERM in each of the models: float64, shape (models,)."""
        return np.asarray(self.mdp.signed(self._after[0, :, self.mdp.start]))

    @property
    def feared_weights(self) -> Floats:
        """How likely each model is to a neutral plan that does the same: float64, shape (models,)."""
        logs = log_of(self.alternatives.weights) + self.beta * self._after[0, :, self.mdp.start]
        shares = np.exp(logs - logs.max())
        return np.asarray(shares / shares.sum())

    @property
    def feared_model(self) -> FearedModel:
        """There is none of the same states: what is feared is a model, see :attr:`feared_weights`."""
        raise OptionError("a fixed plan over alternatives fears one of them more than the others: see feared_weights")

    def distribution(self, action: Any = None) -> ReturnDistribution:
        """Return the distribution of the total from the start, of the plan or with another action first."""
        policy = self._policy
        if action is not None:
            first = self.mdp.action_labels.index(action) if action in self.mdp.action_labels else int(action)
            policy = policy.copy()
            policy[0, self.mdp.start] = first
        return return_distribution(self.alternatives, policy, tolerance=None)

    def __call__(self, history: Any, step: int) -> Any:
        """Return the action after what was observed: in the last state seen."""
        return self.act(history[-1][1] if history else self.start, step)

    def rooted(self, state: int, step: int) -> Policy:
        """Return the plan itself at its start."""
        if (state, step) != (self.mdp.start, 0):
            raise OptionError("a fixed plan for several models plans from the start alone; use act() elsewhere")
        return self

    def plan(self, state: Any = None, step: int = 0, *, distributions: bool = True) -> Plan:
        """Return the first decision: a row per action, with its exact value; see :meth:`Policy.plan`."""
        found = super().plan(state, step, distributions=distributions)
        shares, weights = self.feared_weights, self.alternatives.weights
        worst = int(np.argmax(shares - weights))
        notes = [f"one of {weights.size} models is true, unknown which; the plan is fixed, and does not learn which"]
        if self.gap:
            notes.append(f"no plan is better by more than {number(self.gap, 3)}, not even one that knew the model")
        if self.beta > 0.0 and shares[worst] > weights[worst]:
            notes.append(f"it acts as if alternative {worst} had {shares[worst]:.1%} instead of {weights[worst]:.1%}")
        own, settings = self.alternatives, {"objective": self.objective.words}
        return replace(
            found, notes=tuple(notes), method="coordinate descent over decisions, for all models at once",
            origin=Origin(own, settings, "none is needed"),
            stopped=StopReason.ITERATIONS if self.gap else StopReason.PROVEN,
            nodes=int(self.policy.size) * weights.size,
            interval_meaning=f"the exact {self.objective.name} of the action, followed by the plan, over all models",
        )  # fmt: skip


def solve_alternatives(model: Alternatives, objective: Objective, limits: Limits) -> FixedPlan:
    """Return a fixed plan of least ERM over all models; ``gap`` is what knowing the model could gain at most."""
    if not isinstance(objective, (ERM, Expectation)):
        raise OptionError(
            f"there is no solver for the {objective.words} of a fixed plan over alternatives; there is for "
            "ERM(beta) and Expectation(); alternatives.mixed() is a table, with less risk, that all solvers take"
        )
    for table in model.tables:
        table.require_sound()
    beta = float(getattr(objective, "beta", 0.0))
    alone = [backward_induction(table, beta, threads=limits.threads) for table in model.tables]
    best_known = np.array([float(table.signed(p.value)) for table, p in zip(model.tables, alone, strict=True)])
    bound = _over_models(best_known, model.weights, beta)
    order = np.argsort(-model.weights * np.exp(np.clip(beta * (best_known - best_known.max()), -700.0, 0.0)))
    found: tuple[float, Any] | None = None
    for k in order[:_MOST_STARTS].tolist():
        made = _descended(model, alone[k].policy.copy(), beta)
        if found is None or made[0] < found[0] - 1e-12 * abs(found[0]):
            found = made
    assert found is not None
    value, (policy, logs, after) = found
    first, starts = model.tables[0], np.empty((after.shape[0], model.tables[0].num_states))
    for h in range(first.horizon + 1):
        starts[h] = _mixed_states(after[h], logs[min(h, first.horizon - 1)], beta * first.discount**h)
    starts[0, first.start] = value
    policy.setflags(write=False)
    gap = value - bound
    return FixedPlan(
        objective, first, float(first.signed(value)), gap if gap > 1e-9 * max(1.0, abs(value)) else 0.0, beta=beta,
        values=np.asarray(first.signed(starts)), policy=policy, alternatives=model, _logs=logs, _after=after,
    )  # fmt: skip


def _descended(model: Alternatives, policy: NDArray[np.int32], beta: float) -> tuple[float, Any]:
    """Return the value and the parts of the plan that sweeps lead to, from one to begin with."""
    first, best = model.tables[0], math.inf
    for _ in range(_MOST_SWEEPS):
        logs = _reached(model, first.rows_of(policy), beta)
        after, changed = _improved(model, policy, logs, beta)
        value = _over_models(after[0, :, first.start], model.weights, beta)
        if not changed or not value < best - 1e-13 * abs(best):
            break
        best = value
    logs = _reached(model, first.rows_of(policy), beta)
    return value, (policy, logs, after)


def _improved(model: Alternatives, policy: NDArray[np.int32], logs: Floats, beta: float) -> tuple[Floats, bool]:
    """Improve a policy in place, from the last step to the first; return its values in each model."""
    first, changed = model.tables[0], False
    after = np.empty((first.horizon + 1, len(model.tables), first.num_states))
    after[-1] = [table.terminal_losses for table in model.tables]
    for h in range(first.horizon - 1, -1, -1):
        rows = _rows_of(model, h, after, beta)
        scores = _mixed_rows(first, rows, logs[h], beta * first.discount**h)
        least = least_of(first, scores)
        own = first.rows_of(policy[h : h + 1])[0]
        held = np.where(own >= 0, scores[own], np.inf)
        better = held > least + 1e-11 * np.maximum(1.0, np.abs(least))
        policy[h][better] = chosen_of(first, scores, least, np.abs(scores))[0][better]
        changed |= bool(better.any())
        own = first.rows_of(policy[h : h + 1])[0]
        after[h] = np.where(own >= 0, rows[:, own], np.inf)
    return after, changed


def _rows_of(model: Alternatives, h: int, after: Floats, beta: float) -> Floats:
    """Return the ERM of each row at a step in each model: float64, shape (models, rows)."""
    found = np.empty((len(model.tables), model.tables[0].num_rows))
    spare, unused = np.empty(after.shape[2]), np.empty(after.shape[2], np.int32)
    for m, table in enumerate(model.tables):
        Sweeps(table, beta)(h, np.ascontiguousarray(after[h + 1, m]), found[m], spare, unused)
    return found


def _mixed_rows(mdp: TabularMDP, rows: Floats, logs: Floats, level: float) -> Floats:
    """Return the ERM over models of each row, weighed by what led to its state."""
    return _mixed_states(rows, logs[:, mdp.row_states], level)


def _mixed_states(values: Floats, logs: Floats, level: float) -> Floats:
    """Return the ERM over models of each column of (models, n), with such logarithms of weights."""
    logs = logs - logs.max(axis=0)
    endless = ((values == np.inf) & (logs > -np.inf)).any(axis=0)
    values = np.where(np.isfinite(values), values, 0.0)
    known = np.where(logs > -np.inf, logs, 0.0)
    if level == 0.0 or known.min() > -_WIDE:
        found = row_erms(values.T, level, np.exp(logs).T)
    else:  # some would be too small to weigh
        tilted = logs + level * values
        top = tilted.max(axis=0)
        sums = np.exp(tilted - top).sum(axis=0)
        found = (top + np.log(sums) - np.log(np.exp(logs).sum(axis=0))) / level
    return np.where(endless, np.inf, found)


def _over_models(values: Floats, weights: Floats, beta: float) -> float:
    held = weights > 0.0
    return math.inf if (values[held] == np.inf).any() else float(weighted_erm(values[held], beta, weights[held]))


def _reached(model: Alternatives, rows: Ints, beta: float) -> Floats:
    """Return L_h(m, s): float64, shape (H, models, S); the models' own weights where the plan does not come."""
    first = model.tables[0]
    own = log_of(model.weights)
    logs = np.full((first.horizon, len(model.tables), first.num_states), -np.inf)
    logs[0, :, first.start] = own
    for m, table in enumerate(model.tables):
        chance, rows_of = log_of(table.probabilities), table.outcome_rows
        for h in range(first.horizon - 1):
            mass = np.full(table.num_rows, -np.inf)
            at = np.flatnonzero((logs[h, m] > -np.inf) & (rows[h] >= 0))
            mass[rows[h, at]] = logs[h, m, at] + (
                beta * table.discount**h * table.step_losses[h, rows[h, at]] if table.step_losses.size else 0.0
            )
            flow = mass[rows_of] + chance + beta * table.discount**h * table.losses
            goes_on = np.flatnonzero((flow > -np.inf) & ~table.done)
            np.logaddexp.at(logs[h + 1, m], table.next_states[goes_on], flow[goes_on])
    lost = (logs == -np.inf).all(axis=1)
    return np.where(lost[:, None, :], own[None, :, None], logs)
