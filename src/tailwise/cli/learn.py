"""``tailwise learn``: from a log to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailwise.cli import options as given
from tailwise.cli.output import print_json, say, say_notes

Column = Annotated[str | None, typer.Option(help="Its column (or several, with commas), if not of a usual name.")]


def command(
    *,
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG", help="A .csv, .parquet or .arrow file, or a folder of files with an episode each."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Model file to write, as model.npz.")],
    prior: Annotated[
        str, typer.Option(help="auto, pooled, worst, seen, or a model file: what was believed before.")
    ] = "auto",
    horizon: given.Steps = None,
    discount: given.Discount = None,
    state: given.State = None,
    episode: Column = None,
    step: Column = None,
    states: Annotated[str | None, typer.Option(help="Columns of the state, with commas.")] = None,
    action: Column = None,
    next_state: Column = None,
    cost: Column = None,
    reward: Column = None,
    done: Column = None,
    levels: Annotated[
        str | None, typer.Option(help="Bins of continuous columns of the state: a number, or wear:5,load:3.")
    ] = None,
    gaps: Annotated[str, typer.Option(help="Where steps are missing: error, split or ignore.")] = "error",
    ends: Annotated[
        str, typer.Option(help="Whether a last step without next state ends its episode: unknown or done.")
    ] = "unknown",
    force: Annotated[bool, typer.Option("--force", "-f", help="Write over an existing file.")] = False,
    json: given.Json = False,
) -> None:
    """Learn a model from a log of decisions: the posterior mean, and what the log does not tell."""
    from tailwise.formats import save
    from tailwise.formats.spec import value_of
    from tailwise.logs.files import read_log

    given.check_model_file(out, force=force)
    model = read_log(
        log, episode=episode, step=step, state=states, action=action, next_state=next_state, cost=cost,
        reward=reward, done=done, levels=None if levels is None else value_of(levels), gaps=gaps, ends=ends,
        prior=prior, horizon=horizon, discount=discount, start=state,
    )  # fmt: skip
    episodes = model.evidence.episodes
    written = save(model, out)
    if json:
        coverage = model.coverage
        print_json({
            "log": log, "out": str(written), "episodes": episodes.num_episodes, "steps": episodes.num_steps,
            "states": model.num_states, "actions": model.num_actions, "never_tried": len(coverage.never_tried),
            "rarely_tried": len(coverage.rarely_tried), "notes": model.notes,
        })  # fmt: skip
        return
    say(
        f"{written}: learned from {episodes.num_episodes:,} episodes of {episodes.num_steps:,} steps; "
        f"{model.num_states:,} states, {model.num_actions:,} actions"
    )
    say_notes(model)
