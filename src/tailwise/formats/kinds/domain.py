"""Built-in problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailwise.formats.registry import register_format

if TYPE_CHECKING:
    from tailwise.models import Simulator, TabularMDP


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
