"""Policies as charts: grids with their walls, queues and other small tables; and trees of what may follow.

States whose names are pairs of whole numbers, such as ``(3,0)``, are drawn as a grid, one cell each, for one step; a
cell that nothing leads to from the start is a wall, or might as well be one. Other states are drawn as rows, with a
column for each step.

What may follow is a drill-down: the tree that was searched, or what a table says may happen. Only the parts that weigh
most are shown: the tree is opened best first, by visits (or by probability), up to a number of parts; what is left out
is added up, and stands beside what is shown.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._arrays import Floats
from tailwise._results import amount, in_unit, number, step_word
from tailwise.errors import OptionError
from tailwise.exact import Policy
from tailwise.exact.reachability import reached_by
from tailwise.models import TabularMDP
from tailwise.report.charts import COLOURS
from tailwise.report.document import Chart, Paragraph, Table, label, literal
from tailwise.search import NodeView

_MOST_STATES, _MOST_CELLS, _MOST_ROWS = 60, 40, 40
_PAIR = re.compile(r"\(?\s*(-?\d+)\s*,\s*(-?\d+)\s*\)?")
WALL = "rgb(150,150,150)"
_ARROWS = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "north": "↑", "south": "↓", "west": "←", "east": "→",
    "north-east": "↗", "north-west": "↖", "south-east": "↘", "south-west": "↙",
}  # fmt: skip


def policy_chart(solution: Policy, step: int = 0) -> Chart:
    """Return the chart of a policy; see :func:`tailwise.report.plots.policy`."""
    mdp = solution.mdp
    solution.index(solution.start, step)
    if solution.policy is None:
        raise OptionError(
            f"a policy for the {solution.objective.words} acts on more than the state and the step: no action of each "
            "state can be drawn; policy.plot() draws its totals, and to_frame() says what it does after every sum paid"
        )
    reached = reached_by(mdp, np.ones(mdp.num_rows, np.bool_))
    places = _grid(mdp)
    if places is not None:
        return _grid_chart(solution, step, reached, *places)
    return _steps_chart(solution, reached)


def _grid(mdp: TabularMDP) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the row and column of each state, -1 for those beside the grid; None if it is no grid."""
    matches = [_PAIR.fullmatch(mdp.state_name(state)) for state in range(min(mdp.num_states, 4 * _MOST_CELLS**2))]
    pairs = [(int(match[1]), int(match[2])) for match in matches if match]
    is_sparse = len(pairs) < max(4, len(matches) / 2)
    if len(matches) < mdp.num_states or is_sparse or len(set(pairs)) < len(pairs):
        return None
    low = np.min(pairs, axis=0)
    if (np.max(pairs, axis=0) - low >= _MOST_CELLS).any():
        return None
    cells = iter(np.array(pairs) - low)
    places = np.array([next(cells) if match else (-1, -1) for match in matches], dtype=np.int64)
    return places[:, 0], places[:, 1]


