"""The commands, collected, and how a function becomes one.

Its parameters that are dataclasses become an option for each field, and come back as one value.
"""

from __future__ import annotations

import importlib
import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tailwise import __version__
from tailwise.errors import TailwiseError


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to ``app`` as a command; parameters that are dataclasses become an option for each field."""

    def added(function: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(function, include_extras=True)
        sets: dict[str, list[str]] = {}
        flat: list[inspect.Parameter] = []
        for parameter in inspect.signature(function).parameters.values():
            kind = hints[parameter.name]
            if not (isinstance(kind, type) and is_dataclass(kind)):
                flat.append(parameter.replace(annotation=kind, kind=parameter.KEYWORD_ONLY))
                continue
            inner = typing.get_type_hints(kind, include_extras=True)
            sets[parameter.name] = [field.name for field in fields(kind)]
            for field in fields(kind):
                default = inspect.Parameter.empty if field.default is MISSING else field.default
                flat.append(
                    parameter.replace(
                        name=field.name, default=default, annotation=inner[field.name], kind=parameter.KEYWORD_ONLY
                    )
                )

        def run(**given: Any) -> None:
            whole = {k: hints[k](**{name: given.pop(name) for name in names}) for k, names in sets.items()}
            try:
                function(**given, **whole)
            except TailwiseError as error:
                error.args = (_as_options(str(error), [one.name for one in flat if one.name not in _ARGUMENTS]),)
                raise

        run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
        run.__doc__ = function.__doc__
        app.command(name, cls=_LogCommand if "log" in run.__annotations__ else _Command)(run)
        return function

    return added


_ARGUMENTS = ("model", "log", "study", "out", "problem", "name")  # what is named without an option, or another thing
_PYTHON = {
    "model.with_options(horizon=None)": "--horizon none",
    "tailwise.solve or make_planner(model, beta)": "'tailwise solve' or 'tailwise plan'",
    "make_planner(model, beta)": "'tailwise plan'",
    "the worst case is WorstCase()": "the worst case is --cvar 1",
}  # fmt: skip


def _as_options(text: str, names: list[str]) -> str:
    """Say a message of Python in words of the command line: ``max_states=`` is --max-states here."""
    for python, option in _PYTHON.items():
        text = text.replace(python, option)
    columns = "" if "states" in names else "(?!COLUMN)"  # of a log, which are options of MODEL
    if not columns:
        text = text.replace("state=COLUMN", "--states COLUMN")
    named = rf"(?<![\w?&'\".])({'|'.join(names)})"

    def as_option(match: re.Match[str]) -> str:
        return " ".join(filter(None, (f"--{match[1].replace('_', '-')}", *match.groups()[1:])))

    text = re.sub(rf"^{named}(?= must )", as_option, text)
    return re.sub(rf"{named}=(?:'([\w.:-]+)'|{columns}([A-Z]+)\b|(?![\w'\"]))", as_option, text)


class _Command(TyperCommand):
    """A command that refuses an option given twice, or one file for two things: one would be lost in silence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        for k, one in enumerate(order):
            if one in order[:k] and one.param_type_name == "option" and not one.multiple:
                ctx.fail(f"Option '{one.opts[0]}' is given twice; give it once.")
        left = super().parse_args(ctx, args)
        files: dict[Path, tuple[str, bool]] = {}
        has_path = any(isinstance(value, Path) for value in ctx.params.values())
        for one in self.params:
            value, is_option = ctx.params.get(one.name or ""), one.param_type_name == "option"
            if has_path and isinstance(value, str) and (not is_option or one.name == "prior"):
                value = _file_of(value)
            if isinstance(value, Path):
                said = one.opts[0] if is_option else str(one.metavar), is_option
                other = files.setdefault(value.resolve(), said)
                if other != said and (is_option or other[1]):  # two arguments are what the command is for: convert
                    ctx.fail(f"{other[0]} and {said[0]} name one file, {value}; give each its own.")
        return left


def _file_of(text: str) -> Path | None:
    """Return the file that is read for an argument, if it is one: a name of a domain is none."""
    from tailwise.formats.registry import is_file, parse_spec

    try:
        target = parse_spec(text).target
    except TailwiseError:  # it is said where the argument is read
        target = text
    return Path(target) if is_file(target) else None


class _LogCommand(_Command):
    """A command that takes a model: ``--episodes`` without a number says that MODEL is a log of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        numbers = [after.lstrip("+-")[:1].isdigit() for after in [*args[1:], ""]]
        return super().parse_args(
            ctx, ["--log" if a == "--episodes" and not numbers[k] else a for k, a in enumerate(args)]
        )


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
