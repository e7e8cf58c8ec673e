"""The entry point: collects the commands and turns errors into one line and exit code 2."""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import Annotated

import typer

from tailwise import __version__
from tailwise.errors import TailwiseError

# Order of the help page. Each module has ``register(app)``; heavy imports wait until a command runs.
_COMMANDS = (
    *("plan", "solve", "evaluate", "compare"),
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


def main() -> None:
    """Run the command line. Wrong input exits with 2 and one message; Ctrl-C with 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows ? for it
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except TailwiseError as error:
        print(f"tailwise: error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("tailwise: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe has gone, as with ``| head``
        _drop_output()
        sys.exit(1)
    except OSError as error:  # a full disk behind ``> file``, for one
        _drop_output()
        print(f"tailwise: error: {error}", file=sys.stderr)
        sys.exit(1)


def _drop_output() -> None:
    """Send what is left for standard output nowhere, so that Python does not try again at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
