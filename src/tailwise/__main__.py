"""The entry point, of ``tailwise`` and of ``python -m tailwise``: errors become one line and an exit code.

Nothing heavy is imported before ``main`` runs, so that Ctrl-C during the imports is answered as at any other time.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line. Wrong input exits with 2 and one message, Ctrl-C with 130, output that fails with 1."""
    try:
        import io

        from tailwise.cli.app import app
        from tailwise.errors import TailwiseError

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal that lacks a character shows ? for it
        try:
            try:
                app()
            finally:
                sys.stdout.flush()
        except SystemExit as ended:
            if ended.code == 130:
                _exit("interrupted", 130)
            raise
        except TailwiseError as error:
            _exit(f"error: {error}", 2)
        except BrokenPipeError:  # the reader of a pipe has gone, as with ``| head``
            _drop_output()
            sys.exit(1)
        except OSError as error:  # a full disk behind ``> file``, for one
            _drop_output()
            _exit(f"error: {error}", 1)
        except MemoryError:
            _exit("error: there is not enough memory for this; ask for less of it", 1)
    except KeyboardInterrupt:
        _exit("interrupted", 130)


def _exit(message: str, code: int) -> None:
    print(f"tailwise: {message}", file=sys.stderr)
    sys.exit(code)


def _drop_output() -> None:
    """Send what is left for standard output nowhere, so that Python does not try again at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
