r"""Criteria without end that no total is needed for: discounted costs, and the average.

*Discounted, with one level for all steps.*

    V(s) = min over a of ERM_beta(c + discount V(s'))

is a contraction with factor ``discount``. Newton's method on it is policy iteration: the rows that are best now, and
their tilted matrix Q as derivative,

    V <- V + (I - discount Q)^-1 (T V - V),

which at beta = 0 is Howard's. Steps that do not bring V nearer give way to sweeps. With ``r = T V - V`` the fixed point
lies in ``T V + discount / (1 - discount) [min r, max r]`` (MacQueen, Porteus), which is what is told.

*Discounted, with a level that fades.* The ERM of the discounted total has level ``beta discount^h`` at step h: it
fades, and what is left is nearly risk-neutral (Baeuerle, Pitera & Stettner, 2026; Hau, Petrik & Ghavamzadeh, 2023).
From step T on the policy is the stationary one of the least mean m. By Hoeffding's lemma its ERM from there on lies in
``m + [0, beta_T w^2 / 8]`` for beta > 0 (reflected for beta < 0), w being the range of the totals, and so does the
optimum; backward induction over the T steps before carries both ends to step 0, where they are ``|beta| discount^(2T)
w^2 / 8`` apart.

*The average* is the rate at which the ERM of the total of T steps grows with T. With ``T h(s) = min over a of
ERM_beta(c + h(s'))`` the rate g and the bias h solve ``g + h = T h``; exp(beta g) is the least (for beta < 0 the
largest) spectral radius of the tilted matrices exp(beta c) p, h the logarithm of its vector (Howard & Matheson, 1972).
For any h (Collatz & Wielandt)

    min over s of (T h - h)(s) <= g <= max over s of (T h - h)(s),

from every state, which is what is told. Where both ends do not meet, rates differ between states, and the table is
refused. Newton's method on the equation is Howard's policy iteration; sweeps, of which half stays where it is so that
nothing has a period, come before, and wherever it does not bring the ends nearer.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array

from tailwise._arrays import Bools, Floats, Ints, marked
from tailwise.errors import ModelError, OptionError
from tailwise.exact.parts import Part, solved, words_of
from tailwise.exact.reachability import components, reached_from
from tailwise.models import TabularMDP

_ROUNDS = 500
_SWEEPS = 10
_PATIENCE = 4  # steps of Newton in a row that bring the bounds no nearer: rough ones may take them apart first
_ROUGH, _EXACT = 1e-2, 1e-9  # how well linear equations are solved


def contracted(part: Part, beta: float, discount: float) -> tuple[Floats, Floats, Floats, Ints]:
    """Return the fixed point, bounds on it, and the best row (``ids``) of each state whose value is finite."""
    deciding = part.deciding
    values = np.full(part.size, np.inf)
    values[deciding] = 0.0
    settled = _lead_to_nothing(part, values)
    deciding = settled.deciding
    sweeps, close, patience = _SWEEPS, 0.0, _PATIENCE
    best, gap, last = values, np.inf, np.empty(0, np.int64)
    for _ in range(_ROUNDS):
        for _ in range(sweeps):
            values[deciding] = settled.least(settled.risks(values, beta, discount))[deciding]
        risks = settled.risks(values, beta, discount)
        after = settled.least(risks)
        with np.errstate(invalid="ignore"):
            moved = np.where(np.isfinite(values), after - values, 0.0)
        reach = float(moved.max(initial=0.0) - moved.min(initial=0.0)) * discount / (1.0 - discount)
        close = 4.0 * settled.rounding(values, discount) / (1.0 - discount)
        if reach < 0.5 * gap:
            best, gap, sweeps, patience = values.copy(), reach, 0, _PATIENCE
        elif patience and reach > close and np.isfinite(reach):
            patience -= 1
        elif reach > close and sweeps < 10_000:
            sweeps = max(1, 4 * sweeps)
            continue
        if reach <= close or sweeps >= 10_000:
            break
        rows = settled.best_rows(risks, after)
        _, tilted = settled.taking(rows).tilted(values, beta, discount)
        within = _EXACT if np.array_equal(rows, last) else _ROUGH  # rows that will change need no exact values
        found = solved(eye_array(part.size) - discount * tilted, moved, within=within)
        last = rows
        if found is None:
            sweeps = _SWEEPS
            continue
        values = np.where(np.isfinite(values), values + found[0], values)
    values = best
    risks = settled.risks(values, beta, discount)
    after = settled.least(risks)
    with np.errstate(invalid="ignore"):
        moved = np.where(np.isfinite(values), after - values, 0.0)
    slack = settled.rounding(values, discount) / (1.0 - discount)
    share = discount / (1.0 - discount)
    low = after + share * float(moved.min(initial=0.0)) - slack
    high = after + share * float(moved.max(initial=0.0)) + slack
    return after, low, high, settled.ids[settled.best_rows(risks, after)]


def _lead_to_nothing(part: Part, values: Floats) -> Part:
    """Leave out rows that can lead to states without an action, and give +inf to states that have no other."""
    while True:
        left = part.where(~part.rows_into(values == np.inf))
        stuck = np.setdiff1d(part.deciding, left.deciding)
        stuck = stuck[values[stuck] < np.inf]
        if not stuck.size:
            return left
        values[stuck] = np.inf


_MOST = 2**33  # bytes of values and policy


def solve_fading(mdp: TabularMDP, beta: float, tolerance: float | None) -> tuple[Floats, Floats, Floats, Ints]:
    """Return values (T + 1, S), bounds at step 0 (S,), and rows (T + 1, S), of which the last is followed from T on."""
    part, discount = Part.of(mdp), mdp.discount
    mean, low, high, rows = contracted(part, 0.0, discount)
    off = float(np.abs(high - low)[np.isfinite(mean)].max(initial=0.0))
    ends = bool((part.targets < 0).any())
    width = float(np.ptp(np.append(part.costs, 0.0) if ends else part.costs)) / (1.0 - discount)
    size = max(float(np.abs(mean[np.isfinite(mean)]).max(initial=0.0)), 1e-3 * width)
    allowed = 1e-10 * size if tolerance is None else tolerance
    bound = abs(beta) * width**2 / 8.0
    steps = 0
    if bound > allowed:
        steps = math.ceil(math.log(allowed / bound) / (2.0 * math.log(discount)))
    if (steps + 1) * mdp.num_states * 16 > _MOST:
        raise OptionError(
            f"{steps} steps are needed until the level has faded, over {mdp.num_states} states: more than 8 GiB; give "
            "a larger tolerance="
        )
    values = np.empty((steps + 1, part.size))
    chosen = np.full((steps + 1, part.size), -1, np.int64)
    values[steps], chosen[steps, part.deciding] = mean, _rows_of(part, rows, mean)
    extra = bound * discount**steps  # at step T, in its unit
    slack = off
    for h in range(steps - 1, -1, -1):
        risks = part.risks(values[h + 1], beta * discount**h, discount)
        values[h] = part.least(risks)
        chosen[h, part.deciding] = part.ids[part.best_rows(risks, values[h])]
        slack = discount * slack + part.rounding(values[h + 1], discount)
    spread = extra * discount**steps
    first = values[0]
    below, above = (0.0, spread) if beta > 0.0 else (spread, 0.0)
    return values, first - below - slack, first + above + slack, chosen


def _rows_of(part: Part, rows: Ints, values: Floats) -> Ints:
    """Return the table's rows of the deciding states; those without a finite value take their first."""
    ids = part.ids[part.first_rows].copy()
    places = np.isfinite(values)[part.deciding]
    ids[places] = rows
    return ids


