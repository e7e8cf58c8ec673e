"""Models from and to files, and from the objects of other libraries."""

from typing import TYPE_CHECKING

from tailwise._lazy import lazy

if TYPE_CHECKING:
    from tailwise.formats.kinds.named import from_discrete_dp, from_mdptoolbox
    from tailwise.formats.loading import load, save
    from tailwise.formats.registry import Format, list_formats, register_format
    from tailwise.formats.summary import Summary, summarize

__all__ = [
    "Format",
    "Summary",
    "from_discrete_dp",
    "from_mdptoolbox",
    "list_formats",
    "load",
    "register_format",
    "save",
    "summarize",
]

__getattr__ = lazy(__name__)
