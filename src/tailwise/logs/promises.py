"""What a fixed plan promises on a learned table: an interval over the models that the log leaves possible."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailwise._arrays import Floats
from tailwise._results import number, plain
from tailwise._validate import integer, real
from tailwise.errors import ModelError, OptionError, TailwiseError
from tailwise.logs.counts import PairCount
from tailwise.logs.episodes import Episodes
from tailwise.logs.off_policy import OffPolicy, off_policy
from tailwise.logs.posterior import Posterior, interval_of, objective_of
from tailwise.logs.table import LearnedTable
from tailwise.risk import Expectation, Objective
from tailwise.risk.measures import Interval
from tailwise.risk.objectives import Robust, as_objective

_RESAMPLES = 400
_HELD_OUT = 0.25


@dataclass(frozen=True)
class Logged:
    """What the logging policy itself achieved.

    Attributes
    ----------
    value : float
        The objective of the logged totals.
    interval : Interval
        From resampling episodes, at the promise's confidence.
    episodes : int
        Episodes that count: those that begin where the model begins, and came to an end or to the horizon.
    """

    value: float
    interval: Interval
    episodes: int


@dataclass(frozen=True, eq=False)
class Promise:
    """What a fixed plan promises; all numbers are in the model's own sense.

    Attributes
    ----------
    objective : Objective
        What is promised.
    value : float
        On the posterior mean. After few episodes it may lie outside of the interval: a rare bad outcome, of which most
        drawn models hold next to nothing, counts in the mean all the same, and draws count that the prior's weight is
        not known. The lines then say so.
    interval : Interval
        Of the objective of this fixed plan over models drawn from the posterior.
    confidence : float
        Share of the drawn models that lie within.
    draws : ndarray of float64
        The objective on each drawn model.
    never_tried : tuple of PairCount
        Pairs of state and action that the plan comes to take and the log never tried, most often taken first.
    rarely_tried : tuple of PairCount
        Those that it tried, but less than 5 times.
    logged : Logged or None
        What the logging policy achieved; None where no episode counts.
    sense : "cost" or "reward"
        What the numbers are.
    """

    objective: Objective
    value: float
    interval: Interval
    confidence: float
    draws: Floats = field(repr=False)
    never_tried: tuple[PairCount, ...]
    rarely_tried: tuple[PairCount, ...]
    logged: Logged | None
    sense: str
    _mdp: LearnedTable = field(repr=False)
    _policy: Any = field(repr=False)
    _held_out: Episodes | None = field(repr=False)

    @cached_property
    def off_policy(self) -> OffPolicy:
        """The estimate from held-out episodes, made at first use.

        Of this plan, where ``held_out`` was given. Else a quarter of the log is held out, a plan is made from the rest
        in the same way, and that plan is judged.
        """
        mdp, log = self._mdp, self._mdp.evidence.episodes
        if self._held_out is not None:
            return off_policy(mdp, self._policy, self.objective, self._held_out, confidence=self.confidence)
        from tailwise.exact import solve

        if log.num_episodes < 2:
            raise OptionError("one episode cannot be held out; give held_out=")
        rest, held = log.split(_HELD_OUT)
        try:
            table = mdp.evidence.learn(
                rest, prior=mdp.evidence.prior, horizon=mdp.horizon - mdp.steps_before, discount=mdp.discount,
                start=None if mdp.steps_before else mdp.start,
            )  # fmt: skip
            policy = solve(table, self.objective)
            found = off_policy(table, policy, self.objective, held, confidence=self.confidence)
        except ModelError as error:
            raise OptionError(f"too little is left to learn from once a quarter is held out: {error}") from None
        return replace(found, of=f"a plan made in the same way from {rest.num_episodes:,} other episodes")

    @property
    def lines(self) -> tuple[str, ...]:
        """The promise in words, a sentence each."""
        low, high = self.interval
        rounding = 1e-9 * max(abs(low), abs(high))
        holds_mean = low - rounding <= self.value <= high + rounding
        said = [
            f"{self.objective.words} is {number(self.value)} on the posterior mean, and between {number(low)} and "
            f"{number(high)} on {self.confidence:.0%} of the models that the log leaves possible"
            + ("" if holds_mean else ", few of which hold what the mean counts")
        ]
        if self.logged is not None:
            interval = " to ".join(map(number, self.logged.interval))
            said.append(
                f"what was done in the log achieved {number(self.logged.value)} ({interval}; "
                f"{self.logged.episodes:,} episodes)"
            )
        else:
            said.append(
                "what was done in the log cannot be said: no episode begins where the model does and comes to an end"
            )
        for pairs, what in ((self.never_tried, "never tried"), (self.rarely_tried, "tried less than 5 times")):
            if pairs:
                shown = "; ".join(map(str, pairs[:5])) + ("; ..." if len(pairs) > 5 else "")
                count = "a pair" if len(pairs) == 1 else f"{len(pairs):,} pairs"
                said.append(f"the plan leans on {count} of state and action that the log has {what}: {shown}")
        if not self.never_tried:
            said.append("the plan takes no action in a state where the log never tried it")
        return tuple(said)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, object]:
        """Return the promise as plain values, ready for ``json.dumps``, without the off-policy estimate."""
        return {
            "objective": self.objective.words, "sense": self.sense, "value": plain(self.value),
            "interval": list(map(plain, self.interval)), "confidence": self.confidence,
            "never_tried": [vars(pair) for pair in self.never_tried],
            "rarely_tried": [vars(pair) for pair in self.rarely_tried],
            "logged": None if self.logged is None else {
                "value": plain(self.logged.value), "interval": list(map(plain, self.logged.interval)),
                "episodes": self.logged.episodes,
            },
        }  # fmt: skip


def promise(
    model: LearnedTable,
    policy: Any,
    objective: Objective | float | None = None,
    *,
    confidence: float = 0.9,
    draws: int = 200,
    seed: int = 0,
    held_out: Episodes | None = None,
) -> Promise:
    """Return what a fixed plan promises on a learned table.

    Parameters
    ----------
    model : LearnedTable
        From :func:`tailwise.learn_model`.
    policy : Policy, Plan with a policy, or action ids of shape (S,) or (H, S)
        The plan; it stays as it is, whatever the model.
    objective : Objective or float, optional
        That of the policy if not given; the mean of plain arrays and of robust policies.
    confidence : float in (0, 1), default 0.9
        Share of the drawn models within the interval.
    draws : int, default 200
        Models drawn from the posterior.
    seed : int, default 0
        Of the draws.
    held_out : Episodes, optional
        Episodes that the model was not learned from, for ``promise.off_policy``.

    Returns
    -------
    Promise

    Raises
    ------
    ModelError
        If the model was not learned from a log.
    OptionError
        If the policy is for the first decision alone, or its total takes too many values.

    Notes
    -----
    O(draws * H * outcomes that the policy meets).

    Examples
    --------
    >>> import tailwise
    >>> log = tailwise.load_episodes({"patient": range(40), "state": ["ill"] * 40, "action": ["wait", "treat"] * 20,
    ...     "next_state": ["well", "well", "dead", "well"] * 10, "cost": [0, 5, 100, 5] * 10})
    >>> policy = tailwise.solve(tailwise.learn_model(log), 0.0)
    >>> policy.mdp.action_name(policy.action), policy.promise.interval.low > 4.9, policy.promise.logged.value
    ('treat', True, 27.5)
    """
    if not isinstance(model, LearnedTable):
        raise ModelError("a promise needs a table that learn_model() made: others have no counts to draw models from")
    if model.horizon is None:
        raise OptionError("a promise is that of a plan with a horizon: give the model one")
    share = real(confidence, "confidence", low=0.0, high=1.0, ends="()")
    policy = getattr(policy, "policy", policy) if hasattr(policy, "rows") else policy
    if policy is None:
        raise OptionError("the plan is for one decision alone; give a policy, as solve(model, objective)")
    wanted = as_objective(getattr(policy, "objective", Expectation()) if objective is None else objective)
    if isinstance(wanted, Robust):  # its balls stand for what is not known; the promise has the models themselves
        wanted = Expectation()
    value, rows = objective_of(model, policy, wanted)
    posterior = Posterior(model, rows, seed)
    found = np.array([value(posterior.draw()) for _ in range(integer(draws, "draws", low=20))])
    if getattr(policy, "minds_the_past", False):  # how often a pair is taken is not known then
        taken = set(zip(model.row_states[rows].tolist(), model.action_ids[rows].tolist(), strict=True))
        never, rare = (
            tuple(pair for pair in pairs if (pair.state, pair.action) in taken)
            for pairs in (model.coverage.never_tried, model.coverage.rarely_tried)
        )
    else:
        few = model.coverage.under(policy)
        never, rare = tuple(p for p in few if not p.tried), tuple(p for p in few if p.tried)
    return Promise(
        wanted, value(model.probabilities), interval_of(found, share), share, found, never, rare,
        _logged(model, wanted, share, seed), model.sense, model, policy, held_out,
    )  # fmt: skip


def _logged(model: LearnedTable, objective: Objective, confidence: float, seed: int) -> Logged | None:
    """Return what the log's own episodes achieved."""
    log = model.evidence.episodes
    counts, length, steps = model.comparable(log), model.horizon - model.steps_before, log.steps
    if not counts.any():
        return None
    losses = np.where(steps < length, log.losses, 0.0) * model.discount**steps
    totals = np.add.reduceat(losses, log.first[:-1])[counts]
    final = np.where(steps == length - 1, np.where(log.done, 0.0, 1.0), 0.0)
    if model.terminal_losses.any():
        later = np.where(log.next_states >= 0, model.terminal_losses[np.maximum(log.next_states, 0)], 0.0)
        totals += np.add.reduceat(final * later * model.discount**length, log.first[:-1])[counts]
    shown = np.asarray(model.signed(totals))
    try:
        value = objective.of(shown, sense=model.sense)
    except TailwiseError:  # no function of the totals alone
        return None
    rng = np.random.default_rng(seed)
    size = totals.size
    found = [
        objective.of(shown, np.bincount(rng.integers(0, size, size), minlength=size), sense=model.sense)
        for _ in range(_RESAMPLES if size < 20_000 else 100)
    ]
    interval = interval_of(np.array(found), confidence) if size > 1 else Interval(-math.inf, math.inf)
    return Logged(float(value), interval, int(size))
