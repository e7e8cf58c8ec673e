"""``learn_model``: from episodes to a table at the posterior mean, which keeps its counts.

Each pair of state and action has a Dirichlet posterior over its outcomes: the prior's pseudo-observations
(:mod:`tailwise.logs.priors`) and what the log counted. The table holds their mean. The pooled prior is hierarchical:
what a state's actions share, ``q_s``, has a Dirichlet posterior of its own, in which an outcome that an action showed
c times counts as ``weight q (psi(weight q + c) - psi(weight q))`` observations (the expected number of tables in the
Chinese restaurant franchise of hierarchical Dirichlet processes, JASA 2006), between 1 and c.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats, Ints, ranges, runs
from tailwise._validate import integer, real
from tailwise.errors import ModelError, OptionError
from tailwise.logs.counts import Counts, find, normalized, spread_of
from tailwise.logs.episodes import Episodes
from tailwise.logs.posterior import Posterior
from tailwise.logs.priors import PooledPrior, Prior, TablePrior, WorstCasePrior, as_prior, chosen_by_likelihood
from tailwise.logs.promises import promise
from tailwise.logs.table import START, Evidence, LearnedTable
from tailwise.models import TabularMDP

BAD_END = "(bad end)"
_FULL = 1_000_000  # outcomes up to which each row may lead wherever the log ever led


def learn_model(
    episodes: Episodes,
    *,
    prior: Prior | TabularMDP | str = "auto",
    horizon: int | None = None,
    discount: float = 1.0,
    start: int | str | None = None,
    name: str = "learned model",
    seed: int = 0,
) -> LearnedTable:
    """Learn a table from a log: the posterior mean of the outcomes of every pair of state and action.

    Parameters
    ----------
    episodes : Episodes
        From :func:`tailwise.load_episodes`.
    prior : Prior, TabularMDP or str, default "auto"
        ``"auto"`` is ``PooledPrior()``: actions do what those tried in their state do, with a weight chosen by held-out
        likelihood, and a plan keeps to actions that were tried. ``WorstCasePrior()`` (or "worst"): what was never tried
        may be taken, and ends badly. A table (or ``TablePrior(table, weight)``): what was believed before.
        ``SeenPrior()`` (or "seen"): frequencies.
    horizon : int, optional
        Number of decisions; that of the longest episode if not given.
    discount : float in (0, 1], default 1.0
        Factor per step.
    start : int or str, optional
        Initial state, by index or label. If not given, that in which all episodes begin. Where they begin in several,
        a state "(start)" is added, whose one action leads to them as often as the log began there, and which takes one
        step of its own; with a discount below 1, the most frequent one is the start.
    name : str
        Name of the model.
    seed : int, default 0
        Of the parts of the log that are held out in turn to choose the weight.

    Returns
    -------
    LearnedTable
        A ``TabularMDP`` with ``coverage``, ``promise(policy)`` and ``evidence`` (counts and prior). Index s is the
        log's state s; states that are added come last. ``notes`` says what was chosen, and what the log does not tell.

    Raises
    ------
    ModelError
        If no step says where it led.

    Notes
    -----
    Costs of transitions that the prior adds are those of the steps that share most with it, by the way that told the
    log's costs best (``notes`` says which).

    Examples
    --------
    >>> import tailwise
    >>> log = tailwise.load_episodes({"patient": [0, 0, 1, 2], "state": ["ill", "ill", "ill", "ill"],
    ...     "action": ["wait", "treat", "treat", "wait"], "next_state": ["ill", "well", "well", "dead"],
    ...     "cost": [1.0, 5.0, 5.0, 100.0]})
    >>> model = tailwise.learn_model(log, prior=tailwise.logs.PooledPrior(weight=1.0, spread=0.1))
    >>> model.num_states, model.horizon, [model.coverage.tried(0, a) for a in (0, 1)]
    (3, 2, [2, 2])
    """
    if not isinstance(episodes, Episodes):
        raise OptionError(f"learn_model takes Episodes, from load_episodes(); not {type(episodes).__name__}")
    counts = Counts(episodes)
    if not counts.states.size:
        raise ModelError(
            "no step of the log says where it led; give next_state=, or ends='done' where an episode is over with its "
            "last row"
        )
    notes = list(episodes.notes)
    wanted, weights = as_prior(prior), np.zeros((0, 2))
    if isinstance(wanted, PooledPrior):
        wanted, said, weights = chosen_by_likelihood(counts, wanted, seed)
        notes.append(f"prior: {wanted.words}" + (f"; {said}" if said else ""))
    else:
        notes.append(f"prior: {wanted.words}")
    drawn = _rows(counts, wanted, notes)
    begins, first = _start(episodes, start, real(discount, "discount", low=0.0, high=1.0, ends="(]"), notes)
    length = horizon
    if length is None:
        length = episodes.longest
        notes.append(f"horizon {length:,}: the longest episode")
    integer(length, "horizon", low=1)
    frame = {"horizon": length, "discount": discount, "start": first, "name": name}
    return _assembled(counts, wanted, drawn, begins, frame, notes, weights)


_Drawn: TypeAlias = tuple[dict[str, Any], tuple[Floats, Ints]]  # columns of outcomes; counts and states of the pool
_NO_POOL = (np.zeros(0), np.zeros(0, np.int64))


def _unpooled(pairs: Ints, targets: Ints, losses: Floats, counts: Floats, pseudo: Floats) -> dict[str, Any]:
    """Return the columns of outcomes that share nothing."""
    return {
        "pairs": pairs, "targets": targets, "losses": losses, "counts": counts, "pseudo": pseudo,
        "pool": np.full(pairs.size, -1), "within": np.ones(pairs.size), "guessed": np.zeros(pairs.size, np.bool_),
    }  # fmt: skip


def _rows(counts: Counts, prior: Prior, notes: list[str]) -> _Drawn:
    """Return the outcomes of each row that the prior allows."""
    log = counts.episodes
    pairs = np.unique(counts.pairs)
    left = np.unique(pairs // log.num_actions)
    reached = np.unique(counts.targets[~counts.done] // 2)
    stranded = np.setdiff1d(reached, left)
    all_actions = np.arange(log.num_actions)
    if isinstance(prior, WorstCasePrior) or (isinstance(prior, PooledPrior) and prior.untried):
        pairs = (left[:, None] * log.num_actions + all_actions).reshape(-1)
    if stranded.size:
        shown = ", ".join(log.state_name(int(s)) for s in stranded[:5]) + (", ..." if stranded.size > 5 else "")
        notes.append(
            f"{stranded.size} states were reached, but never left by a logged step ({shown}): what happens there is a "
            "guess " + ("(a bad end)" if isinstance(prior, WorstCasePrior) else "from the whole log")
        )
        pairs = np.union1d(pairs, (stranded[:, None] * log.num_actions + all_actions).reshape(-1))
    if isinstance(prior, TablePrior):
        return _with_table(counts, prior, pairs)
    if isinstance(prior, WorstCasePrior):
        return _with_bad_end(counts, prior, pairs)
    return _pooled(counts, prior, pairs, stranded, notes)


def _seen_outcomes(counts: Counts) -> tuple[Ints, Ints, Floats, Floats]:
    """Return pair, target, loss and count of every outcome that was seen."""
    atoms = counts.quad_atoms
    keys = np.repeat(atoms.keys, np.diff(atoms.offsets))
    pairs, targets = np.divmod(keys, counts.num_targets)
    return pairs, targets, atoms.values, atoms.counts


def _with_bad_end(counts: Counts, prior: WorstCasePrior, pairs: Ints) -> _Drawn:
    log = counts.episodes
    own, targets, losses, seen = _seen_outcomes(counts)
    loss = spread_of(log) if prior.cost is None else float(log.signed(prior.cost))
    end = 2 * log.num_states + 1
    columns = _unpooled(
        np.append(own, pairs), np.append(targets, np.full(pairs.size, end)),
        np.append(losses, np.full(pairs.size, loss)), np.append(seen, np.zeros(pairs.size)),
        np.append(np.zeros(own.size), np.full(pairs.size, prior.weight)),
    )  # fmt: skip
    return columns, _NO_POOL


def _with_table(counts: Counts, prior: TablePrior, pairs: Ints) -> _Drawn:
    log, table = counts.episodes, prior.table
    if table.num_states < log.num_states or table.num_actions < log.num_actions or table.sense != log.sense:
        raise ModelError(
            f"the prior table {table.name} has {table.num_states} states, {table.num_actions} actions and "
            f"{table.sense}s, the log {log.num_states}, {log.num_actions} and {log.sense}s; they must match"
        )
    own, targets, losses, seen = _seen_outcomes(counts)
    row = table.outcome_rows
    believed = table.row_states[row] * log.num_actions + table.action_ids[row]
    if (table.action_ids >= log.num_actions).any() or table.num_states != log.num_states:
        raise ModelError(
            f"the prior table {table.name} has states or actions that the log does not have ({table.num_states} states "
            f"and {table.num_actions} actions; the log {log.num_states} and {log.num_actions}): number both alike"
        )
    lacking = np.setdiff1d(pairs, believed)
    if lacking.size:
        state, action = divmod(int(lacking[0]), log.num_actions)
        raise ModelError(
            f"the prior table {table.name} does not allow action {log.action_name(action)} in state "
            f"{log.state_name(state)}, which the log reached or tried; give it a row there"
        )
    aims = 2 * table.next_states.astype(np.int64) + table.done
    pseudo = prior.weight * table.probabilities
    whole: list[Any] = [np.append(*two) for two in ((own, believed), (targets, aims), (losses, table.losses))]
    both = [np.append(seen, np.zeros(believed.size)), np.append(np.zeros(own.size), pseudo)]
    order = np.lexsort((whole[2], whole[1], whole[0]))  # what was seen and believed alike is one outcome
    pair, target, loss = (column[order] for column in whole)
    starts = runs(pair, target, loss)
    counted, added = (np.add.reduceat(column[order], starts) for column in both)
    columns = _unpooled(pair[starts], target[starts], loss[starts], counted, added)
    return columns, _NO_POOL


def _pooled(counts: Counts, prior: Prior, pairs: Ints, stranded: Ints, notes: list[str]) -> _Drawn:
    """The pooled prior, and frequencies, which are it without weight."""
    log = counts.episodes
    seen_targets, seen_often = np.unique(counts.targets, return_counts=True)
    moves, move_counts = np.unique(counts.moves, return_counts=True)
    is_pooled = isinstance(prior, PooledPrior)
    weight = prior.weight if isinstance(prior, PooledPrior) and prior.weight is not None else 0.0
    spread = prior.spread if isinstance(prior, PooledPrior) and prior.spread is not None else 0.0
    states = np.unique(pairs // log.num_actions)
    everywhere = is_pooled and pairs.size * seen_targets.size <= _FULL
    full = states if everywhere else stranded
    if is_pooled and not everywhere:
        notes.append("the table is large: an action leads only where some action tried in its state led")
    groups = np.union1d(moves, (full[:, None] * counts.num_targets + seen_targets).reshape(-1))
    pool_states = groups // counts.num_targets
    at = find(moves, groups)
    raw = np.where(at >= 0, move_counts[at], 0.0)
    share = (seen_often / seen_often.sum())[find(seen_targets, groups % counts.num_targets)]
    base = np.where(np.isin(pool_states, full), max(spread, 1e-3) * share, 0.0)
    mean = normalized(raw + base, pool_states)
    if is_pooled:
        mean, parameters = _shared(counts, groups, mean, base, pool_states, weight)
    else:
        parameters = raw + base
    # every row leads to each target of its state
    first = np.searchsorted(pool_states, pairs // log.num_actions, side="left")
    last = np.searchsorted(pool_states, pairs // log.num_actions, side="right")
    _, owner, group = ranges(first, last)
    pair, target = pairs[owner], groups[group] % counts.num_targets
    quads = pair * counts.num_targets + target
    place = find(counts.quad_atoms.keys, quads)
    if not is_pooled:
        kept = (place >= 0) | np.isin(pair // log.num_actions, stranded)
        pair, target, group, place = pair[kept], target[kept], group[kept], place[kept]
    losses, within, seen, source, guessed = _costs(counts, pair, target, place, notes)
    pseudo = (weight * mean[group])[source] * within
    if not is_pooled:  # states that were never left still need some row
        pseudo = np.where(np.isin(pair // log.num_actions, stranded)[source], mean[group][source] * within, 0.0)
    columns = {
        "pairs": pair[source], "targets": target[source], "losses": losses, "counts": seen, "pseudo": pseudo,
        "pool": np.where(pseudo > 0.0, group[source], -1), "within": within, "guessed": guessed,
    }  # fmt: skip
    return columns, (parameters, pool_states)


def _shared(
    counts: Counts, groups: Ints, mean: Floats, base: Floats, states: Ints, weight: float
) -> tuple[Floats, Floats]:
    """Return mean and parameters of the posterior of what a state's actions share."""
    from scipy.special import digamma

    quads, often = np.unique(counts.quads, return_counts=True)
    pair, target = np.divmod(quads, counts.num_targets)
    at = find(groups, pair // counts.episodes.num_actions * counts.num_targets + target)
    parameters = base
    for _ in range(3):  # the number of observations that it counts as depends on the mean a little
        scaled = np.maximum(weight * mean[at], 1e-12)
        tables = np.clip(scaled * (digamma(scaled + often) - digamma(scaled)), np.minimum(1.0, often), often)
        parameters = base + np.bincount(at, weights=tables, minlength=groups.size)
        mean = normalized(parameters, states)
    return mean, parameters


def _costs(
    counts: Counts, pairs: Ints, targets: Ints, place: Ints, notes: list[str]
) -> tuple[Floats, Floats, Floats, Ints, NDArray[np.bool_]]:
    """Return loss, share of the target, count and source of each outcome: targets with all the costs they may have."""
    atoms = counts.quad_atoms
    offsets = [atoms.offsets[:-1]]
    lengths = [np.diff(atoms.offsets)]
    values, often = [atoms.values], [atoms.counts]
    start, shift = place.copy(), atoms.keys.size
    missing = np.flatnonzero(place < 0)
    states, actions = np.divmod(pairs, counts.episodes.num_actions)
    for words, found in counts.guesses if missing.size else ():
        at = find(found.keys, counts.key_of(words, states[missing], actions[missing], targets[missing]))
        start[missing[at >= 0]] = shift + at[at >= 0]
        size = sum(part.size for part in values)
        offsets.append(found.offsets[:-1] + size)
        lengths.append(np.diff(found.offsets))
        values.append(found.values)
        often.append(found.counts)
        shift += found.keys.size
        if (at >= 0).any() and np.ptp(counts.losses) > 0.0 and missing.size == (place < 0).sum():
            notes.append(f"costs of transitions that were not seen are guessed by: {words}")
        missing = missing[at < 0]
    begin, length = np.concatenate(offsets)[start], np.concatenate(lengths)[start]
    all_values, all_counts = np.concatenate(values), np.concatenate(often)
    _, source, element = ranges(begin, begin + length)
    totals = np.bincount(source, weights=all_counts[element])
    within = all_counts[element] / totals[source]
    was_seen = place[source] >= 0
    seen = np.where(was_seen, all_counts[element], 0.0)
    return all_values[element], within, seen, source, ~was_seen & (length[source] > 1)


def _start(
    episodes: Episodes, start: int | str | None, discount: float, notes: list[str]
) -> tuple[tuple[Ints, Ints] | None, int]:
    """Return the states in which episodes begin and how often, where a state "(start)" is needed; and the start."""
    if start is not None:
        if isinstance(start, str) and start in episodes.state_labels:
            return None, episodes.state_labels.index(start)
        index = int(start) if isinstance(start, (int, np.integer)) or str(start).isdigit() else -1
        if not 0 <= index < episodes.num_states:
            raise OptionError(f"start: there is no state {start!r} in the log")
        return None, index
    begins, often = np.unique(episodes.states[episodes.first[:-1]], return_counts=True)
    if begins.size == 1:
        return None, int(begins[0])
    if discount < 1.0:
        most = int(begins[often.argmax()])
        notes.append(
            f"episodes begin in {begins.size} states; with a discount the model begins in the most frequent, "
            f"{episodes.state_name(most)} ({often.max() / often.sum():.0%} of them); say start= for another"
        )
        return None, most
    notes.append(
        f"episodes begin in {begins.size} states: the state {START} leads to each as often as they did, in a step "
        "of its own"
    )
    return (begins.astype(np.int64), often), -1


def _assembled(
    counts: Counts, prior: Prior, drawn: _Drawn, begins: Any, frame: dict[str, Any], notes: list[str], weights: Floats
) -> LearnedTable:
    """Return the table; ``begins`` are states in which episodes begin and how often, where a state leads to them."""
    log = counts.episodes
    columns, (pool_counts, pool_states) = drawn
    ends_badly = isinstance(prior, WorstCasePrior)
    num_states = log.num_states + ends_badly
    labels = list(log.state_labels or (map(str, range(log.num_states)) if begins is not None or ends_badly else ()))
    labels += [BAD_END] * ends_badly
    if begins is not None:
        frame |= {"start": num_states, "horizon": frame["horizon"] + 1}
        pairs, nothing = np.full(begins[0].size, num_states * log.num_actions), np.zeros(begins[0].size)
        num_states += 1
        labels.append(START)
        added = _unpooled(pairs, 2 * begins[0], nothing, begins[1].astype(np.float64), nothing)
        columns = {key: np.concatenate([value, added[key]]) for key, value in columns.items()}
    order = np.lexsort((columns["losses"], columns["targets"], columns["pairs"]))
    columns = {key: value[order] for key, value in columns.items()}
    mass = columns["counts"] + columns["pseudo"]
    kept = mass > 0.0
    columns, mass = {key: value[kept] for key, value in columns.items()}, mass[kept]
    states, actions = np.divmod(columns["pairs"], log.num_actions)
    values: dict[str, Any] = {f"{log.sense}s": log.signed(columns["losses"])}
    built = TabularMDP.from_outcomes(
        states, actions, columns["targets"] // 2, normalized(mass, columns["pairs"]), **values,
        done=columns["targets"] % 2 == 1, num_states=num_states, state_labels=labels,
        action_labels=log.action_labels or tuple(map(str, range(log.num_actions))), **frame,
    )  # fmt: skip
    tried = np.bincount(
        log.states.astype(np.int64) * log.num_actions + log.actions, minlength=num_states * log.num_actions
    )[built.row_states * log.num_actions + built.action_ids]
    if begins is not None:
        tried[built.action_offsets[built.start]] = log.num_episodes
    arrays = {name: columns[name] for name in ("counts", "pseudo", "pool", "within", "guessed")}
    arrays |= {"tried": tried, "pool_counts": pool_counts, "pool_states": pool_states, "weights": weights}
    whole = learned_again(built, log, prior, arrays)
    return replace(whole, notes=(*notes, *whole.coverage.notes))


def learned_again(table: TabularMDP, log: Episodes, prior: Prior, arrays: dict[str, Any]) -> LearnedTable:
    """Return a table with what it rests on: the arrays of :class:`Evidence`."""
    evidence = Evidence(log, prior, **arrays, learn=learn_model, promises=promise, posterior=Posterior)
    for name in ("counts", "pseudo", "pool", "within", "guessed"):
        if arrays[name].shape != table.probabilities.shape:
            raise ValueError(f"{name} has {arrays[name].size} entries for {table.num_outcomes} outcomes")
    return LearnedTable(**{part.name: getattr(table, part.name) for part in fields(TabularMDP)}, evidence=evidence)
