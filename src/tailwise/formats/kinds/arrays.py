"""Arrays P and R in MATLAB's and NumPy's files: the toolboxes' (S, S, A), (A, S, S) or (S, A, S)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tailwise._validate import choice
from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.formats.list_options import check_common, settled
from tailwise.formats.registry import register_format
from tailwise.models import TabularMDP

_ORDERS = ("SSA", "ASS", "SAS")
_CHANCES = ("P", "T", "transitions", "transition", "probabilities")
_VALUES = {"R": "rewards", "rewards": "rewards", "reward": "rewards", "C": "costs", "costs": "costs", "cost": "costs"}


def table_of_arrays(
    arrays: Mapping[str, Any],
    path: Path,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
    order: str | None = None,
) -> TabularMDP:
    """Build a table from a file's arrays: P (or T), R or C, and perhaps gamma and start.

    The order of P is that in which its rows sum to 1; where two do, ``order`` must say which is meant.
    """
    check_common(horizon, discount, start)
    if order is not None:
        choice(order, "order", _ORDERS)
    lower = {name.lower(): value for name, value in arrays.items()}
    chances = next((lower[name.lower()] for name in _CHANCES if name.lower() in lower), None)
    named = next((name for name in _VALUES if name.lower() in lower), None)
    if chances is None or named is None:
        has = ", ".join(arrays) or "nothing"
        raise FormatError(f"{path}: it holds {has}; expected P (or T) and R (or C)")
    values = lower[named.lower()]
    notes = [f"read as arrays {named} and P"]
    if isinstance(chances, np.ndarray) and chances.dtype == object:  # a cell array, of one matrix an action
        chances, order = np.stack([_dense(item) for item in chances.reshape(-1)]), "ASS"
        if isinstance(values, np.ndarray) and values.dtype == object:
            values = np.stack([_dense(item) for item in values.reshape(-1)])
    chances, values = _dense(chances), _dense(values)
    order = _order(chances, path) if order is None else order
    if values.ndim == 2 and 1 in values.shape and chances.shape[order.index("A")] != 1:
        values = values.reshape(-1)  # MATLAB has no vectors
    kind = {1: "S", 2: "SA", 3: "ASS" if order == "SSA" else order}.get(values.ndim)
    if order == "SSA":
        chances = np.moveaxis(chances, 2, 0)
        values = np.moveaxis(values, 2, 0) if values.ndim == 3 else values
    if discount is None:
        found = next((lower[name] for name in ("gamma", "discount") if name in lower), None)
        discount = 1.0 if found is None else float(np.asarray(found).reshape(-1)[0])
    horizon, discount = settled(horizon, discount, notes)
    given: dict[str, Any] = {_VALUES[named]: values}
    try:
        mdp = TabularMDP.from_arrays(
            chances, **given, order="SAS" if order == "SAS" else "ASS", costs_order=kind, horizon=horizon,
            discount=discount, start=0 if start is None else int(start), name=path.name,
        )  # fmt: skip
    except (ModelError, ValueError) as error:
        raise FormatError(f"{path}: {error}") from None
    return replace(mdp, notes=(*mdp.notes, *notes))


def _dense(value: Any) -> Any:
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)


def _order(chances: Any, path: Path) -> str:
    if chances.ndim != 3 or chances.dtype.kind not in "iufb":
        raise FormatError(
            f"{path}: P has shape {chances.shape}; expected three axes, of numbers: (S,S,A), (A,S,S) or (S,A,S)"
        )
    found = []
    for order in _ORDERS:
        states = [chances.shape[k] for k, axis in enumerate(order) if axis == "S"]
        if states[0] == states[1] and np.allclose(chances.sum(axis=order.rindex("S")), 1.0, rtol=0, atol=1e-6):
            found.append(order)
    if len(found) != 1:
        what = "rows of P sum to 1 in no order" if not found else f"P may be {' or '.join(found)}"
        raise (OptionError if found else FormatError)(
            f"{path}: shape {chances.shape}: {what}; say order=SSA, ASS or SAS"
        )
    return found[0]


def read_matlab(
    path: Path,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
    order: str | None = None,
) -> TabularMDP:
    """Arrays P and R of a MATLAB file, as the MDP toolbox has them."""
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except NotImplementedError:
        hint = "files of version 7.3 (HDF5) are not read: in MATLAB, save with the option '-v7'"
        raise FormatError(f"{path}: {hint}") from None
    except Exception as error:  # scipy raises many types
        raise FormatError(f"{path}: not a readable MATLAB file: {str(error)[:200]}") from None
    arrays = {name: value for name, value in content.items() if not name.startswith("__")}
    return table_of_arrays(arrays, path, horizon=horizon, discount=discount, start=start, order=order)


register_format("matlab", read_matlab, extensions=(".mat",))
