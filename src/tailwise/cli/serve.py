"""``tailwise serve``, which answers other programs, a line of JSON for each, and ``explore``, which serves a page."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Annotated, Any, BinaryIO, TextIO

import typer

from tailwise._results import JsonObject, nesting, plain, set_printoptions
from tailwise._validate import integer, real
from tailwise.cli import options as given
from tailwise.cli.output import say
from tailwise.errors import OptionError, TailwiseError

_MOST_BYTES, _DEEPEST = 2**20, 32  # of a request
_NAMES = {
    "plan": ("iterations", "seconds"),
    "advance": ("action", "state", "cost"),
    "reset": ("state", "step", "accrued"),
    "info": (),
    "quit": (),
}


def serve(
    *,
    model: given.Model,
    aim: given.Aim,
    planner: given.Planner = "auto",
    iterations: given.Iterations = None,
    seconds: given.Seconds = None,
    seed: given.Seed = None,
    bonus: given.Bonus = None,
    max_memory: given.MaxMemory = None,
) -> None:
    """Answer requests on standard input, one JSON object a line, with one line each on standard output."""
    from tailwise.cli.models import build_planner
    from tailwise.cli.plan import DEFAULT_ITERATIONS

    objective = aim.objective()
    given.check_memory(max_memory)
    given.check_work((planner,), seconds=seconds, bonus=bonus, objective=objective, iterations=iterations)
    if iterations is None and seconds is None:
        iterations = DEFAULT_ITERATIONS
    with contextlib.redirect_stdout(sys.stderr):  # what a simulator prints is no answer
        problem = model.load()
        search: Any = build_planner(problem, objective, planner, bonus=bonus, seed=seed, max_memory=max_memory)
        search.reset()
    wanted = {"iterations": iterations, "seconds": seconds}
    about = {"model": problem.name, "objective": objective.words, "planner": getattr(search, "kind", planner)}
    answer_all(Served(problem, search, wanted, about), sys.stdin.buffer, sys.stdout)


class Served:
    """A planner, and what can be asked of it."""

    def __init__(self, problem: Any, search: Any, limits: dict[str, Any], about: dict[str, Any]) -> None:
        self._problem, self._search, self._limits, self._about = problem, search, limits, about

    def plan(self, **limits: Any) -> JsonObject:
        """Search on, and recommend."""
        from tailwise.planners.protocol import as_plan, plan_in_threads
        from tailwise.search.anytime import plan_limits

        plan_limits(limits.get("iterations"), limits.get("seconds"), ends=True)
        found = plan_in_threads(self._search, 1, **(limits or self._limits))
        return {**as_plan(found, self._search).to_dict(), **self._place()}

    def advance(self, action: Any = None, state: Any = None, cost: float | None = None) -> JsonObject:
        """Move on to a state that was observed after an action."""
        if action is None or state is None:
            raise OptionError("advance needs the action that was taken and the state (or observation) that followed")
        self._search.advance(_value(action), self._state(state), **_past(self._search.advance, "cost", cost))
        return self._place()

    def reset(self, state: Any = None, step: int = 0, accrued: float | None = None) -> JsonObject:
        """Begin anew, at any state and step."""
        begun = None if state is None else self._state(state)
        self._search.reset(begun, step, **_past(self._search.reset, "accrued", accrued))
        return self._place()

    def info(self) -> JsonObject:
        """Say what is served, and where it stands."""
        model = self._problem
        numbers = {"sense": model.sense, "horizon": model.horizon, "discount": model.discount}
        return {**self._about, **numbers, "limits": self._limits, **self._place()}

    quit = info

    def _place(self) -> JsonObject:
        state, model = self._search.state, self._problem
        name = model.state_name(state) if hasattr(model, "state_name") else str(state)
        return {"step": self._search.step, "state": plain(state), "state_label": name}

    def _state(self, value: Any) -> Any:
        """Return a state that JSON said: an id, or a label."""
        find = getattr(self._problem, "find_state", None)
        return find(value) if find is not None and isinstance(value, (str, int)) else _value(value)


def _past(method: Callable[..., Any], name: str, paid: Any) -> dict[str, float]:
    """Return what was paid, for a planner to which that matters."""
    from tailwise.planners.protocol import takes

    past = {} if paid is None else {name: real(paid, name)}
    return past if takes(method, name) else {}


def _value(value: Any) -> Any:
    """Return a value of JSON as models have them: lists are tuples."""
    return tuple(map(_value, value)) if isinstance(value, list) else value


def answer_all(served: Any, lines: BinaryIO, out: TextIO) -> None:
    """Answer each line of requests with one line, until they end or one says "quit"."""
    with contextlib.redirect_stdout(sys.stderr):
        while line := lines.readline(_MOST_BYTES + 1):
            while len(line) > _MOST_BYTES and not line.endswith(b"\n"):  # too long: the rest of it is passed over
                line = line[:_MOST_BYTES] + (lines.readline(_MOST_BYTES) or b"\n")
            if line.strip():
                said, goes_on = _answer(served, line)
                out.write(json.dumps(said, allow_nan=False) + "\n")
                out.flush()
                if not goes_on:
                    return


def _answer(served: Any, line: bytes) -> tuple[JsonObject, bool]:
    """Return the answer to a line, and whether another may follow."""
    name: Any = None
    try:
        request = _request(line)
        name = request.pop("id", None)
        operation = request.pop("op", None)
        if not isinstance(operation, str) or operation not in _NAMES:
            raise OptionError(f"op is {json.dumps(operation)}, and must be one of {', '.join(_NAMES)}")
        if unknown := sorted(set(request) - {*_NAMES[operation]}):
            takes = ", ".join(_NAMES[operation]) or "nothing"
            raise OptionError(f"{operation} does not know {unknown[0]!r}; beside id and op it takes {takes}")
        do: Callable[..., JsonObject] = getattr(served, operation)
        return {"id": name, "result": plain(do(**request))}, operation != "quit"
    except TailwiseError as error:
        return {"id": name, "error": {"type": type(error).__name__, "message": str(error)}}, True
    except Exception as error:  # of a user's model or planner, of whatever type: the next request may be better
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"id": name, "error": {"type": "InternalError", "message": said}}, True


def _request(line: bytes) -> JsonObject:
    """Return what a line asks, or raise the error of one that cannot be read."""
    if len(line) > _MOST_BYTES:
        raise OptionError(f"a request has at most {_MOST_BYTES:,} bytes")
    try:
        found = json.loads(line, parse_constant=_no_number)
    except RecursionError:
        raise OptionError(f"a request is nested at most {_DEEPEST} deep") from None
    except ValueError as error:  # bad UTF-8 too
        raise OptionError(f"the line is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise OptionError('a request is a JSON object such as {"id": 1, "op": "plan"}')
    if nesting(found) > _DEEPEST:
        raise OptionError(f"a request is nested at most {_DEEPEST} deep")
    if isinstance(found.get("id"), (dict, list)):
        raise OptionError("id must be a number or a text")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def explore(
    *,
    model: given.Model,
    beta: Annotated[float, typer.Option("--beta", "-b", help="Risk level to begin with.")] = 0.0,
    iterations: given.Iterations = None,
    planner: given.Planner = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the planner and of what happens in the episodes.")] = 0,
    port: Annotated[int, typer.Option(help="Port of this machine; a free one if not given.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
    unit: given.Unit = "",
    step_name: given.StepName = "step",
) -> None:
    """Explore decisions on a local page: what each beta does, and an episode step by step. Ctrl-C ends it."""
    from tailwise.cli.models import with_horizon
    from tailwise.explore import explore

    real(beta, "beta")
    integer(seed, "seed", low=0)
    integer(port, "port", low=0, high=65535)
    set_printoptions(unit=unit, step_name=step_name)
    given.check_work((planner,), iterations=iterations)
    problem = with_horizon(model.load(), model)
    begun: dict[str, Any] = {"beta": beta, "kind": planner, "seed": seed}
    if iterations is not None:
        begun["iterations"] = iterations
    explore(problem, **begun, port=port, open_browser=not no_browser, announce=say)
