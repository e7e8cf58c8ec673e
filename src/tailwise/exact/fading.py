r"""The ERM of the discounted total without a horizon: an ultimately stationary policy, with its error.

At step h the level is ``beta discount^h``: it fades, and what is left is nearly risk-neutral (Baeuerle, Pitera &
Stettner, 2026; Hau, Petrik & Ghavamzadeh, 2023). From step T on the policy is the stationary one of the least mean m.
By Hoeffding's lemma its ERM from there on lies in ``m + [0, beta_T w^2 / 8]`` for beta > 0 (reflected for beta < 0), w
being the range of the totals, and so does the optimum; backward induction over the T steps before carries both ends to
step 0, where they are ``|beta| discount^(2T) w^2 / 8`` apart.
"""

from __future__ import annotations

import math

import numpy as np

from tailwise.errors import OptionError
from tailwise.exact.contraction import contracted
from tailwise.exact.parts import Floats, Ints, Part
from tailwise.models import TabularMDP

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
