"""What may follow, as a drill-down: the tree that was searched, or what a table says may happen.

Only the parts that weigh most are shown: the tree is opened best first, by visits (or by probability), up to a number
of parts; what is left out is added up, and stands beside what is shown.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tailwise._arrays import Floats
from tailwise._results import amount, number, step_word
from tailwise.exact import Policy
from tailwise.models import TabularMDP
from tailwise.report.document import Chart, label
from tailwise.search import NodeView

MOST_PARTS = 1_200
_MOST_CHILDREN = 40  # of one action: the others are so small that they would be lines
_UNKNOWN = "rgb(150,150,150)"
# matplotlib's viridis, which the colour-blind can read too: from good (dark) to bad (bright).
VIRIDIS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


@dataclass
class _Parts:
    """The parts of a drill-down, each with its parent (-1 for the first), its weight and its ERM (NaN: not known)."""

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    erms: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, parent: int, weight: float, erm: float, note: str) -> int:
        self.names.append(name)
        self.parents.append(parent)
        self.weights.append(weight)
        self.erms.append(erm)
        self.notes.append(note)
        return len(self.names) - 1


def search_tree(root: NodeView, *, most: int = MOST_PARTS) -> tuple[Chart, int, int]:
    """Return the drill-down of a tree of ``most`` states and actions, and how many states it shows, and leaves out."""
    parts, order = _Parts(), itertools.count()
    sense = root.sense

    def add(node: NodeView, parent: int) -> int:
        known = [action.erm for action in node.actions if action.visits]
        erm = (min(known) if sense == "cost" else max(known)) if known else math.nan
        return parts.add(
            node.state_name, parent, node.visits, erm, f"state at {step_word()} {node.step}, {node.visits:,} visits"
        )

    queue = [(-root.visits, next(order), root, add(root, -1))]
    states = 1
    while queue and len(parts.names) < most:
        _, _, node, place = heapq.heappop(queue)
        for action in node.actions:
            if not action.visits:
                continue
            where = parts.add(action.label, place, action.visits, action.erm, f"action, {action.visits:,} visits")
            children, rest, visits = action.most_visited(min(_MOST_CHILDREN, max(3, (most - len(parts.names)) // 4)))
            for child in children:
                states += 1
                below = add(child, where)
                if not child.is_leaf:
                    heapq.heappush(queue, (-child.visits, next(order), child, below))
            if rest:
                parts.add(f"{rest:,} more states", where, visits, math.nan, f"not shown, {visits:,} visits")
    what = (
        f"The tree as it was searched: states and, below each, the actions taken there. Size: visits. Colour: ERM of "
        f"what is still to come from there, by rank from good (dark) to bad (bright), grey where it was not estimated. "
        f"{states:,} states are shown, the most visited first"
    )
    total = root.tree_size
    what += f" of {total:,}; the others are left out." if total > states else "; nothing is left out."
    return _chart(parts, f"{what} Click to go down, or use the buttons.", sense), states, total - states


def scenario_tree(table: TabularMDP, solution: Policy, *, names: Sequence[str] = (), most: int = MOST_PARTS) -> Chart:
    """Return the drill-down of what may happen on a table: each first action, and then those of its optimum.

    ``names`` are those of the first actions, if not the table's.
    """
    parts, order = _Parts(), itertools.count()
    start = table.start
    values = solution.action_values(0)[start]
    first = parts.add(f"{table.state_name(start)}", -1, 1.0, solution.value, "the decision")
    queue: list[tuple[float, int, int, int, int, int]] = []
    ids = table.actions(start)
    for k, action in enumerate(ids):
        name = names[k] if names else table.action_name(int(action))
        place = parts.add(name, first, 1.0 / ids.size, float(values[action]), "action, if it is taken")
        heapq.heappush(queue, (-1.0, next(order), start, int(action), 0, place))
    left_out = False
    while queue:
        if len(parts.names) >= most:
            left_out = True
            break
        negative, _, state, action, h, place = heapq.heappop(queue)
        for outcome in sorted(table.outcomes(state, action, h), key=lambda one: -one.probability):
            chance = -negative * outcome.probability
            target, over = int(outcome.next_state), bool(outcome.done) or h + 1 == table.horizon
            name = f"{100 * outcome.probability:.4g} %: {table.state_name(target)}"
            note = f"{step_word()} {h + 1}, {table.sense} {amount(number(outcome.cost))}, "
            note += f"probability {chance:.4g} after the first action"
            later = h + 1 if table.horizon is not None else min(h + 1, len(solution.policy) - 1)
            erm = 0.0 if outcome.done else float(solution.values[later, target])
            follows = -1 if over else int(solution.policy[later, target])
            if follows >= 0:
                name += f", then {table.action_name(follows)}"
            below = parts.add(name, place, chance / ids.size, erm, note)
            if follows >= 0:
                heapq.heappush(queue, (-chance, next(order), target, follows, h + 1, below))
    what = (
        "What may happen: each first action and its outcomes, and then the optimal actions with theirs. Size: "
        "probability. Colour: ERM of what is still to come from there, by rank from good (dark) to bad (bright). "
        + (
            f"The {len(parts.names):,} likeliest parts are shown, the others are left out."
            if left_out
            else "Nothing is left out."
        )
    )
    return _chart(parts, f"{what} Click to go down, or use the buttons.", table.sense)


def _chart(parts: _Parts, caption: str, sense: str) -> Chart:
    sign = 1.0 if sense == "cost" else -1.0
    known = np.unique([sign * erm for erm in parts.erms if math.isfinite(erm)])
    weights = np.array(parts.weights, dtype=np.float64)
    inside = np.zeros(weights.size)
    for place in range(weights.size - 1, -1, -1):  # no part is smaller than those in it, which come later
        weights[place] = max(weights[place], inside[place])
        if parts.parents[place] >= 0:
            inside[parts.parents[place]] += weights[place]
    texts = [
        f"{label(note)}<br>ERM to come {number(erm)}" if math.isfinite(erm) else label(note)
        for note, erm in zip(parts.notes, parts.erms, strict=True)
    ]
    colours = [_colour(sign * erm, known) for erm in parts.erms]
    trace = {
        "type": "icicle",
        "ids": [str(k) for k in range(len(parts.names))], "labels": [label(name, 28) for name in parts.names],
        "parents": ["" if parent < 0 else str(parent) for parent in parts.parents], "values": weights,
        "branchvalues": "total",
        "marker": {"colors": [colour for colour, _ in colours], "line": {"width": 0.5, "color": "@page"}},
        "text": texts, "textinfo": "label", "hovertemplate": "%{label}<br>%{text}<extra></extra>",
        "textfont": {"color": [text for _, text in colours]}, "pathbar": {"textfont": {"color": "@text"}},
    }  # fmt: skip
    margin = {"l": 4, "r": 4, "t": 8, "b": 8}
    return Chart(caption, (trace,), {"margin": margin}, height=420, names=tuple(parts.names))


def _colour(erm: float, known: Floats) -> tuple[str, str]:
    """Return the colour of an ERM, by its rank among those known, and one of text on it."""
    if not math.isfinite(erm):
        return _UNKNOWN, "#000"
    red, green, blue = viridis(np.searchsorted(known, erm) / max(1, known.size - 1))
    light = 0.299 * red + 0.587 * green + 0.114 * blue
    return f"rgb({red},{green},{blue})", "#000" if light > 120 else "#fff"


def viridis(share: float) -> tuple[int, int, int]:
    """Return red, green and blue of a place on the scale, 0 to 1."""
    place = share * (len(VIRIDIS) - 1)
    k = min(int(place), len(VIRIDIS) - 2)
    red, green, blue = (round(a + (place - k) * (b - a)) for a, b in zip(VIRIDIS[k], VIRIDIS[k + 1], strict=True))
    return red, green, blue
