"""Conditional Monte Carlo: closed-loop episodes with all that no decision can change integrated exactly.

In the plain evaluation of a planner rare disasters decide the entropic risk: 100 episodes of
grid-mdp meet the pit about once, or not at all. But once in the pit nothing that the planner does
matters, and the rest of the cost is known. Call a state *certain* at step h if every policy pays the same
total from it on. An episode then follows the planner through the other states alone: at each
step the outcomes that end in a certain state (or end the episode) are put down with their probability
and their total, and one of the rest is drawn, conditionally.

Each episode so gives the exact distribution of the total given its path through uncertain states, and the mixture of
them estimates that of the closed loop without bias and with a fraction of the noise. The totals that
:func:`tailwise.evaluate` would have found under the same seed come out as well, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats
from tailwise._progress import Progress
from tailwise._random import Seed, seed_sequence
from tailwise._validate import integer, real, thread_count
from tailwise.evaluation.closed_loop import Player, child, episode_uniforms, run_key, world_name
from tailwise.evaluation.returns import Returns
from tailwise.models import TabularMDP
from tailwise.models.contract import Sense
from tailwise.models.tabular import require_table
from tailwise.planners import Planner
from tailwise.risk.distribution import Measures
from tailwise.risk.entropic import weighted_erm
from tailwise.risk.measures import Interval
from tailwise.search.anytime import in_threads
from tailwise.search.policy_mixin import DEFAULT_ITERATIONS

_CERTAIN = 1e-12


@dataclass(frozen=True, eq=False)
class ConditionalReturns(Measures):
    """The distribution of a closed-loop planner's total, estimated by conditional Monte Carlo.

    The measures (``erm``, ``mean``, ``cvar`` ...) are those of the mixture over the episodes.

    Attributes
    ----------
    costs : ndarray of float64, shape (k,)
        Totals, in the model's own sense; each episode contributes several.
    weights : ndarray of float64, shape (k,)
        Their probabilities given the episode; they sum to 1 within each.
    owners : ndarray of int64, shape (k,)
        Episode of each.
    returns : Returns
        The totals that :func:`tailwise.evaluate` gives under the same seed.

    Examples
    --------
    >>> from tailwise import ErmMcts, domains
    >>> from tailwise.reproduction import conditional_returns
    >>> mdp = domains.make("grid-mdp")
    >>> result = conditional_returns(mdp, ErmMcts(mdp, 0.1), episodes=10, iterations=300, seed=0)
    >>> result.erm(0.1) > 9.711820  # no planner beats the optimum, and here chance cannot either
    True
    """

    costs: Floats
    weights: Floats
    owners: NDArray[np.int64]
    returns: Returns

    @property
    def sense(self) -> Sense:  # type: ignore[override]
        """What the totals are: "cost" or "reward"."""
        return self.returns.sense

    @property
    def label(self) -> str:
        """What was evaluated."""
        return self.returns.label

    @property
    def episodes(self) -> int:
        """Number of episodes n."""
        return self.returns.episodes

    def weighted(self) -> tuple[Floats, Floats]:
        """Return the totals and their weights, which sum to 1."""
        return self.costs, self.weights / self.episodes

    def conditional_erms(self, beta: float) -> Floats:
        """Return the ERM of each episode given its uncertain path: float64, shape (n,)."""
        level, costs = real(beta, "beta"), np.asarray(self.signed(self.costs))
        ends = np.append(np.flatnonzero(np.diff(self.owners)) + 1, self.owners.size)
        starts = np.append(0, ends[:-1])
        risks = [weighted_erm(costs[a:b], level, self.weights[a:b]) for a, b in zip(starts, ends, strict=True)]
        return np.asarray(self.signed(np.array(risks)))

    def interval(
        self,
        *,
        beta: float,
        confidence: float = 0.9,
        method: str = "percentile",
        resamples: int = 10_000,
        seed: Seed = 0,
    ) -> Interval:
        """Return a bootstrap interval of ``erm(beta)``: episodes are resampled with their distributions.

        Parameters
        ----------
        beta : float
            Finite risk level.
        confidence, method, resamples, seed
            As for :meth:`tailwise.Returns.interval`.
        """
        risks = Returns(self.conditional_erms(beta), self.sense)
        return risks.interval("erm", beta=beta, confidence=confidence, method=method, resamples=resamples, seed=seed)


def certain_states(mdp: TabularMDP) -> tuple[NDArray[np.bool_], Floats]:
    """Return where the future is certain, and the least cost-to-go: both of shape (H + 1, S), by (step, state).

    Certain: the largest and the least total cost that any policy can meet from there are equal.
    """
    shape = (mdp.horizon + 1, mdp.num_states)
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    low[-1] = high[-1] = mdp.terminal_losses
    acting = np.flatnonzero(np.diff(mdp.action_offsets))
    firsts = mdp.outcome_offsets[mdp.action_offsets[:-1][acting]]
    for h in range(mdp.horizon - 1, -1, -1):
        costs = mdp.losses_at(h)
        for values, reduce in ((low, np.fmin), (high, np.fmax)):
            tails = costs + np.where(mdp.done, 0.0, mdp.discount * values[h + 1, mdp.next_states])
            values[h, acting] = reduce.reduceat(tails, firsts)
    with np.errstate(invalid="ignore"):
        return high - low <= _CERTAIN * np.maximum(1.0, np.abs(low)), low


def conditional_returns(
    mdp: TabularMDP,
    planner: Planner,
    *,
    episodes: int,
    iterations: int = DEFAULT_ITERATIONS,
    seed: Seed = None,
    threads: int = 1,
    label: str | None = None,
    progress: Progress = None,
) -> ConditionalReturns:
    """Play closed-loop episodes with the certain rest of each integrated exactly (conditional Monte Carlo).

    Parameters
    ----------
    mdp : TabularMDP
        The table to play.
    planner : Planner
        A planner such as :class:`tailwise.ErmMcts`; it is left alone, each episode has a fresh copy.
    episodes : int
        Number of episodes, at least 1.
    iterations : int, default 1000
        Iterations of each decision.
    seed, threads, label, progress
        As for :func:`tailwise.evaluate`.

    Returns
    -------
    ConditionalReturns

    Raises
    ------
    ModelError
        If ``mdp`` is not a table or the horizons differ.
    OptionError
        If an option is out of range.
    """
    require_table(mdp, "conditional_returns", "use evaluate")
    count = integer(episodes, "episodes", low=1)
    wanted = integer(iterations, "iterations", low=1)
    workers = thread_count(threads)
    root = seed_sequence(seed)
    found, totals = integrate_episodes(mdp, planner, range(count), root, wanted, threads=workers, progress=progress)
    name = label if label is not None else type(planner).__name__
    returns = Returns(totals, mdp.sense, name, world_name(root, mdp))
    return ConditionalReturns(found[:, 1], found[:, 2], found[:, 0].astype(np.int64), returns)


def integrate_episodes(
    mdp: TabularMDP,
    planner: Planner,
    episodes: range,
    root: np.random.SeedSequence,
    iterations: int,
    *,
    threads: int = 1,
    progress: Progress = None,
) -> tuple[Floats, Floats]:
    """Play some episodes: the mixture (k, 3) of episode, total and probability, and totals as of `evaluate`."""
    player = Player(mdp, planner, (iterations, None))
    certain, tails = certain_states(mdp)
    key, cumulative = run_key(root), mdp.data.cumulative
    found: list[list[tuple[float, float]]] = [[] for _ in episodes]

    def one(k: int) -> float:
        draws = episode_uniforms(key, episodes[k], mdp.horizon)
        mine = player.fresh(child(root, episodes[k], 1))
        found[k], plain = _integrate(mdp, player, mine, certain, tails, cumulative, draws)
        return plain

    totals = np.array(in_threads(one, len(episodes), threads, progress, stop=player.is_stopped.set))
    atoms = np.array([atom for one_episode in found for atom in one_episode])
    owners = np.repeat(np.array(episodes), [len(one_episode) for one_episode in found])
    mixture = np.column_stack((owners, np.asarray(mdp.signed(atoms[:, 0])), atoms[:, 1]))
    return mixture, np.asarray(mdp.signed(totals))


def _integrate(
    mdp: TabularMDP,
    player: Player,
    planner: Planner,
    certain: NDArray[np.bool_],
    tails: Floats,
    cumulative: Floats,
    draws: Floats,
) -> tuple[list[tuple[float, float]], float]:
    """Return [(total, probability)] of one episode given its uncertain path, and the total drawn; in costs."""
    state, accrued, alive, factor = mdp.start, 0.0, 1.0, 1.0
    atoms: list[tuple[float, float]] = []
    plain: float | None = None
    for h in range(mdp.horizon):
        action: Any = player.decide(planner, state, h, accrued)
        row = mdp.row(state, action)
        first, last = int(mdp.outcome_offsets[row]), int(mdp.outcome_offsets[row + 1])
        drawn = first + int(np.searchsorted(cumulative[first:last], draws[h], side="right"))
        step_cost = float(mdp.step_losses[h, row]) if mdp.step_losses.size else 0.0
        left: list[int] = []
        for k in range(first, last):
            target, paid = int(mdp.next_states[k]), accrued + factor * (float(mdp.losses[k]) + step_cost)
            if not (mdp.done[k] or certain[h + 1, target]):
                left.append(k)
                continue
            tail = 0.0 if mdp.done[k] else factor * mdp.discount * float(tails[h + 1, target])
            atoms.append((paid + tail, alive * float(mdp.probabilities[k])))
            if k == drawn and plain is None:
                plain = _total(mdp, paid, target, h, factor, bool(mdp.done[k]))
        if not left:
            break
        if drawn not in left:  # its rest is certain: draw again, from the same number's fresh part
            low = float(cumulative[drawn - 1]) if drawn > first else 0.0
            rest = (draws[h] - low) / (float(cumulative[drawn]) - low)
            chances = np.cumsum(mdp.probabilities[left])
            drawn = left[min(int(np.searchsorted(chances, rest * chances[-1], side="right")), len(left) - 1)]
        alive *= float(mdp.probabilities[left].sum())
        cost = float(mdp.losses[drawn]) + step_cost
        accrued += factor * cost
        state = int(mdp.next_states[drawn])
        factor *= mdp.discount
        player.follow(planner, action, state, float(mdp.signed(cost)), h, float(mdp.signed(accrued)))
    mass = sum(weight for _, weight in atoms)
    assert plain is not None  # every state is certain at step H, so each draw ends in one
    return [(total, weight / mass) for total, weight in atoms], plain


def _total(mdp: TabularMDP, paid: float, state: int, h: int, factor: float, done: bool) -> float:
    """Finish an episode that is certain, with additions in the order in which ``evaluate`` makes them."""
    while not done and h + 1 < mdp.horizon:
        h, factor = h + 1, factor * mdp.discount
        row = int(mdp.action_offsets[state])
        k = int(mdp.outcome_offsets[row])
        cost = float(mdp.losses_at(h, k, row))
        paid, state, done = paid + factor * cost, int(mdp.next_states[k]), bool(mdp.done[k])
    return paid if done else paid + factor * mdp.discount * float(mdp.terminal_losses[state])
