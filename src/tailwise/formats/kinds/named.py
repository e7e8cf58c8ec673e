"""What is no file: built-in problems, Gymnasium environments (tables where they have one), several models at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tailwise._validate import integer
from tailwise.errors import OptionError
from tailwise.formats.registry import register_format, value_of

if TYPE_CHECKING:
    from tailwise.models import Alternatives, GymnasiumSimulator, Simulator, TabularMDP


def read_domain(target: str, **options: Any) -> TabularMDP | Simulator:
    """Built-in problem, by name; see ``tailwise domains``."""
    from tailwise import domains
    from tailwise.formats.loading import with_common
    from tailwise.formats.registry import COMMON

    own = next((d.options for d in domains.list_domains() if d.name == target), ())
    names = {option.partition("=")[0] for option in own}
    rest = {name: options.pop(name) for name in COMMON if name in options and name not in names}
    return with_common(domains.make(target, **options), rest)


register_format("domain", read_domain, is_file=False)


def read_gym(
    target: str,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    start: int | str | None = None,
    levels: Any = None,
    foresight: bool = False,
    **options: Any,
) -> TabularMDP | GymnasiumSimulator:
    """Gymnasium environment by its id."""
    from tailwise.models import Discretized, GymnasiumSimulator, TabularMDP
    from tailwise.models.gymnasium import make_environment

    factor = 1.0 if discount is None else discount
    env = make_environment(target, **options)
    try:
        if getattr(env.unwrapped, "P", None) is not None and levels is None:
            if isinstance(start, str):
                start = integer(value_of(start), "start", low=0, hint=f"gym:{target} numbers its states")
            return TabularMDP.from_gymnasium(env, horizon=horizon, discount=factor, start=start)
    finally:
        env.close()
    if start is not None:
        raise OptionError(f"gym:{target} starts where its reset() puts it; start= is for tables")
    actions = None if levels is None else Discretized(levels=levels)
    return GymnasiumSimulator(target, horizon=horizon, discount=factor, actions=actions, foresight=foresight, **options)


register_format("gym", read_gym, is_file=False)


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
    from tailwise.models import Alternatives

    names = [name.strip() for name in target.split(",") if name.strip()]
    if not names:
        raise OptionError("alternatives: takes model files, with commas")
    given = {"horizon": horizon, "discount": discount, "start": start}
    common: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    tables: list[Any] = [load(name, **common) for name in names]
    return Alternatives.of(tables, weights, name=target)


register_format("alternatives", read_alternatives, is_file=False)
