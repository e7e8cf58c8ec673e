"""What a plan of the learned-model search rests on: the values, how sure they are, and what is said of that."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc, xlogy

from tailwise._arrays import Floats, ranges
from tailwise._jit import interpreted
from tailwise._random import generator, own_words
from tailwise.errors import OptionError
from tailwise.models.contract import short
from tailwise.risk.accumulator import merge_values
from tailwise.risk.measures import Interval
from tailwise.search.anytime import Pace
from tailwise.search.learned import answer, counts, fitted, pooled
from tailwise.search.learned.table import Learned
from tailwise.search.options import LearnedOptions

TIE = 1e-9  # of a value: estimates that close count as equal
_BOOTSTRAP = (
    "the optimal ERM after the action: its low end from the Bayesian bootstrap of all outcome counts, as if outcomes "
    "were drawn independently, less its bias, with something for actions that were never tried; its high end halfway "
    "to plans made on one half of what was seen and valued on the other, and the spread of the bootstrap"
)
_CUT = (
    "there was no time to solve all that was learned: what follows step {} is worth what the search held it for, a "
    "little too good where little was seen; with more seconds a plan is more than that"
)
_NO_INTERVAL = "none is given: it would have taken far longer than the search"
SAMPLED = "none is given: the totals are as they were sampled, exploration included"
_FITTED = "none is given: the values are fitted to features of the states"
TOO_EARLY = "none is given: too little was seen for one that holds"
WRONG_LEAVES = "the draws refute what {} says more often than not, and it is left out"
_UNEXPLORED = (
    "with probability {:.2g} it comes to a state in which nothing was tried; what follows there is not in the values"
)
_MORE = (
    "too little was seen to say how sure this is: half of it leads, with probability {:.2g}, to a state in which it "
    "shows nothing; go on to about {:,} iterations"
)
_REACHABLE = (
    "too little was seen to say how sure this is: with probability {:.2g} one could come to an action that was never "
    "tried; go on with more iterations"
)
_SINGLES = (
    "too little was seen to say how sure this is: {:.0f} % of the risk rests on outcomes that were seen once, and "
    "about as much is still to be seen; go on with more iterations, and where it is what hardly ever comes that "
    "counts, with a beta nearer to 0"
)
_POOLED = "actions are compared by what they did in other states, too: one whose own draws look better may be worse"
_BLIND = 0.05  # that probability, above which one half of the draws cannot vouch for a plan made on the other
_ONCE = 0.5  # of the risk, that rests on outcomes seen once, above which those not seen may be what matters
_UNTRIED = 0.5  # that probability, above which what was never tried may be the best
_ALLOWED = 0.1  # of the range of the totals, that what was never tried may be better, with that probability
_LOW, _HIGH = 0.05, 0.95  # quantiles
_OF_EQUALS = 1.0 + math.sqrt(2.0)  # times its bias in the replicates, that of the least of equal values
_EQUAL = 0.1  # prior probability that another action is as good as the first
_BACK = 0.25  # of the way from what is compared to the values, that the truth may lie
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)  # whose multiples are spread evenly over 0 ... 1
_REPLICATES, _SPLITS, _FEWEST_REPLICATES = 100, 60, 40
_AFFORDABLE = 20_000_000  # outcomes that the replicates of an answer may look at,
_AFFORDABLE_A_SECOND = 5_000_000  # and of each second that a call was given
_ANSWER_SHARE = 0.3  # of the time of a call, for the replicates of its answer
_OF_REST = 0.8  # of what is left of it
_FEW_OUTCOMES = 4096  # from which the time of an answer is noted
_DRAWS_A_PART = 50  # draws that make a fit as much longer as one more step and action does
_OFTEN = 0.8  # of new outcomes, that lead to a state met before; below, a fit compares better than slips
_MOST = 2**62
_WIDER = 2.0  # times what redrawing it says, the error of that: it leaves aside which states are alike, and how
_LIKENESS = 0.75  # of what is compared, that is by the likeness of states
_MOST_POOLED, _AN_OUTCOME = 1e7, 50.0  # work of learning across states, and of each outcome that is looked at for it
_MOST_NUMBERS, _LARGEST = 6, 1e100  # of a state


class Answer(NamedTuple):
    """What a plan rests on, as inner costs; A is the number of actions at the root."""

    values: Floats  # (A,) inf where nothing is known
    unexplored: Floats  # (A,) probability of coming to a state in which nothing was tried
    compared: Floats  # (A,) the values by which the best is chosen
    meaning: str  # of the intervals
    possible: Floats  # (B, A) values that the samples leave possible, every other with an outcome that was not seen
    halves: Floats  # (C, 2, A) values of plans made on half of the draws, by these and by the others
    blind: float = 0.0  # how probably one half of the draws leads to a state in which it shows nothing
    untried: float = 0.0  # how probably one could come to an action that was never tried
    singles: float = 0.0  # of the risk of the best action, what rests on outcomes that were seen once
    shift: Floats | None = None  # (A,) by which what actions did in other states moves what is compared
    alike: Floats | None = None  # (D, A) values that the samples leave possible where states are alike; D may be 0

    def intervals(self, extent: float) -> list[Interval]:
        """Return the 90 % interval of each value; ``extent`` is the range of the totals.

        The least of uncertain values is too low, and lower once more in the replicates: by about as much where they are
        well apart (Efron's correction of the bootstrap), and where they are equal the answer by 1 + sqrt(2) times as
        much, since replicates vary twice as much as it does. A plan looks too good on its own draws by about as much
        as it is worse than the best (Akaike, 1974), and one that is made on a part of them is worse than it: the truth
        is halfway to the halves at most, unless actions are equal.
        """
        allowance = _ALLOWED * self.untried * max(0.0, extent)  # actions that were never tried may be better by this
        low, high = np.full(self.values.size, -math.inf), np.full(self.values.size, math.inf)
        if self.possible.size:
            sure = np.isfinite(self.values)
            values, least = self.values[sure], self.possible[1::2, sure]
            scatter = self.possible[::2, sure] - self.possible[::2, sure].mean(axis=0)
            halves = np.where(np.isfinite(self.halves), self.halves, self.values)[:, :, sure]  # one may not have it
            bias, above = np.maximum(0.0, values - least.mean(axis=0)), halves[:, 1].mean(axis=0) - values
            above = np.minimum(above, np.maximum(0.5 * above, _OF_EQUALS * bias))
            rounding = TIE * np.abs(values)  # of values that are certain, but were not added up alike
            lowest = np.maximum(
                values + bias + np.quantile(scatter, _LOW, axis=0), np.quantile(halves[:, 0], _LOW, axis=0)
            )
            highest = np.minimum(
                values + above + np.quantile(scatter, _HIGH, axis=0), np.quantile(halves[:, 1], _HIGH, axis=0)
            )
            low[sure] = np.minimum(lowest, values) - allowance - rounding
            high[sure] = np.maximum(highest, values) + rounding
        return [Interval(*span) for span in zip(low.tolist(), high.tolist(), strict=True)]

    def further(self, draws: NDArray[np.int64], worst: float, beta: float, sign: float) -> list[dict[str, Any]]:
        """Return what a row of a learned model has beside those of a tree; ``worst`` is the greatest total seen."""
        known = np.isfinite(self.values)
        best = self._chances_of_best(known) if self.possible.size else None
        merged = interpreted(merge_values)  # which is compiled into its callers, and anew in every process
        chances = np.minimum(1.0, 3.0 / np.maximum(draws, 1)).tolist()
        found = []
        for k, (erm, chance) in enumerate(zip(self.values.tolist(), chances, strict=True)):
            other = max(worst, erm)
            unseen = (other if chance == 1.0 else merged(erm, other, chance, beta)) if known[k] else math.nan
            found.append({
                "draws": int(draws[k]), "probability_best": None if best is None else float(best[k]),
                "unexplored": float(self.unexplored[k]) if known[k] else math.nan,
                "unseen_probability": chance, "unseen_erm": 0.0 + sign * unseen,
            })  # fmt: skip
        return found

    def _chances_of_best(self, known: NDArray[np.bool_]) -> Floats:
        """Return the share of replicates in which each action is the best, about the values that are compared.

        What is compared leans on slips and likeness, which may mislead: a replicate lies up to :data:`_BACK` of the way
        back to the values. In some an action is as good as the first: as many as a prior of :data:`_EQUAL` and the
        p-value of the difference leave (the bound of Sellke, Bayarri and Berger, 2001). Equals have equal shares.
        """
        lies, scatter = self.compared[known], self.possible[:, known].copy()
        for replicates in (scatter[::2], scatter[1::2]):  # with outcomes that were not seen, and without
            replicates -= replicates.mean(axis=0)
        if self.alike is not None and len(self.alike):
            with np.errstate(invalid="ignore"):  # what is not known by other states
                moved = np.nan_to_num((self.alike - self.alike.mean(axis=0))[:, known], posinf=0.0, neginf=0.0)
            scatter += _LIKENESS * (_WIDER * moved[np.arange(len(scatter)) % len(moved)] - scatter)
        first = int(lies.argmin())
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = (lies - lies[first]) / (scatter - scatter[:, [first]]).std(axis=0)
        chance = erfc(np.nan_to_num(apart) / math.sqrt(2.0))
        odds = _EQUAL / (1.0 - _EQUAL) * np.where(chance < 1.0 / math.e, -math.e * xlogy(chance, chance), 1.0)
        replicate, away = np.arange(1, 1 + len(scatter))[:, None], self.values[known] - lies
        turns = _GOLDEN * replicate + math.sqrt(2.0) * np.arange(lies.size)
        others = lies + _BACK * (math.sqrt(2.0) * replicate % 1.0) * (away - away[first])
        possible = scatter + np.where(turns % 1.0 < odds / (1.0 + odds), lies[first], others)
        least = possible.min(axis=1, keepdims=True)
        equal, best = possible <= least + TIE * np.abs(least), np.zeros(known.size)
        best[known] = (equal / equal.sum(axis=1, keepdims=True)).mean(axis=0)
        tied = known.copy()
        for found in (self.values[known], lies):
            tied[known] &= np.abs(found - found[first]) <= TIE * np.abs(lies[first])
        best[tied] = best[tied].mean()
        return best

    def recommended(self, taken: NDArray[np.int64]) -> int:
        """Return the position of the action to recommend: of least value, or, in a tree, the one taken most often."""
        if self.meaning == SAMPLED:
            return int(np.lexsort((self.compared, -taken))[0])
        return _best(self.compared, taken)

    def notes(self, best: int, iterations: int) -> tuple[str, ...]:
        """Return what a plan that recommends the action at ``best`` has to say of this."""
        lost = float(self.unexplored[best]) if np.isfinite(self.values[best]) else math.nan
        notes: tuple[str, ...] = (_UNEXPLORED.format(lost),) if lost > 0.0 else ()
        if self.shift is not None and self.values[best] > self.values.min() + TIE * abs(self.values.min()):
            notes += (_POOLED,)
        if self.untried > _UNTRIED:
            notes += (_REACHABLE.format(self.untried),)
        elif self.singles > _ONCE:
            notes += (_SINGLES.format(100.0 * self.singles),)
        if self.blind > _BLIND:  # one half of twice as many draws is what there is now
            notes += (_MORE.format(self.blind, (2 if lost <= _BLIND else 4) * iterations),)
        return notes


def _best(values: Floats, taken: NDArray[np.int64]) -> int:
    equal = np.flatnonzero(values <= values.min() + TIE * abs(values.min()))
    return int(equal[np.argmax(taken[equal])])


class Answering:
    """Works out the answers of a search, as well as their time allows.

    What serves the next one is kept: room to work in, features of the states, and how long it all takes.
    """

    # Of each part of a fit, of each outcome of an answer, and of a replicate; of each outcome and step across states.
    fit_pace, look_pace, outcome_pace, pool_pace = Pace(1e-3), Pace(1e-7), Pace(1e-7, 0.995), Pace(1e-7)

    def __init__(self, options: LearnedOptions, *, bootstraps: bool) -> None:
        self._options, self._bootstraps = options, bootstraps
        self._space = np.empty((6, 0))  # in which answers are worked out
        self._features: list[tuple[float, ...] | None] = []
        self._width = 0  # of the features that the user gives, once a state was asked
        self._numbers: dict[int, tuple[float, ...] | None] = {}  # by handle

    def anew(self) -> Self:
        """Return the same for another root, or another search of the same model: with the paces, and nothing else."""
        other = copy.copy(self)
        other._space, other._features, other._numbers = np.empty((6, 0)), [], {}
        return other

    def rename(self, kept: NDArray[np.int64]) -> None:
        """Note that all handles but these, ascending, were given up, and that these are now called 0, 1, ..."""
        old = kept.tolist()
        self._features = [self._features[handle] for handle in old if handle < len(self._features)]
        self._numbers = {k: self._numbers[handle] for k, handle in enumerate(old) if handle in self._numbers}

    def begin(self, allowed: float, by: float) -> None:
        """Note how long the call is, in seconds, and when it is to end."""
        self._allowed, self._by = allowed, by

    def find(
        self, learned: Learned, stream: NDArray[np.uint64], kept: Callable[[], NDArray[np.bool_]] | None
    ) -> Answer:
        """Return what a plan rests on.

        The random stream is left as it is; ``kept`` says which nodes the root leads to, where that is not all of them.
        """
        known, nodes, work = learned.known, learned.nodes, learned.scratch.work
        root = int(learned.scratch.root[0])
        at, arity = int(nodes.first_q[root]), int(nodes.arity[root])
        nothing = np.empty((0, arity)), np.empty((0, 2, arity))
        sampled = nodes.q[at : at + arity].copy()
        if learned.is_tree or (not self._bootstraps and np.isfinite(sampled).any()):
            values, meaning = self._fitted(learned, kept), _FITTED
            if values is None:
                values, meaning = sampled, SAMPLED if learned.is_tree else _NO_INTERVAL
            return Answer(values, np.full(arity, math.nan), values, meaning, *nothing)
        begun, untried = time.perf_counter(), 0.0
        # Streams of their own, so that reporting never changes what follows; others for every seed.
        words, rng = (
            generator(np.random.SeedSequence([int(work[counts.WALKED]), *map(int, stream), *k])) for k in ((), (1,))
        )
        reached = self.reached(learned, self._time() / self.look_pace.seconds)
        is_cut = reached.cut < learned.rules.horizon
        if not learned.rules.leaves and not is_cut:
            untried = float(answer.untried(known, learned.rules.horizon, learned.step, reached))
        inducted = np.full((2, 3, arity), math.inf)
        looked = int(learned.induct(reached, np.empty(0, np.uint64), 0, inducted))
        if is_cut and not np.isfinite(inducted[0, 0]).any():  # where it was cut the search holds states for nothing yet
            reached, is_cut = self.reached(learned), False
            looked = int(learned.induct(reached, np.empty(0, np.uint64), 0, inducted))
        if not np.isfinite(inducted[0, 0]).any():  # a tree until just now, all of whose outcomes here are new states
            return Answer(sampled, np.full(arity, math.nan), sampled, SAMPLED, *nothing)
        if looked > _FEW_OUTCOMES:
            self.look_pace = self.look_pace.after((time.perf_counter() - begun) / looked)
        found = Answer(inducted[0, 0], inducted[0, 1], inducted[1, 0], TOO_EARLY, *nothing, untried=untried)
        if not self._bootstraps:
            return found._replace(meaning=_NO_INTERVAL)
        fit = self._fitted(learned, kept) if work[counts.MET] < _OFTEN * work[counts.ARRIVED] else None
        if fit is not None:
            found = found._replace(compared=fit)
        elif not is_cut:
            found = self._with_likeness(learned, found, rng if untried <= _UNTRIED else None)
        if is_cut:
            return found._replace(meaning=_CUT.format(reached.cut))
        best = _best(found.compared, nodes.taken[at : at + arity])
        found = found._replace(singles=float(inducted[1, 1, best]))
        if untried > _UNTRIED or found.singles > _ONCE:
            return found
        budget = int(min(_AFFORDABLE, _AFFORDABLE_A_SECOND * self._allowed))
        affordable = budget // max(1, looked)
        size = looked + int(known.used[counts.OUTCOMES])  # of a replicate, which draws a weight for each outcome
        in_time = self._time() / (self.outcome_pace.seconds * size) / (_REPLICATES + _SPLITS)
        replicates, splits = (int(min(most, affordable, most * in_time)) for most in (_REPLICATES, _SPLITS))
        if replicates < _FEWEST_REPLICATES:
            self.outcome_pace = self.outcome_pace.faded(0.998)  # perhaps something else slowed the last ones down
            return found._replace(meaning=_NO_INTERVAL)
        drawn = np.full((replicates + splits, 3, arity), math.inf)
        begun = time.perf_counter()
        learned.induct(reached, own_words(words), splits, drawn)
        self.outcome_pace = self.outcome_pace.after((time.perf_counter() - begun) / drawn.shape[0] / size)
        blind = float(drawn[replicates:, 1, best].mean())
        if blind > _BLIND:
            return found._replace(blind=blind)
        possible, halves = drawn[:replicates, 0], drawn[replicates:, ::2]
        return found._replace(meaning=_BOOTSTRAP, possible=possible, halves=halves, blind=blind)

    def _time(self) -> float:
        """Return the seconds that the next part of an answer may take."""
        return min(_ANSWER_SHARE * self._allowed, _OF_REST * max(0.0, self._by - time.perf_counter()))

    def reached(self, learned: Learned, outcomes: float = math.inf) -> answer.Reached:
        """Return the states that known outcomes reach from the root; it is cut after so many outcomes."""
        known, horizon = learned.known, learned.rules.horizon
        states, offsets, cut = answer.reach(known, horizon, learned.handle, learned.step, int(min(outcomes, _MOST)))
        ends = learned.terminal_costs() if cut == horizon else np.empty(0)
        size = 1 + max(learned.handle, int(known.targets.max()))
        if self._space.shape[1] < size:
            self._space = np.full((6, size + size // 4), math.inf)
        return answer.Reached(states, offsets, int(cut), ends, self._space)

    def features_of(self, state: Any) -> tuple[float, ...] | None:
        """Return what the cost-to-go may be fitted to; None where nothing is known."""
        if self._options.features is not None:
            try:
                said: Any = self._options.features(state)
            except Exception as error:
                raise OptionError(f"features({short(state)}) raised {type(error).__name__}: {error}") from error
            try:
                row = tuple(float(value) for value in said)
            except (TypeError, ValueError) as error:
                raise OptionError(f"features({short(state)}) must return numbers: {error}") from error
            self._width = self._width or len(row)
            if len(row) != self._width or not np.isfinite(row).all():
                raise OptionError(
                    f"features({short(state)}) must return {self._width} finite numbers, as for the first state, not "
                    f"{short(said)}"
                )
            return row
        return fitted.standard_features(state)

    def _fitted(self, learned: Learned, kept: Callable[[], NDArray[np.bool_]] | None) -> Floats | None:
        """Return Q at the root by regression; None where it cannot be had, or not in time."""
        known, step, horizon = learned.known, learned.step, learned.rules.horizon
        used = int(known.used[counts.OUTCOMES])
        parts = (horizon - step) * learned.scratch.sampled.size + used / _DRAWS_A_PART
        if not learned.rules.fits or self.fit_pace.seconds * parts > self._time():
            return None
        begun = time.perf_counter()
        last = max(learned.handle, int(known.targets[:used].max(initial=-1)))
        for handle in range(len(self._features), last + 1):
            self._features.append(self.features_of(learned.binding.state(handle)))
        steps = fitted.draws_by_step(known, learned.nodes, step, horizon, learned.offsets, kept() if kept else None)
        arity = np.zeros(last + 1, np.int64)
        met = known.arity.reshape(-1, known.step_kinds).max(axis=1)[: last + 1]
        arity[: met.size] = met
        betas, discount = learned.rules.betas[step:], learned.rules.discount
        found = fitted.fitted_values(steps, self._features[: last + 1], arity, betas, discount, learned.handle)
        self.fit_pace = self.fit_pace.after((time.perf_counter() - begun) / parts)
        return found

    def _with_likeness(self, learned: Learned, found: Answer, rng: np.random.Generator | None) -> Answer:
        """Return the same, what is compared moved towards what the likeness of states says of it."""
        compared, every = found.compared, self._pooled(learned, rng)
        if every is None:
            return found
        pooled_q = every[0]
        both = np.isfinite(compared) & np.isfinite(pooled_q)
        shift = np.zeros(compared.size)
        if both.any():
            away = compared[both].min() - pooled_q[both].min()
            shift[both] = _LIKENESS * (pooled_q[both] + away - compared[both])
        return found._replace(compared=compared + shift, shift=shift, alike=every[1:])

    def _pooled(self, learned: Learned, rng: np.random.Generator | None) -> Floats | None:
        """Return Q at the root by what actions did in all states, then some that the samples leave possible (1 + D, A).

        None where it cannot be had, or not in time.
        """
        known, rules = learned.known, learned.rules
        plain = known.step_kinds == 2 and not rules.leaves and not rules.bounded and not learned.binding.weighs
        if not self._bootstraps or not plain or getattr(learned.model, "step_losses", np.empty(0)).size:
            return None
        acted = np.flatnonzero(known.first[::2])  # before the last step, whose costs hold the end's
        if not np.isin(learned.handle, acted):
            return None
        first, arity = known.first[::2][acted].astype(np.int64), known.arity[::2][acted].astype(np.int64)
        used = int(known.used[counts.OUTCOMES])
        most = min(_MOST_POOLED, self._time() / self.pool_pace.seconds)
        if _AN_OUTCOME * (used + int(arity.sum())) > most:
            return None
        begun = time.perf_counter()
        _, places, pairs = ranges(first, first + arity)
        rows_of = np.full(int(known.used[counts.PAIRS]), -1)
        rows_of[pairs] = np.arange(pairs.size)
        rows = rows_of[known.pairs[1:used]]
        outcomes = 1 + np.flatnonzero(rows >= 0)
        rows, targets = rows[rows >= 0], known.targets[outcomes].astype(np.int64)
        states = np.union1d(acted, targets[targets >= 0])
        numbers = self._numbers_of(learned, states)
        if numbers is None or not outcomes.size:
            return None
        names: dict[Any, int] = {}
        taken = [action for state in acted.tolist() for action in learned.binding.actions(state)]
        if not all(isinstance(action, Hashable) for action in taken):
            return None
        actions = [names.setdefault(action, len(names)) for action in taken]
        here, positions = np.searchsorted(states, acted[places]), np.array(actions)
        allowed = np.ones((states.size, len(names)), np.bool_)
        allowed[here], allowed[here, positions] = False, True
        seen = pooled.Seen(
            here[rows], positions[rows], np.where(targets >= 0, np.searchsorted(states, targets), -1),
            known.costs[outcomes], known.counts[outcomes].astype(np.float64), numbers, allowed,
        )  # fmt: skip
        ends, root = learned.terminal_costs(), int(np.searchsorted(states, learned.handle))
        ends = ends[states] if ends.size else np.zeros(states.size)
        betas = rules.betas[learned.step :]
        found, work = pooled.pooled_values(seen, root, betas, rules.discount, ends, most, rng)
        if found is None:
            return None
        self.pool_pace = self.pool_pace.after((time.perf_counter() - begun) / (work + _AN_OUTCOME * used))
        return np.asarray(found[:, positions[here == root]])

    def _numbers_of(self, learned: Learned, states: NDArray[np.int64]) -> Floats | None:
        """Return what states consist of (S, D); None where that is not a few numbers, as many in all, and different."""
        rows: list[tuple[float, ...]] = []
        for handle in states.tolist():
            if handle not in self._numbers:
                if self._options.features is None and learned.has_handles_of_table and learned.model.state_labels:
                    self._numbers[handle] = fitted.numbers_in(learned.model.state_labels[handle])
                else:
                    state = learned.binding.state(handle)
                    self._numbers[handle] = self.features_of(state) or fitted.numbers_of(state)
            row = self._numbers[handle]
            if row is None or not 0 < len(row) <= _MOST_NUMBERS or (rows and len(row) != len(rows[0])):
                return None
            rows.append(row)
        found = np.array(rows, dtype=np.float64)
        return found if np.abs(found).max() < _LARGEST and len(np.unique(found, axis=0)) == len(found) else None
