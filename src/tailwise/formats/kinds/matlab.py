"""MATLAB's files, through scipy."""

from __future__ import annotations

from pathlib import Path

from tailwise.errors import FormatError
from tailwise.formats.array_files import table_of_arrays
from tailwise.formats.registry import register_format
from tailwise.models import TabularMDP


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
    except Exception as error:  # scipy raises many types
        raise FormatError(f"{path}: not a readable MATLAB file: {str(error)[:200]}") from None
    arrays = {name: value for name, value in content.items() if not name.startswith("__")}
    return table_of_arrays(arrays, path, horizon=horizon, discount=discount, start=start, order=order)


register_format("matlab", read_matlab, extensions=(".mat",))
