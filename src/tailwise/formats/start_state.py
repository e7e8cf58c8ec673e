"""Which state a user means by ``start=``: one rule for every source, saved or not."""

from __future__ import annotations

from collections.abc import Sequence


def find_named_start(start: int | str, num_states: int, labels: Sequence[str]) -> int | None:
    """Return the index of the state ``start``, or None if there is none.

    A name counts before an index: a source whose ids count from 1 labels its states "1", "2", ..., and 1
    means "1" in it, as a number or as a text, now and after it was saved. Where labels are numbers,
    indices do not count at all.

    Parameters
    ----------
    start : int or str
        A label, or an index.
    num_states : int
        Number of states.
    labels : sequence of str
        Names of the states; empty if there are none.

    Returns
    -------
    int or None

    Examples
    --------
    >>> from tailwise.formats.start_state import find_named_start
    >>> [find_named_start(1, 3, names) for names in (("1", "2", "3"), ("a", "b", "c"), ())]
    [0, 1, 1]
    """
    text = str(start)
    if text in labels:
        return list(labels).index(text)
    is_index = text.isascii() and text.isdigit() and len(text) < 19 and int(text) < num_states
    return int(text) if is_index and not any(map(str.isdigit, labels)) else None
