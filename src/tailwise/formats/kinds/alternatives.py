"""Several model files of which one is true: ``alternatives:a.npz,b.npz?weights=(0.7,0.3)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailwise.errors import OptionError
from tailwise.formats.registry import register_format
from tailwise.models import Alternatives


def read_alternatives(
    target: str,
    *,
    weights: Sequence[float] | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
) -> Alternatives:
    """Model files with commas, of which one is true, unknown which."""
    from tailwise.formats.loading import load

    names = [name.strip() for name in target.split(",") if name.strip()]
    if not names:
        raise OptionError("alternatives: takes model files, with commas")
    given = {"horizon": horizon, "discount": discount, "start": start}
    common: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    tables: list[Any] = [load(name, **common) for name in names]
    return Alternatives.of(tables, weights, name=target)


register_format("alternatives", read_alternatives, is_file=False)
