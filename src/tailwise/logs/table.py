"""A table that was learned from a log, and what it rests on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints
from tailwise._validate import integer
from tailwise.formats.kinds.arrays import write_npz
from tailwise.logs.counts import Coverage
from tailwise.logs.episodes import Episodes
from tailwise.logs.priors import Prior, TablePrior
from tailwise.models import Alternatives, TabularMDP
from tailwise.risk.objectives import Robust, RobustL1

START = "(start)"
ARRAYS = ("counts", "pseudo", "tried", "pool", "pool_counts", "pool_states", "within", "guessed", "weights")
STEPS = ("first", "states", "actions", "next_states", "losses", "done")
_WORDS = ("sense", "num_states", "num_actions", "state_labels", "action_labels", "source", "notes")
LEARNED = "learned_"


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a learned table rests on; one entry per outcome of the table, where not said otherwise.

    Attributes
    ----------
    episodes : Episodes
        The log.
    prior : Prior
        What was believed before.
    counts : ndarray of float64, shape (outcomes,)
        How often each outcome was seen.
    pseudo : ndarray of float64, shape (outcomes,)
        What the prior adds: its observations of each outcome.
    tried : ndarray of int64, shape (rows,)
        How often each pair of state and action was tried, ends unknown included.
    pool : ndarray of int64, shape (outcomes,)
        Of the pooled prior: the group (state, target) that the outcome belongs to, or -1.
    pool_counts : ndarray of float64, shape (groups,)
        Parameters of the posterior of what a state's actions share.
    pool_states : ndarray of int64, shape (groups,)
        State of each group.
    within : ndarray of float64, shape (outcomes,)
        Share of its target's prior that is the outcome's: costs of one target.
    guessed : ndarray of bool, shape (outcomes,)
        Whether the cost is a guess from other transitions, with several values.
    weights : ndarray of float64, shape (k, 2)
        Of the pooled prior: weights that may be meant, and how likely each is; that of ``prior`` is the likeliest.
    learn : callable
        Makes a table from other episodes in the same way: :func:`learn_model`.
    promises : callable
        Says what a plan on the table promises: :func:`promise`.
    posterior : callable
        Draws tables from the posterior: from a table, rows and a seed to an object with ``draw()``.
    """

    episodes: Episodes
    prior: Prior
    counts: Floats
    pseudo: Floats
    tried: Ints
    pool: Ints
    pool_counts: Floats
    pool_states: Ints
    within: Floats
    guessed: NDArray[np.bool_]
    weights: Floats
    learn: Callable[..., LearnedTable]
    promises: Callable[..., Any]
    posterior: Callable[..., Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class LearnedTable(TabularMDP):
    """A table at the posterior mean of a log, which keeps its counts; made by :func:`learn_model`."""

    evidence: Evidence = field(default=None, repr=False)  # type: ignore[assignment]  # learn_model always gives it

    @cached_property
    def coverage(self) -> Coverage:
        """How often each pair of state and action was tried (see :class:`Coverage`)."""
        return Coverage.of(self, self.evidence.episodes)

    @property
    def steps_before(self) -> int:
        """Steps before the log's first: 1 where a state "(start)" leads to those in which episodes begin, else 0."""
        return int(START in self.state_labels)

    def comparable(self, log: Episodes) -> NDArray[np.bool_]:
        """Return which episodes begin where the model does, and come to an end or to its horizon: bool, shape (k,)."""
        are_whole = log.ends | (log.lengths >= self.horizon - self.steps_before)
        begin_here = self.steps_before == 1 or log.states[log.first[:-1]] == self.start
        return np.asarray(are_whole & begin_here)

    def told_of(self, plan: Any) -> tuple[str, ...]:
        """Return what a plan's reader must know: where it leans on pairs of state and action that were never tried."""
        policy = plan.policy
        if policy is None or getattr(policy, "policy", None) is None or policy.mdp is not self or self.horizon is None:
            state, action = plan.state, plan.action
            if not isinstance(state, (int, np.integer)) or not isinstance(action, (int, np.integer)):
                return ()
            if not self.coverage.reached[state] or self.coverage.counts[state, action] > 0:
                return ()
            return (f"{plan.label} was never tried in {self.state_name(int(state))}: what it does is a guess",)
        known = self.__dict__.get("_told")
        if known is None or known[0] is not policy:
            pairs = self.coverage.under(policy, below=1)
            shown = "; ".join(map(str, pairs[:3])) + ("; ..." if len(pairs) > 3 else "")
            said = f"the plan leans on {len(pairs):,} pairs of state and action that were never tried: {shown}"
            known = self.__dict__["_told"] = policy, (said,) if pairs else ()
        found: tuple[str, ...] = known[1]
        return found

    def saved_members(self) -> dict[str, object]:
        """Return what a saved file keeps beside the table: counts, prior and log."""
        found, log, prior = self.evidence, self.evidence.episodes, self.evidence.prior
        members = {name: getattr(found, name) for name in ARRAYS} | {name: getattr(log, name) for name in STEPS}
        said = {one.name: getattr(prior, one.name) for one in fields(prior) if one.name != "table"}
        words = {"prior": {"kind": type(prior).__name__, **said}, "log": {name: getattr(log, name) for name in _WORDS}}
        members["words"] = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)
        if isinstance(prior, TablePrior):
            with TemporaryDirectory(prefix="tailwise-") as folder:
                write_npz(prior.table, Path(folder) / "prior.npz")
                members["prior"] = np.frombuffer((Path(folder) / "prior.npz").read_bytes(), dtype=np.uint8)
        return {LEARNED + name: np.ascontiguousarray(array) for name, array in members.items()}

    def draws(self, count: int = 20, *, seed: int = 0) -> Alternatives:
        """Return models drawn from the posterior, one of which is true for the whole episode.

        Parameters
        ----------
        count : int, default 20
            How many.
        seed : int, default 0
            Of the draws.
        """
        posterior = self.evidence.posterior(self, np.arange(self.num_rows), seed)
        bare = TabularMDP(**{part.name: getattr(self, part.name) for part in fields(TabularMDP)})
        found = [replace(bare, probabilities=posterior.draw()) for _ in range(integer(count, "count", low=1))]
        return Alternatives.of(found)

    def credible_radii(self, objective: Robust, *, draws: int = 200, seed: int = 0) -> Floats:
        """Return the radius of each row's ball that holds the objective's ``confidence`` of the row's posterior.

        Parameters
        ----------
        objective : RobustKL or RobustL1
            With a confidence.
        draws : int, default 200
            Models drawn from the posterior.
        seed : int, default 0
            Of the draws.

        Returns
        -------
        ndarray of float64, shape (rows,)
        """
        posterior = self.evidence.posterior(self, np.arange(self.num_rows), seed)
        first, found = self.outcome_offsets[:-1], np.empty((draws, self.num_rows))
        for k in range(draws):
            drawn = posterior.draw()
            if isinstance(objective, RobustL1):
                apart = np.abs(drawn - self.probabilities)
            else:
                with np.errstate(divide="ignore", invalid="ignore"):
                    apart = np.where(drawn > 0.0, drawn * np.log(drawn / self.probabilities), 0.0)
            found[k] = np.add.reduceat(apart, first)
        radii: Floats = np.maximum(np.quantile(found, objective.confidence or 0.0, axis=0), 0.0)
        return radii

    def promise(self, policy: Any, **options: Any) -> Any:
        """Return what a fixed plan or policy promises on this table; see :func:`tailwise.logs.promise`."""
        return self.evidence.promises(self, policy, **options)