_MOST_ROUNDS = 200
_FIRST_SWEEPS = 50
_MOST_SWEEPS = 20_000


def solve_average(mdp: TabularMDP, beta: float) -> tuple[float, float, Floats, Ints]:
    """Return bounds on the rate, the bias (0 at the start), and the best row of each state."""
    part = _reached(mdp)
    alive = part.decides
    bias, sweeps, done = np.zeros(part.size), _FIRST_SWEEPS, 0
    best, width = (bias, -np.inf, np.inf), np.inf
    for _ in range(_MOST_ROUNDS):
        for _ in range(sweeps):
            bias = np.where(alive, 0.5 * (bias + part.least(part.risks(bias, beta))), 0.0)
            bias = bias - np.where(alive, bias[mdp.start], 0.0)
        done += sweeps
        risks = part.risks(bias, beta)
        after = part.least(risks)
        rates = (after - bias)[alive]
        low, high = float(rates.min()), float(rates.max())
        if high - low < 0.5 * width:
            best, width, sweeps = (bias, low, high), high - low, 0
        elif width <= 4.0 * part.rounding(best[0]) or done > _MOST_SWEEPS:
            break
        else:
            bias, sweeps = best[0], max(_FIRST_SWEEPS, 2 * sweeps)
            continue
        moved = _newton(part, part.taking(part.best_rows(risks, after)), bias, beta, alive, mdp.start)
        if moved is None or not np.isfinite(moved).all():
            sweeps = max(_FIRST_SWEEPS, 2 * sweeps)
        else:
            bias = moved
    bias, low, high = best
    slack = part.rounding(bias)
    if high - low > 1e-9 * max(abs(low), float(np.abs(part.costs).max())) + 2.0 * slack:
        raise _multichain(mdp, part, bias, beta)
    risks = part.risks(bias, beta)
    rows = np.full(mdp.num_states, -1, np.int64)
    rows[part.deciding] = part.ids[part.best_rows(risks, part.least(risks))]
    return low - slack, high + slack, np.where(alive, bias, np.nan), rows


