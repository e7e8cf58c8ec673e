"""The totals that a search sampled through each action of its root: their moments, and the latest of them."""

from __future__ import annotations

from tailwise._jit import inlined

MEAN, SPREAD, LOW, HIGH = 0, 1, 2, 3  # columns of the moments; SPREAD is the sum of squared deviations


@inlined
def note_total(counts, moments, latest, action, total):  # type: ignore[no-untyped-def]
    """Note a total sampled through ``action``; the number of latest ones is a power of 2."""
    count = counts[action]
    latest[action, count & (latest.shape[1] - 1)] = total
    counts[action] = count + 1
    gap = total - moments[action, MEAN]
    moments[action, MEAN] += gap / (count + 1)
    moments[action, SPREAD] += gap * (total - moments[action, MEAN])
    moments[action, LOW] = min(moments[action, LOW], total)
    moments[action, HIGH] = max(moments[action, HIGH], total)
