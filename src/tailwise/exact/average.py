r"""The average criterion: the rate at which the ERM of the total of T steps grows with T.

With ``T h(s) = min over a of ERM_beta(c + h(s'))`` the rate g and the bias h solve ``g + h = T h``; exp(beta g) is the
least (for beta < 0 the largest) spectral radius of the tilted matrices exp(beta c) p, h the logarithm of its vector
(Howard & Matheson, 1972). For any h (Collatz & Wielandt)

    min over s of (T h - h)(s) <= g <= max over s of (T h - h)(s),

from every state, which is what is told. Where both ends do not meet, rates differ between states, and the table is
refused. Newton's method on the equation is Howard's policy iteration; sweeps, of which half stays where it is so that
nothing has a period, come before, and wherever it does not bring the ends nearer.
"""

from __future__ import annotations

import numpy as np

from tailwise._arrays import Bools, Floats, Ints, marked
from tailwise.errors import ModelError
from tailwise.exact.parts import Part, components, reached_from, solved, words_of
from tailwise.models import TabularMDP

_ROUNDS = 200
_SWEEPS = 50
_MOST_SWEEPS = 20_000


def solve_average(mdp: TabularMDP, beta: float) -> tuple[float, float, Floats, Ints]:
    """Return bounds on the rate, the bias (0 at the start), and the best row of each state."""
    part = _reached(mdp)
    alive = part.decides
    bias, sweeps, done = np.zeros(part.size), _SWEEPS, 0
    best, width = (bias, -np.inf, np.inf), np.inf
    for _ in range(_ROUNDS):
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
        elif width <= _close(part, best[0]) or done > _MOST_SWEEPS:
            break
        else:
            bias, sweeps = best[0], max(_SWEEPS, 2 * sweeps)
            continue
        moved = _newton(part, part.taking(part.best_rows(risks, after)), bias, beta, alive, mdp.start)
        if moved is None or not np.isfinite(moved).all():
            sweeps = max(_SWEEPS, 2 * sweeps)
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


def _close(part: Part, bias: Floats) -> float:
    return 4.0 * part.rounding(bias)


def _newton(part: Part, chosen: Part, bias: Floats, beta: float, alive: Bools, start: int) -> Floats | None:
    """Return the bias after a step of Newton's method on ``g + h = T h`` with h = 0 at the start."""
    from scipy.sparse import csr_array, diags_array, eye_array

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
