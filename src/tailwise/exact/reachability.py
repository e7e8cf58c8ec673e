"""Where the rows of a table lead: which states can be reached, in which loops, and by plans that can still be best.

*Plans that can still be best* are the ground for every tolerance of an exact solver. A plan that bounds the total from
above whatever happens is the worst-case one: from each state on, ``high`` is the least over the actions of the largest
total. An action whose *least* total is larger is worse in every outcome than following that plan instead, at whatever
was paid before; so no plan for a monotone objective needs it. Costs of such actions ("never do this": 1e9) say nothing
about the scale of the problem, and are left out before anything is scaled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tailwise._arrays import Bools, Floats, Ints, marked, ranges
from tailwise.exact.parts import OVER, PLACE, Part
from tailwise.exact.sweeps import least_of, row_ends
from tailwise.models import TabularMDP
from tailwise.models.accrued import total_bounds

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_SURE = 1e-9  # bounds that differ by less may differ in rounding alone


def relevant(mdp: TabularMDP) -> TabularMDP:
    """Return the table without the actions that are worse at every step, whatever happens, and what they lead to."""
    mdp.require_sound()
    low = high = mdp.terminal_losses
    useless = np.ones(mdp.num_rows, np.bool_)
    for h in range(mdp.horizon - 1, -1, -1):
        lows, highs = row_ends(mdp, h, low, high)
        low, high = least_of(mdp, lows), least_of(mdp, highs)
        bound = high[mdp.row_states]
        with np.errstate(invalid="ignore"):
            useless &= lows - bound > _SURE * (np.abs(lows) + np.abs(bound))
        if not useless.any():
            break
    reached = reached_by(mdp, ~useless)
    kept = ~useless & reached[mdp.row_states]
    if kept.all() and reached.all():
        return mdp
    rows = np.flatnonzero(kept)
    outcomes = ranges(mdp.outcome_offsets[rows], mdp.outcome_offsets[rows + 1])[2]
    counts = np.bincount(mdp.row_states[rows], minlength=mdp.num_states)
    sizes = np.diff(mdp.outcome_offsets)[rows]
    return replace(
        mdp,
        action_offsets=np.append(0, np.cumsum(counts)),
        action_ids=mdp.action_ids[rows],
        outcome_offsets=np.append(0, np.cumsum(sizes)),
        probabilities=mdp.probabilities[outcomes],
        next_states=mdp.next_states[outcomes],
        losses=mdp.losses[outcomes],
        done=mdp.done[outcomes],
        step_losses=mdp.step_losses[:, rows] if mdp.step_losses.size else mdp.step_losses,
        terminal_losses=np.where(reached, mdp.terminal_losses, mdp.terminal_losses[reached].min()),
    )


def low_total(mdp: TabularMDP) -> float:
    """Return the least total loss that any plan can have, from the start."""
    mdp.require_sound()
    low = mdp.terminal_losses
    for h in range(mdp.horizon - 1, -1, -1):
        low = least_of(mdp, row_ends(mdp, h, low, low)[0])
    return float(low[mdp.start])


def relevant_bounds(mdp: TabularMDP) -> tuple[float, float]:
    """Return bounds (low, high) on the total loss of every plan that can still be best."""
    return total_bounds(relevant(mdp))


def reached_by(mdp: TabularMDP, allowed: Bools) -> Bools:
    """Return which states the start leads to within the horizon, if there is one, by allowed rows."""
    rows = mdp.outcome_rows
    going = allowed[rows] & ~mdp.done
    owners, targets = mdp.row_states[rows[going]], mdp.next_states[going]
    reached = marked(mdp.num_states, mdp.start)
    for _ in range(mdp.num_states if mdp.horizon is None else mdp.horizon):
        before = np.count_nonzero(reached)
        reached[targets[reached[owners]]] = True
        if np.count_nonzero(reached) == before:
            break
    return reached


def components(part: Part) -> tuple[int, Ints]:
    """Return number and label of the strongly connected components of the states under all rows of a part."""
    from scipy.sparse import csgraph

    count, labels = csgraph.connected_components(graph_of(part), directed=True, connection="strong")
    return int(count), labels.astype(np.int64)


def graph_of(part: Part, *, over: bool = False) -> csr_array:
    """Return where the rows of a part can lead, as a sparse matrix of ones; ``over``: the end is one state more."""
    from scipy.sparse import csr_array

    kept, size = part.targets >= 0, part.size + over
    targets = np.where(kept, part.targets, PLACE(part.size)) if over else part.targets[kept]
    kept |= over
    edges = np.bincount(part.states, np.add.reduceat(kept, part.offsets[:-1], dtype=np.int64), size)
    firsts = np.append(0, np.cumsum(edges)).astype(np.int32 if targets.size < 2**31 else np.int64)
    graph = csr_array((np.ones(targets.size), targets, firsts), shape=(size, size))
    graph.sum_duplicates()  # csgraph's search for components does not end where an edge is there twice
    return graph


def reaching(part: Part, aims: Bools | None = None) -> Bools:
    """Return which states can reach one of the aims (the end, if None)."""
    return _found_from_last(_backward(part, aims))


def reached_from(part: Part, origins: Any) -> Bools:
    """Return the states that can be reached from some others, given by their indices."""
    return _found_from_last(_with_node(graph_of(part).T, origins).T.tocsr())


def distances(part: Part, aims: Bools | None = None) -> Floats:
    """Return in how many steps at least a state can reach one of the aims (the end, if None); infinite if in none."""
    from scipy.sparse import csgraph

    found = csgraph.dijkstra(_backward(part, aims), indices=part.size, unweighted=True)
    return np.asarray(found[:-1], np.float64) - 1.0


def _backward(part: Part, aims: Bools | None) -> Any:
    """Return the reversed graph of a part, in which one more node leads to the aims, or to what may end."""
    if aims is None:
        return graph_of(part, over=True).T.tocsr()
    return _with_node(graph_of(part), np.flatnonzero(aims)).T.tocsr()


def _with_node(graph: Any, states: Any) -> Any:
    """Return a graph with one more node, the last, to which some states lead."""
    from scipy.sparse import csr_array

    last, graph = graph.shape[0], csr_array(graph)
    graph.resize(last + 1, last + 1)
    return graph + csr_array((np.ones(len(states)), (states, np.full(len(states), last))), shape=graph.shape)


def _found_from_last(graph: Any) -> Bools:
    """Return which nodes can be reached from the last, which itself is left out."""
    from scipy.sparse import csgraph

    last = graph.shape[0] - 1
    return marked(last + 1, csgraph.breadth_first_order(graph, last, return_predecessors=False))[:-1]


def end_components(part: Part) -> Bools:
    """Return which rows lie in end components: sets of rows that keep an episode among their states for ever."""
    inside = np.logical_and.reduceat(part.targets >= 0, part.offsets[:-1])
    while True:
        held = part.where(inside)
        if not held.states.size:
            return inside
        _, labels = components(held)
        leaves = labels[np.where(held.targets >= 0, held.targets, 0)] != labels[held.states[held.owners]]
        out = np.logical_or.reduceat(leaves, held.offsets[:-1])
        # a state without a row left ends nothing: rows that lead there leave their component, which is another
        if not out.any():
            return inside
        inside[np.flatnonzero(inside)[out]] = False


def kept_by_all(part: Part) -> tuple[Part, Ints]:
    """Return what every row keeps among some states, as a part in which all else is over, and those states."""
    _, labels = components(part)
    inside = part.decides.copy()
    while True:
        held = part.held_in(np.where(inside, labels, -1 - np.arange(part.size)))
        held = replace(held, targets=np.where(inside[held.states[held.owners]], held.targets, OVER))
        leaves = ~held.rows_into(np.ones(part.size, np.bool_))
        out = np.unique(held.states[leaves & inside[held.states]])
        if out.size:
            inside[out] = False
            continue
        count, finer = components(held)
        if count == np.unique(np.where(inside, labels, -1 - np.arange(part.size))).size:
            return held.where(inside[held.states]), np.flatnonzero(inside)
        labels = finer