def _reached(mdp: TabularMDP) -> Part:
    """Return the rows of what the start can reach; an end there is refused: nothing is paid after it."""
    whole = Part.of(mdp)
    part = whole.where(reached_from(whole, [mdp.start])[whole.states])
    ending = np.unique(part.states[part.owners[part.targets < 0]])
    if ending.size:
        raise ModelError(
            f"an average needs a plant that runs for ever; episodes can end in {words_of(mdp, ending)}: use the total, "
            "or let what ends begin anew"
        )
    return part


def _newton(part: Part, chosen: Part, bias: Floats, beta: float, alive: Bools, start: int) -> Floats | None:
    """Return the bias after a step of Newton's method on ``g + h = T h`` with h = 0 at the start."""
    risks, tilted = chosen.tilted(bias, beta)
    residual = np.zeros(part.size)
    residual[chosen.states] = risks - bias[chosen.states]
    # the start's own unknown, which is 0, makes room for the rate
    keep = np.ones(part.size)
    keep[start] = 0.0
    ones = csr_array(
        (np.ones(int(alive.sum())), (np.flatnonzero(alive), np.full(int(alive.sum()), start))),
        shape=(part.size,) * 2,
    )
    matrix = (eye_array(part.size) - tilted) @ diags_array(keep) + ones
    found = solved(matrix, residual)
    if found is None:
        return None
    step = found[0].copy()
    step[start] = 0.0
    return np.where(alive, bias + step, 0.0)


def _multichain(mdp: TabularMDP, part: Part, bias: Floats, beta: float) -> ModelError:
    """Say which states part the table into chains of different rates."""
    risks = part.risks(bias, beta)
    chosen = part.taking(part.best_rows(risks, part.least(risks)))
    count, labels = components(chosen)
    going = chosen.targets >= 0
    origins, targets = labels[chosen.states[chosen.owners[going]]], labels[chosen.targets[going]]
    left = marked(count, origins[origins != targets])
    closed = [k for k in np.unique(labels[part.deciding]).tolist() if not left[k]]
    if len(closed) > 1:
        chains = "; ".join(words_of(mdp, np.flatnonzero(labels == k)) for k in closed[:3])
        why = f"it stays for ever in one of {len(closed)} chains ({chains})"
    else:
        why = "what lies on the way grows faster than the chain that it leads to"
    return ModelError(
        f"{mdp.name} has no single rate at beta {beta:g}: {why}. An average is there for unichain tables: leave out "
        "the other states, or begin in each"
    )
