"""``tailwise domains``: the problems that come with tailwise."""

from __future__ import annotations

from tailwise.cli import options as given
from tailwise.cli.output import print_json, show_table


def command(json: given.Json = False) -> None:
    """List the built-in problems and their options."""
    from tailwise.domains import list_domains

    found = list_domains()
    if json:
        names = ("name", "kind", "summary", "options")
        print_json({"domains": [{name: getattr(domain, name) for name in names} for domain in found]})
        return
    rows = [(domain.name, domain.kind, domain.summary) for domain in found]
    show_table(("name", "kind", "what it is"), rows, spare=("kind",), texts=("kind", "what it is"))
