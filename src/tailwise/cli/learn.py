"""``tailwise learn``: from a log to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tailwise.cli import options as given
from tailwise.cli.output import console, print_json
from tailwise.errors import FormatError

Column = Annotated[str | None, typer.Option(help="Its column (or several, with commas), if not of a usual name.")]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @given.command(app, "learn")
    def learn(
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
        gaps: Annotated[str, typer.Option(help="Where steps are missing: error, split or ignore.")] = "error",
        ends: Annotated[
            str, typer.Option(help="Whether a last step without next state ends its episode: unknown or done.")
        ] = "unknown",
        force: Annotated[bool, typer.Option("--force", "-f", help="Write over an existing file.")] = False,
        json: given.Json = False,
    ) -> None:
        """Learn a model from a log of decisions: the posterior mean, and what the log does not tell."""
        from rich.text import Text

        from tailwise.formats import load, save
        from tailwise.logs import learn_model, load_episodes

        if out.exists() and not force:
            raise FormatError(f"{out}: the file exists; write over it with --force, or choose another name")
        episodes = load_episodes(
            log, episode=episode, step=step, state=_names(states), action=_names(action), next_state=_names(next_state),
            cost=cost, reward=reward, done=done, gaps=gaps, ends=ends,
        )  # fmt: skip
        believed: Any = prior if prior in ("auto", "pooled", "worst", "seen") else load(prior)
        factor = 1.0 if discount is None else discount
        model = learn_model(
            episodes, prior=believed, horizon=horizon, discount=factor, start=state, name=Path(log).stem, seed=0
        )  # fmt: skip
        written = save(model, out)
        if json:
            coverage = model.coverage
            print_json({
                "log": log, "out": str(written), "episodes": episodes.num_episodes, "steps": episodes.num_steps,
                "states": model.num_states, "actions": model.num_actions, "never_tried": len(coverage.never_tried),
                "rarely_tried": len(coverage.rarely_tried), "notes": model.notes,
            })  # fmt: skip
            return
        console().print(
            Text(
                f"{written}: learned from {episodes.num_episodes:,} episodes of {episodes.num_steps:,} steps; "
                f"{model.num_states:,} states, {model.num_actions:,} actions"
            )
        )
        for note in model.notes:
            console().print(Text(f"note: {note}", style="dim"))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
