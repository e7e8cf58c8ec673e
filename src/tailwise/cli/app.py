"""The commands, collected."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from tailwise._version import __version__

# Order of the help page. Each module has ``register(app)``; heavy imports wait until a command runs.
_COMMANDS = (
    *("plan", "solve", "frontier", "beta", "evaluate", "compare", "explore"),
    *("info", "convert", "domains"),
    *("reproduce", "bandit", "theory"),
)

app = typer.Typer(
    name="tailwise",
    help="Planning under risk: which action to take now, its whole cost distribution, and how sure that is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tailwise {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


for _name in _COMMANDS:
    importlib.import_module(f"tailwise.cli.{_name}").register(app)