def _grid_chart(
    solution: Policy, step: int, reached: NDArray[np.bool_], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> Chart:
    mdp, values = solution.mdp, solution.values[step]
    shape = int(rows.max()) + 1, int(columns.max()) + 1
    z, walls = np.full(shape, np.nan), np.ones(shape)
    texts = [["" for _ in range(shape[1])] for _ in range(shape[0])]
    hover = [["wall: nothing leads here" for _ in range(shape[1])] for _ in range(shape[0])]
    beside = []
    for state in range(mdp.num_states):
        action = int(solution.policy[step, state])
        name = mdp.action_name(action) if action >= 0 else ""
        r, c = rows[state], columns[state]
        if r < 0:
            beside.append(f"{label(mdp.state_name(state))}: {number(values[state], 5)}")
        elif reached[state]:
            walls[r, c] = np.nan
            z[r, c] = values[state]
            mark = _ARROWS.get(name.lower(), label(name, 9))
            texts[r][c] = f"<b>{mark}</b>" if state == mdp.start else mark
            hover[r][c] = f"{label(mdp.state_name(state))}<br>{label(name)}<br>ERM to come {number(values[state])}"
    shown = {"type": "heatmap", "xgap": 1, "ygap": 1, "text": hover, "hovertemplate": "%{text}<extra></extra>"}
    bar = {"title": {"text": "ERM"}, "thickness": 14}
    traces: list[dict[str, Any]] = [
        {**shown, "z": walls, "colorscale": [[0, WALL], [1, WALL]], "showscale": False},
        {**shown, "z": z, "colorscale": _scale(mdp.sense), "colorbar": bar},
    ]
    light = _is_light(z, mdp.sense)
    used = {mdp.action_name(int(action)).lower() for action in solution.policy[step, rows >= 0] if action >= 0}
    is_arrows = used <= _ARROWS.keys()
    square = {"scaleanchor": "x"} if is_arrows else {}
    layout = {
        "xaxis": {"dtick": 1, "showgrid": False, "zeroline": False, "constrain": "domain", "side": "top"},
        "yaxis": {"dtick": 1, "showgrid": False, "zeroline": False, "autorange": "reversed", **square},
        "annotations": [
            {"x": c, "y": r, "text": texts[r][c], "showarrow": False,
             "font": {"size": 20 if is_arrows else 11, "color": "#000" if light[r, c] else "#fff"}}
            for r in range(shape[0]) for c in range(shape[1]) if texts[r][c]
        ],
    }  # fmt: skip
    caption = f"Optimal action of each cell at {step_word()} {step}, beta {solution.beta:g}; colour: ERM to come. "
    caption += "Grey: walls, which nothing leads to; bold: the start."
    if beside:
        caption += f" Beside the grid: {', '.join(beside[:8])}" + (", ..." if len(beside) > 8 else ".")
    return Chart(caption, tuple(traces), layout, height=max(220, min(640, 70 * shape[0] + 80)))


def _steps_chart(solution: Policy, reached: NDArray[np.bool_]) -> Chart:
    mdp = solution.mdp
    states = np.flatnonzero(reached)
    names = [mdp.state_name(int(state)) for state in states]
    if all(re.fullmatch(r"-?\d+", name) for name in names):
        states = states[np.argsort([int(name) for name in names])]
    shown = states[:_MOST_STATES]
    policy = solution.policy[:, shown].T.astype(np.float64)
    policy[policy < 0] = np.nan
    used = sorted({int(action) for action in policy[np.isfinite(policy)]})
    place = {action: k for k, action in enumerate(used)}
    z = np.array([[place.get(int(a), np.nan) if a == a else np.nan for a in row] for row in policy])
    hover = [
        [
            f"{label(mdp.state_name(int(s)))}, {step_word()} {h}<br>"
            f"{label(mdp.action_name(int(solution.policy[h, s]))) if solution.policy[h, s] >= 0 else 'no action'}<br>"
            f"ERM to come {number(solution.values[h, s])}"
            for h in range(len(solution.policy))
        ]
        for s in shown
    ]
    count = max(1, len(used))
    shades = (
        COLOURS if count <= len(COLOURS) else ["rgb({},{},{})".format(*viridis(k / (count - 1))) for k in range(count)]
    )
    scale = [[(k + side) / count, shades[k]] for k in range(count) for side in (0, 1)]
    trace = {
        "type": "heatmap", "z": z, "zmin": -0.5, "zmax": count - 0.5, "colorscale": scale, "xgap": 1, "ygap": 1,
        "text": hover, "hovertemplate": "%{text}<extra></extra>",
        "y": [label(mdp.state_name(int(state)), 20) for state in shown],
        "colorbar": {
            "tickvals": list(range(count)), "ticktext": [label(mdp.action_name(action), 20) for action in used],
            "thickness": 14,
        },
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": step_word()}}, "yaxis": {"type": "category", "title": {"text": "state"}},
    }  # fmt: skip
    caption = f"Optimal action of each state at each {step_word()}, beta {solution.beta:g}."
    if states.size > shown.size:
        caption += f" {states.size - shown.size:,} more states are left out."
    return Chart(caption, (trace,), layout, height=max(240, min(900, 18 * shown.size + 110)))


def policy_table(solution: Policy) -> tuple[Paragraph, Table]:
    """Return the first decisions of a policy that goes by what was paid so far, with the range of that for each."""
    columns = solution.to_columns()
    rows = list(zip(*(columns[name] for name in ("step", "state", "paid_from", "paid_to", "action")), strict=True))
    paid = "paid" if solution.mdp.sense == "cost" else "earned"
    said = f"What to do goes by what was {paid} so far: if it lies in the range, take the action."
    if len(rows) > _MOST_ROWS:
        said += f" The first {_MOST_ROWS} of {len(rows):,} rows; `--policy FILE.csv` or `policy.to_csv` writes all."
    cells = tuple(
        (str(step), literal(str(state)), literal(str(action)), number(float(low)), number(float(high)))
        for step, state, low, high, action in rows[:_MOST_ROWS]
    )
    headings = (step_word(), "state", "action", in_unit(f"{paid} from"), "to")
    return Paragraph(said), Table(headings, cells, text_columns=3)


def _scale(sense: str) -> list[list[Any]]:
    colours = VIRIDIS if sense == "cost" else VIRIDIS[::-1]
    return [[k / (len(colours) - 1), f"rgb{colour}"] for k, colour in enumerate(colours)]


def _is_light(z: Floats, sense: str) -> NDArray[np.bool_]:
    """Return where the colour of a value is so light that text on it must be dark."""
    finite = z[np.isfinite(z)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    share = (z - low) / (high - low) if high > low else np.zeros_like(z)
    return np.asarray((share if sense == "cost" else 1.0 - share) > 0.55)


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
