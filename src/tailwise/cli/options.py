"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

ModelArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="MODEL", help="A domain (see 'tailwise domains'), gym:ID, or a model file.")
]
BetaOption: TypeAlias = Annotated[
    float,
    typer.Option("--beta", "-b", help="Risk level per unit of cost: > 0 averse, 0 the mean, < 0 seeking."),
]
HorizonOption: TypeAlias = Annotated[int | None, typer.Option(help="Number of decisions, if not the model's own.")]
DiscountOption: TypeAlias = Annotated[float | None, typer.Option(help="Discount factor, if not the model's own.")]
StateOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--state", "-s", help="Decide in this state (index or label) instead of the start."),
]
SeedOption: TypeAlias = Annotated[int | None, typer.Option(help="Seed of all randomness; the same seed repeats a run.")]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
IterationsOption: TypeAlias = Annotated[int | None, typer.Option("--iterations", "-n", help="Search iterations.")]
SecondsOption: TypeAlias = Annotated[float | None, typer.Option("--seconds", "-t", help="Search time.")]
ExplorationOption: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Exploration constant, in the unit of the costs; sqrt(2) if not given, as in the paper."),
]
