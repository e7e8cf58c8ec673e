"""Fill the page "Command line" from the commands themselves, with examples that run when the documentation is built."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path
from typing import Any

MARK = "<!-- commands -->"
MOST_LINES = 24

FILES = {
    "machine.csv": "idstatefrom,idaction,idstateto,probability,cost\n"
    "good,run,good,0.9,0\ngood,run,broken,0.1,0\ngood,service,good,1,2\n"
    "broken,repair,good,1,12\nbroken,run,broken,1,30\n",
    "history.csv": "episode,step,state,action,next_state,cost\n"
    + "".join(
        f"{k},0,good,run,broken,0\n{k},1,broken,repair,good,12\n"
        if k % 6 == 5
        else f"{k},0,good,{'run' if k % 2 else 'service'},good,{0 if k % 2 else 2}\n{k},1,good,run,good,0\n"
        for k in range(60)
    ),
    "study.toml": 'models = ["mdp-4"]\nplanners = ["exact", "uct"]\nobjectives = [{beta = 1.0}]\n'
    "seeds = 2\nepisodes = 20\niterations = 100\n",
}
# Two for each command.
EXAMPLES = {
    "plan": ("plan grid-mdp --beta 0.1", "plan machine.csv --horizon 12 --cvar 0.9 --unit EUR --step-name week"),
    "solve": ("solve mdp-4 --evar 0.9", "solve machine.csv --horizon 12 --beta 0.1 --policy weeks.csv"),
    "frontier": ("frontier mdp-4", "frontier machine.csv --horizon 12 --betas 0,0.1"),
    "beta": ("beta --indifference 30,0.1,100", "beta grid-mdp --budget 45 --probability 0.05"),
    "evaluate": (
        "evaluate mdp-4 --beta 0.5 --planner exact --episodes 200 --seed 0",
        "evaluate machine.csv --horizon 12 --cvar 0.9 --planner exact --episodes 200 --seed 0",
    ),
    "compare": (
        "compare mdp-4 --beta 0.5 --planners exact,uct --iterations 100 --episodes 50 --seed 0",
        "compare machine.csv --horizon 12 --beta 0.1 --planners exact,uct --iterations 100 --episodes 50 --seed 0",
    ),
    "run": ("run study.toml", "run study.toml --json"),
    "explore": ("explore grid-mdp", "explore machine.csv --horizon 12 --beta 0.1"),
    "serve": ("serve mdp-4 --beta 0.5", "serve machine.csv --horizon 12 --beta 0.1"),
    "learn": ("learn history.csv --out machine.npz", "learn history.csv --out careful.npz --prior worst"),
    "whatif": (
        'whatif machine.csv --horizon 12 --beta 0.1 --set "cost[broken,repair]=60"',
        'whatif machine.csv --horizon 12 --beta 0.1 --vary "cost[good,service]"',
    ),
    "info": ("info mdp-4", "info machine.csv --horizon 12"),
    "convert": ("convert machine.csv machine.npz --horizon 12", "convert grid-mdp grid.csv"),
    "domains": ("domains", "domains --json"),
    "planners": ("planners", "planners --json"),
    "reproduce": (
        "reproduce mdp-4 --out mdp --seeds 2 --most-iterations 100 --variant authors",
        "reproduce grid-mdp --out grid --seeds 2 --most-iterations 100 --variant text",
    ),
    "bandit": (
        "bandit run stationary --beta 1 --pulls 1000 --seed 0",
        "bandit compare stationary --beta 1 --pulls 500 --replications 20 --seed 0",
    ),
    "theory": ("theory schedule --horizon 3 --beta 0.5", "theory xi --horizon 5"),
}
ONLY_SHOWN = ("explore", "reproduce")  # one waits for a browser, the other takes minutes
REQUESTS = '{"id": 1, "op": "plan"}\n'


def reference() -> str:
    """Return the help of every command as Markdown, each with its examples."""
    import typer
    from typer.cli import get_docs_for_click

    from tailwise.cli.app import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="tailwise")
    text = re.sub(r"\n{3,}", "\n\n", text.split("\n## ", 1)[1].join(["## ", ""]))
    shown = {name: examples(name) for name in EXAMPLES}
    parts = re.split(r"(?m)^(?=## `tailwise )", text)
    return "".join(part.rstrip() + "\n\n" + shown.get(_name(part), "") for part in parts if part.strip())


def _name(part: str) -> str:
    return part.split("`")[1].removeprefix("tailwise ")


def examples(name: str) -> str:
    """Run a command's examples in a folder of their own; return them with what they printed."""
    blocks = []
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for file, content in FILES.items():
            Path(folder, file).write_text(content, encoding="utf-8")
        os.chdir(folder)
        try:
            for line in EXAMPLES[name]:
                said = [] if name in ONLY_SHOWN else run(line)
                told = f"echo '{REQUESTS.strip()}' | " if name == "serve" else ""
                blocks.append("\n".join(["```console", f"$ {told}tailwise {line}", *said, "```", ""]))
        finally:
            os.chdir(home)
    return "**Examples**:\n\n" + "\n".join(blocks) + "\n"


def run(line: str) -> list[str]:
    """Return what a command prints, at most `MOST_LINES` lines; an error if it fails."""
    from typer.testing import CliRunner

    from tailwise.cli.app import app

    result = CliRunner(env={"COLUMNS": "100", "TERM": "dumb"}).invoke(
        app, shlex.split(line), input=REQUESTS, catch_exceptions=False
    )
    if result.exit_code:
        raise RuntimeError(f"tailwise {line}: exit code {result.exit_code}\n{result.output}")
    lines = [text.rstrip() for text in result.stdout.rstrip().splitlines()]
    lines = [text if len(text) <= 110 else text[:107] + "..." for text in lines]
    return lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the reference where the page has its mark (called by mkdocs)."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown
