"""How an old name says that it will go (docs/deprecation.md has the policy)."""

from __future__ import annotations

import warnings


def warn_deprecated(old: str, *, instead: str, since: str, removed_in: str, stacklevel: int = 2) -> None:
    """Warn at the line of the user's that an old name will go.

    Parameters
    ----------
    old, instead : str
        What was used, and what to use.
    since, removed_in : str
        The version that began to warn, and the one without the old name. Written as literals: a test compares them.
    stacklevel : int, default 2
        How many callers up the user is; 2 where a public function warns by itself.
    """
    warnings.warn(
        f"{old} is deprecated since tailwise {since} and goes with {removed_in}; use {instead} instead",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )
