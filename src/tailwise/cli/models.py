"""What there is and what it holds: ``tailwise info``, ``convert``, ``learn``, ``domains`` and ``planners``.

First what all commands need: from what was given to a model, a state of it, and a planner.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from tailwise._progress import activity
from tailwise._results import amounts
from tailwise.cli import options as given
from tailwise.cli.output import check_model_file, console, print_json, say, say_notes, show_table
from tailwise.errors import ModelError

if TYPE_CHECKING:
    from tailwise.cli.options import Model
    from tailwise.models import Simulator, TabularMDP
    from tailwise.models.contract import State
    from tailwise.planners.protocol import FullPlanner
    from tailwise.risk.objectives import Objective


def load_solvable(given: Model, beta: float | None = None, loaded: Any = None) -> TabularMDP | Simulator:
    """Load a model for an exact method, if it is not loaded yet: a table, or a simulator that lists its outcomes."""
    from tailwise.models.simulator import lists_outcomes, refuse_hidden

    model: Any = given.load() if loaded is None else loaded
    refuse_hidden(model)
    if not lists_outcomes(model):
        raise ModelError(
            f"{given.model} is a simulator that does not list its outcomes, which cannot be solved exactly; use "
            f"'tailwise plan {given.model}'"
        )
    return with_horizon(model, given, beta)


def with_horizon(model: TabularMDP | Simulator, given: Model, beta: float | None = None) -> TabularMDP | Simulator:
    """Return a model, but a discounted table without a horizon with one: long enough for ``beta``, or any risk."""
    from tailwise.exact import truncate
    from tailwise.models import TabularMDP

    said = tuple(note for note in getattr(model, "notes", ()) if "gives no horizon" not in note)
    if isinstance(model, TabularMDP) and given.horizon is None and model.discount < 1.0 and said != model.notes:
        range_ = float(np.ptp(np.append(model.losses, 0.0))) / (1.0 - model.discount)
        return truncate(replace(model, notes=said), 1e-6 * range_ or 1.0, beta=beta, progress=True)
    return model


def build_planner(
    model: Any, objective: Objective, kind: str, *, seed: int | None = None, **options: float | None
) -> FullPlanner:
    """Build the planner of ``--planner``, with those of its options, as ``bonus``, that are not None."""
    from tailwise.planners import make_planner

    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return make_planner(model, objective, kind=kind, seed=seed, **given)


def find_state(model: Any, text: str | None) -> State:
    """Turn the text of ``--state`` into a state of the model; None stays None (the start)."""
    from tailwise.models.simulator import read_state

    return None if text is None else read_state(model, text)


def info(*, model: given.Model, state: given.State = None, json: given.Json = False) -> None:
    """Show states, actions, outcomes, ranges and warnings of a model."""
    from tailwise.formats import summarize

    with activity(f"reading {model.model}"):
        summary = summarize(model.load(start=state))
    if json:
        print_json(summary)
    else:
        _show(summary)


def _show(summary: Any) -> None:
    sense = summary.sense
    no_terminal = "none" if summary.kind == "table" else _UNKNOWN
    lines = [
        ("states", _count(summary.states)),
        ("actions", _count(summary.actions)),
        ("actions in the start state", _count(summary.start_actions)),
        ("state-action pairs", _count(summary.pairs)),
        ("outcomes", _count(summary.outcomes)),
        (f"{sense} of a step", _range(summary.lowest, summary.highest)),
        (f"terminal {sense}", _range(summary.lowest_terminal, summary.highest_terminal, no_terminal)),
        ("horizon", "none" if summary.horizon is None else f"{summary.horizon:,}"),
        ("discount", f"{summary.discount:g}"),
        ("start", summary.start),
    ]
    say(f"{summary.name}  ({summary.kind}; numbers are {amounts(sense)})", "bold")
    grid = Table(show_header=False, box=None, pad_edge=False)
    grid.add_column()
    grid.add_column(overflow="fold")
    for name, value in lines:
        if value != _UNKNOWN:
            grid.add_row(Text(name), Text(value))
    console().print(grid)
    say_notes(summary)
    for warning in summary.warnings:
        say(f"warning: {warning}", "yellow")


_UNKNOWN = ""  # what a simulator does not tell without being run


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _range(low: float | None, high: float | None, nothing: str = _UNKNOWN) -> str:
    if low is None or high is None:
        return nothing
    return f"{low:.10g}" if low == high else f"{low:.10g} .. {high:.10g}"


TargetArgument = Annotated[
    Path, typer.Argument(metavar="OUT", help="File to write; .npz, .csv, .arrow or .parquet says the format.")
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Write over an existing file.")]


def convert(
    *,
    model: given.Model,
    out: TargetArgument,
    state: given.State = None,
    force: ForceOption = False,
    json: given.Json = False,
) -> None:
    """Read a model (a table, or a simulator that lists its outcomes) and save it as a table."""
    from tailwise.formats import save
    from tailwise.models.simulator import is_partly_observed, model_name
    from tailwise.models.tabulate import tabulate

    check_model_file(out, force=force)
    found = model.load(start=state)
    if is_partly_observed(found):
        raise ModelError(
            f"the state of {model_name(found)} is not seen: no table that is saved says what is observed; give the "
            "model itself to 'tailwise plan' or 'tailwise solve'"
        )
    mdp = tabulate(found, progress=True)
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


Column = Annotated[str | None, typer.Option(help="Its column (or several, with commas), if not of a usual name.")]


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
    from tailwise.formats.registry import value_of
    from tailwise.logs.files import read_log

    check_model_file(out, force=force)
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


def domains(json: given.Json = False) -> None:
    """List the built-in problems and their options."""
    from tailwise.domains import list_domains

    found = list_domains()
    if json:
        names = ("name", "kind", "summary", "options")
        print_json({"domains": [{name: getattr(domain, name) for name in names} for domain in found]})
        return
    rows = [(domain.name, domain.kind, domain.summary) for domain in found]
    show_table(("name", "kind", "what it is"), rows, spare=("kind",), texts=("kind", "what it is"))


def planners(json: given.Json = False) -> None:
    """List the planners: the objectives, models and options of each."""
    from tailwise.planners import list_planners, objective_cells
    from tailwise.planners.registry import NOBODY

    cells, kinds = objective_cells(), list_planners()
    if json:
        print_json(
            {
                "objectives": [asdict(cell) for cell in cells],
                "planners": [
                    {
                        "name": kind.name, "summary": kind.summary, "models": kind.models, "hidden": kind.hidden,
                        "objectives": [one.__name__ for one in kind.objectives], "options": kind.options,
                    }
                    for kind in kinds
                ],
            }
        )  # fmt: skip
        return
    show_table(
        ("objective", "models that list their outcomes", "any model"),
        [(one.objective, ", ".join(one.listing) or NOBODY, ", ".join(one.sampled) or NOBODY) for one in cells],
        texts=("objective", "models that list their outcomes", "any model"),
        title="Who pursues an objective; auto takes the first that suits",
    )
    show_table(
        ("planner", "model", "what it is"),
        [(kind.name, kind.needs, kind.summary) for kind in kinds],
        spare=("model",),
        texts=("planner", "model", "what it is"),
    )
