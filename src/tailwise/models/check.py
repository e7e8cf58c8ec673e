"""``check_model``: everything that is wrong with a model, at once, with where and how to fix it.

Each rule is written once: what all kinds share in :mod:`tailwise.models.contract`, a table's in
:mod:`tailwise.models.check_table`, a simulator's shape and answers in :mod:`tailwise.models.simulator`, and what only
trying it out can show in :mod:`tailwise.models.check_simulator`.
"""

from __future__ import annotations

from typing import Any

from tailwise.errors import ModelError
from tailwise.models.check_table import Report
from tailwise.models.partly_observed import check_hidden
from tailwise.models.simulator import is_partly_observed, refuse_hidden, validate_simulator


def check_model(model: Any) -> Report:
    """Report every violation of the model contract.

    Parameters
    ----------
    model : TabularMDP or simulator
        The model to check. Nothing is raised: see ``report.raise_for_errors()``. A simulator is tried
        out on a few random episodes, as :func:`tailwise.check_simulator` does at more length.

    Returns
    -------
    Report
        ``report.ok``, ``report.violations`` and ``report.warnings``; prints as a list.

    Raises
    ------
    ModelError
        If ``model`` is no model at all.

    Examples
    --------
    >>> from tailwise import TabularMDP, check_model
    >>> broken = TabularMDP.from_arrays([[[0.5, 0.4], [1, 0]], [[0, 1], [0, 1]]], order="SAS",
    ...                                 costs=[[0, 1], [2, 2]], horizon=3, validate=False)
    >>> print(check_model(broken))
    table: 1 violation
      error    state 0, action 0: probabilities sum to 0.9; they must sum to 1
    """
    if is_partly_observed(model):
        return check_hidden(model)
    if hasattr(model, "require_sound"):
        return model.check()  # type: ignore[no-any-return]
    if not hasattr(model, "step") and not hasattr(model, "actions"):
        raise ModelError(f"{type(model).__name__} is not a model; expected a TabularMDP or a simulator")
    from tailwise.models.check_simulator import check_simulator  # it imports what only simulators need

    return check_simulator(model, 0, episodes=5)


def require_model(model: Any, *, endless: bool = False) -> None:
    """Raise ``ModelError`` for what can be seen without running anything; every entry point calls this.

    A table is looked through, once in its life; of a simulator the methods, their arguments and the attributes.
    """
    refuse_hidden(model)
    own = getattr(model, "require_sound", None)
    if own is not None:
        own(endless=endless)
        return
    validate_simulator(model, endless=endless)
