"""The commands, collected."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tailwise._version import __version__
from tailwise.cli.options import command

# The module of each command, in the order of the help page; it is imported when one of its commands is asked for.
_COMMANDS = {
    "plan": "plan", "solve": "plan", "frontier": "trade_offs", "beta": "trade_offs", "evaluate": "evaluate",
    "compare": "evaluate", "run": "evaluate", "explore": "serve", "serve": "serve", "learn": "models",
    "whatif": "trade_offs", "info": "models", "convert": "models", "domains": "models", "planners": "models",
    "reproduce": "paper", "bandit": "paper", "theory": "paper",
}  # fmt: skip


def add(app: typer.Typer, name: str) -> None:
    """Add the command, or the group of commands, of a name to ``app``."""
    found = getattr(importlib.import_module(f"tailwise.cli.{_COMMANDS[name]}"), name)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        command(app, name)(found)


class _Commands(TyperGroup):
    """Commands that are imported one by one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = dict.fromkeys(_COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help page."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        """Return a command, or None if there is none of that name."""
        if cmd_name in _COMMANDS and self.commands[cmd_name] is None:
            part = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            add(part, cmd_name)
            made = typer.main.get_command(part)
            self.commands[cmd_name] = made.commands[cmd_name] if isinstance(made, TyperGroup) else made
        found: TyperCommand | TyperGroup | None = self.commands.get(cmd_name)
        return found


app = typer.Typer(
    cls=_Commands,
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
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
