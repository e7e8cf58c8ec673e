"""``tailwise convert``: from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailwise.cli import options as given
from tailwise.cli.output import print_json, say, say_notes

TargetArgument = Annotated[
    Path, typer.Argument(metavar="OUT", help="File to write; .npz, .csv, .arrow or .parquet says the format.")
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Write over an existing file.")]


def command(
    *,
    model: given.Model,
    out: TargetArgument,
    state: given.State = None,
    force: ForceOption = False,
    json: given.Json = False,
) -> None:
    """Read a model (a table, or a simulator that lists its outcomes) and save it as a table."""
    from tailwise.formats import save
    from tailwise.models.tabulate import tabulate

    given.check_model_file(out, force=force)
    mdp = tabulate(model.load(start=state), progress=True)
    written = save(mdp, out)
    if json:
        print_json({
            "model": mdp.name, "out": str(written), "bytes": written.stat().st_size, "states": mdp.num_states,
            "actions": mdp.num_actions, "outcomes": mdp.num_outcomes, "notes": mdp.notes,
        })  # fmt: skip
        return
    say(
        f"{written}: {mdp.num_states:,} states, {mdp.num_actions:,} actions, {mdp.num_outcomes:,} "
        f"outcomes, {written.stat().st_size:,} bytes"
    )
    say_notes(mdp)
