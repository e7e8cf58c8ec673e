"""What is believed of a pair of state and action before the log speaks, and how strongly.

Every prior is a Dirichlet distribution over the outcomes of each pair, of ``weight`` pseudo-observations: the model is
its posterior mean. Under ERM over what is random and what is unknown, with the model redrawn at every step, planning
on the posterior mean is exact (RASR: Hau, Petrik, Ghavamzadeh & Russel, 2023).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailwise._arrays import Floats
from tailwise._validate import real, truth
from tailwise.errors import OptionError
from tailwise.logs.counts import Counts
from tailwise.models import TabularMDP
from tailwise.models.tabular import require_table

WEIGHTS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
SPREADS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_FOLDS = 4
_MOST_SCORED = 50_000  # steps of a fold


@dataclass(frozen=True)
class Prior:
    """Base of the priors."""

    @property
    def words(self) -> str:
        """The prior in words."""
        return type(self).__name__


@dataclass(frozen=True)
class PooledPrior(Prior):
    """An action does what the actions tried in its state do, until the log says otherwise.

    Parameters
    ----------
    weight : float, optional
        Observations that the belief is worth; chosen by held-out likelihood if not given.
    spread : float, optional
        Observations of a state that "it leads where the others lead" is worth; chosen with the weight.
    untried : bool, default False
        Whether a plan may take actions that were never tried in a state, as if they did what the others do.
    """

    weight: float | None = None
    spread: float | None = None
    untried: bool = False

    def __post_init__(self) -> None:
        for name in ("weight", "spread"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, real(getattr(self, name), name, low=0.0, ends="(]"))
        truth(self.untried, "untried")

    @property
    def words(self) -> str:
        """The prior in words."""
        allowed = "; what was never tried counts as what was" if self.untried else ""
        return f"pooled successors of the state, of weight {self.weight:g}{allowed}"


@dataclass(frozen=True)
class WorstCasePrior(Prior):
    """What was never tried ends badly: the episode is over, at a cost.

    Parameters
    ----------
    weight : float, default 1.0
        Observations that the belief is worth.
    cost : float, optional
        What the bad end costs, in the log's own sense (of rewards: what it earns). The worst that followed a logged
        step, from there to the end of its episode, if not given.
    """

    weight: float = 1.0
    cost: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", real(self.weight, "weight", low=0.0, ends="(]"))
        if self.cost is not None:
            object.__setattr__(self, "cost", real(self.cost, "cost"))

    @property
    def words(self) -> str:
        """The prior in words."""
        return f"the worst case (what was never tried ends badly), of weight {self.weight:g}"


@dataclass(frozen=True)
class TablePrior(Prior):
    """A table of the user's: what was believed before.

    Parameters
    ----------
    table : TabularMDP
        With the log's states and actions, by index (or the same labels in the same order), and its sense.
    weight : float, default 5.0
        Observations that each of its rows is worth.
    """

    table: TabularMDP
    weight: float = 5.0

    def __post_init__(self) -> None:
        require_table(self.table, "TablePrior")
        object.__setattr__(self, "weight", real(self.weight, "weight", low=0.0, ends="(]"))

    @property
    def words(self) -> str:
        """The prior in words."""
        return f"the table {self.table.name}, of weight {self.weight:g}"


@dataclass(frozen=True)
class SeenPrior(Prior):
    """Only what was seen can happen: frequencies, and no action that was never tried.

    It believes too much of few observations: plans made on frequencies rarely keep their promise. It is there to
    compare with.
    """

    words = "frequencies (nothing can happen that was not seen)"


PRIORS = {"pooled": PooledPrior, "worst": WorstCasePrior, "seen": SeenPrior}


def as_prior(given: object) -> Prior:
    """Return a prior given as one, by name, or as a table."""
    if isinstance(given, Prior):
        return given
    if isinstance(given, TabularMDP):
        return TablePrior(given)
    if given == "auto":
        return PooledPrior()
    if isinstance(given, str) and given in PRIORS:
        found: Prior = PRIORS[given]()
        return found
    raise OptionError(
        f"prior must be 'auto', {', '.join(map(repr, PRIORS))}, a table, or one of PooledPrior, WorstCasePrior, "
        f"TablePrior and SeenPrior; not {given!r}"
    )


def chosen_by_likelihood(counts: Counts, prior: PooledPrior, seed: int) -> tuple[PooledPrior, str, Floats]:
    """Return the weight and spread under which held-out episodes are likeliest, how found, and all weights."""
    log = counts.episodes
    weights = WEIGHTS if prior.weight is None else (prior.weight,)
    spreads = SPREADS if prior.spread is None else (prior.spread,)
    if len(weights) == len(spreads) == 1:
        return PooledPrior(weights[0], spreads[0], prior.untried), "", np.array([[weights[0], 1.0]])
    unknown = np.column_stack([np.array(weights), np.full(len(weights), 1.0 / len(weights))])
    guess = PooledPrior(prior.weight or 5.0, prior.spread or 3.0, prior.untried)
    if log.num_episodes < 2:
        return guess, "one episode: the weight is a guess", unknown
    rng = np.random.default_rng(seed)
    fold = rng.permutation(log.num_episodes) % min(_FOLDS, log.num_episodes)
    of_step = np.repeat(fold, log.lengths)[counts.known]
    scores, scored = np.zeros((len(weights), len(spreads))), 0
    for k in range(int(fold.max()) + 1):
        held = np.flatnonzero(of_step == k)
        if held.size > _MOST_SCORED:
            held = np.sort(rng.choice(held, _MOST_SCORED, replace=False))
        if not held.size:
            continue
        scored += held.size
        seen, tried, pooled, left, base = counts.without(of_step == k, held)
        for i, weight in enumerate(weights):
            for j, spread in enumerate(spreads):
                mean = (pooled + spread * base) / (left + spread)
                scores[i, j] += float(np.log((seen + weight * mean) / (tried + weight)).sum())
    if not scored:
        return guess, "the weight is a guess", unknown
    i, j = divmod(int(scores.argmax()), len(spreads))
    parts = int(fold.max()) + 1
    said = (
        f"weight {weights[i]:g} was chosen by held-out likelihood: {scores[i, j] / scored:.4g} per step on "
        f"{parts} parts of the episodes, each held out in turn (weights tried: {weights[0]:g} to {weights[-1]:g})"
    )
    likely = np.exp(scores - scores.max()).sum(axis=1)
    found = np.column_stack([np.array(weights), likely / likely.sum()])
    return PooledPrior(weights[i], spreads[j], prior.untried), said, found
