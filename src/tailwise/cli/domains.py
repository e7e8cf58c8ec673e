"""``tailwise domains``: the problems that come with tailwise."""

from __future__ import annotations

import typer

from tailwise.cli.options import JsonOption
from tailwise.cli.output import console, print_json, table


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("domains")
    def domains(json: JsonOption = False) -> None:
        """List the built-in problems and their options."""
        from tailwise.domains import list_domains

        found = list_domains()
        if json:
            print_json(
                {
                    "domains": [
                        {"name": d.name, "kind": d.kind, "summary": d.summary, "options": d.options} for d in found
                    ]
                }
            )
            return
        rows = [(d.name, d.kind, d.summary) for d in found]
        built = table(("name", "kind", "what it is"), rows)
        for column in built.columns:
            column.justify, column.no_wrap = "left", column.header != "what it is"
        console().print(built)
