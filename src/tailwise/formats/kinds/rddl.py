"""RDDL instances through pyRDDLGym, from rddlrepository or from files (extra ``rddl``).

An action sets every action fluent, and at most ``max-nondef-actions`` of them may differ from their defaults. The
number of joint actions is counted before any is built, so that a large instance is refused at once.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import io
import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailwise._validate import integer, real
from tailwise.errors import FormatError, ModelError, OptionError, TailwiseError, UnknownNameError, require
from tailwise.formats.options import SeenOptions, observed
from tailwise.formats.registry import register_format

if TYPE_CHECKING:
    from tailwise.formats.rddl_simulator import HiddenRddl, JointAction, RddlSimulator


@dataclass(frozen=True, kw_only=True)
class RddlOptions(SeenOptions):
    """Options of an instance: bounds on its joint actions, and what every source takes."""

    max_actions: int = 1000  # joint actions; an instance with more is refused
    max_concurrent: int | None = None  # action fluents that differ from their defaults at once
    integer_bound: int | None = None  # integer action fluents take values from minus this to this
    levels: int | None = None  # real-valued action fluents take so many values, evenly between their bounds

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(self.max_actions, "max_actions", low=1)
        if self.levels is not None:
            integer(self.levels, "levels", low=2)
        for name in ("max_concurrent", "integer_bound"):
            if getattr(self, name) is not None:
                integer(getattr(self, name), name, low=0)

    def notes(self) -> tuple[str, ...]:
        """Return what these limits leave out, in words."""
        found = []
        if self.max_concurrent is not None:
            found.append(f"only actions with at most {self.max_concurrent} fluents set at once are considered")
        if self.integer_bound is not None:
            found.append(f"integer actions are limited to values of at most {self.integer_bound} in size")
        if self.levels is not None:
            found.append(f"real-valued actions take {self.levels} values each, evenly spread")
        return tuple(found)


def read_rddl(target: str, **options: Any) -> RddlSimulator | HiddenRddl:
    """RDDL instance of rddlrepository, or two files (extra ``rddl``)."""
    from tailwise.formats.rddl_simulator import HiddenRddl, RddlSimulator, allowed_alike, verify

    asked = RddlOptions(**options)
    if asked.start is not None:
        raise OptionError(f"rddl:{target} starts in its instance's initial state; start= is for tables")
    with _quiet():
        require("pyRDDLGym", "rddl", f"the model rddl:{target}")
        domain, instance = _files(target)
        sampler = _sampler(domain, instance, target)
        is_hidden = sampler.is_pomdp and asked.observe is None
        seen = (observed(asked.observe, f"rddl:{target}"),) if sampler.is_pomdp and not is_hidden else ()
        steps = sampler.rddl.horizon if asked.horizon is None else asked.horizon
        factor = sampler.rddl.discount if asked.discount is None else asked.discount
        simulator = RddlSimulator(
            sampler,
            joint_actions(sampler, asked, f"rddl:{target}"),
            horizon=integer(steps, "horizon", low=1),
            discount=real(factor, "discount", low=0.0, high=1.0, ends="(]"),
            name=f"rddl:{target}",
            reload=functools.partial(read_rddl, target, **options),
            notes=seen + asked.notes(),
        )
        verify(simulator)
        if not is_hidden:
            return simulator
        if not allowed_alike(simulator):
            observed(None, f"rddl:{target} allows different actions in different states, and")
        return HiddenRddl(simulator, functools.partial(read_rddl, target, **options))


def _files(target: str) -> tuple[str, str]:
    """Paths of the domain and the instance."""
    if "," in target:
        paths = [Path(part.strip()) for part in target.split(",")]
        missing = [path for path in paths if not path.is_file()]
        if len(paths) != 2 or missing:
            raise FormatError(
                f"rddl:{target}: expected two files, domain.rddl,instance.rddl"
                + (f"; there is no file {missing[0]}" if missing else "")
            )
        return str(paths[0]), str(paths[1])
    if target.lower().endswith(".rddl"):
        if not Path(target).is_file():
            raise FormatError(f"rddl:{target}: there is no file {target}")
        return target, ""  # domain and instance in one
    name, slash, number = target.partition("/")
    if not slash or not name or not number:
        raise UnknownNameError(f"rddl:{target}: expected rddl:DOMAIN/INSTANCE, such as PushYourLuck_ippc2018/1")
    module = require("rddlrepository.core.manager", "rddl", f"the model rddl:{target}")
    manager = module.RDDLRepoManager()
    problems = list(manager.list_problems())
    if name not in problems:
        near = [p for p in problems if p.lower().startswith(name.lower())]
        near = near or difflib.get_close_matches(name, problems, n=4, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "see rddlrepository for its domains"
        raise UnknownNameError(f"rddl:{target}: rddlrepository has no domain {name!r}; {hint}")
    problem = manager.get_problem(name)
    instances = list(problem.list_instances())
    if number not in instances:
        raise UnknownNameError(f"rddl:{target}: {name} has no instance {number!r}; it has {', '.join(instances)}")
    return str(problem.get_domain()), str(problem.get_instance(number))


def _sampler(domain: str, instance: str, target: str) -> Any:
    core = "pyRDDLGym.core"
    reader, parsing, compiler, simulator = (
        importlib.import_module(f"{core}.{name}")
        for name in ("parser.reader", "parser.parser", "compiler.model", "simulator")
    )
    try:
        text = reader.RDDLReader(domain, instance).rddltxt if instance else Path(domain).read_text(encoding="utf-8")
        parser = parsing.RDDLParser(lexer=None, verbose=False)
        parser.build()
        model = compiler.RDDLLiftedModel(parser.parse(text))
        return simulator.RDDLSimulator(model, keep_tensors=True, objects_as_strings=False)
    except Exception as error:  # pyRDDLGym raises many types
        if isinstance(error, TailwiseError):
            raise
        said = " ".join(str(error).split())[:300]
        raise FormatError(f"rddl:{target} ({domain}): pyRDDLGym cannot read it: {said}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what pyRDDLGym prints and warns about off the terminal."""
    sink = io.StringIO()
    with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_Choice = list[tuple[str, str, int, Any]]  # settings of a grounded fluent: name, fluent, place in its array, value


def joint_actions(sampler: Any, limits: RddlOptions, source: str) -> tuple[JointAction, ...]:
    """Enumerate the joint actions, by number of fluents that differ from their defaults; the first does nothing."""
    choices = _choices(sampler, limits, source)
    most = int(min(sampler.rddl.max_allowed_actions, len(choices)))
    if limits.max_concurrent is not None:
        most = min(most, limits.max_concurrent)
    count = _count(list(map(len, choices)), most)
    if count > limits.max_actions:
        raise ModelError(
            f"{source}: {count} joint actions (at most {most} of {len(choices)} action fluents at once), "
            f"more than max_actions={limits.max_actions}; raise it, or consider fewer at once with max_concurrent="
        )
    return tuple(
        _build(sampler, assignment)
        for size in range(most + 1)
        for chosen in itertools.combinations(choices, size)
        for assignment in itertools.product(*chosen)
    )


def _choices(sampler: Any, limits: RddlOptions, source: str) -> list[_Choice]:
    rddl = sampler.rddl
    bounds: Any = None
    found: list[_Choice] = []
    for fluent, default in sampler.noop_actions.items():
        kind = rddl.action_ranges[fluent]
        if kind == "real" and limits.levels is None:
            raise ModelError(
                f"{source}: the action fluent {fluent!r} takes real values; expected finitely many actions: say levels="
            )
        if kind in ("int", "real") and bounds is None:
            module = importlib.import_module("pyRDDLGym.core.constraints")
            bounds = module.RDDLConstraints(sampler, vectorized=False).bounds
        flat = np.asarray(default).reshape(-1)
        for index, (grounded, _) in enumerate(rddl.ground_var_with_values(fluent, default)):
            name = _pretty(grounded)
            if kind == "bool":
                values: list[tuple[str, Any]] = [(f"not {name}", False), (name, True)]
            elif kind == "real":
                low, high = (float(bound) for bound in (np.max(bounds[grounded][0]), np.min(bounds[grounded][1])))
                if not np.isfinite(high - low):
                    raise ModelError(f"{source}: the real-valued action fluent {name!r} has no bounds, so no levels")
                values = [(f"{name}={v:g}", v) for v in np.linspace(low, high, limits.levels or 2).tolist()]
            elif kind == "int":
                low, high = (float(np.max(bound)) for bound in bounds[grounded])
                if limits.integer_bound is not None:
                    low, high = max(low, -limits.integer_bound), min(high, limits.integer_bound)
                if not high - low < limits.max_actions:
                    raise ModelError(
                        f"{source}: the integer action fluent {name!r} is not bounded to fewer than "
                        f"max_actions={limits.max_actions} values; say integer_bound="
                    )
                values = [(f"{name}={v}", v) for v in range(int(np.ceil(low)), int(np.floor(high)) + 1)]
            else:
                values = [(f"{name}={item}", v) for v, item in enumerate(rddl.type_to_objects[kind])]
            found.append([(text, fluent, index, value) for text, value in values if value != flat[index]])
    return found


def _count(sizes: Sequence[int], most: int) -> int:
    """Ways to pick at most ``most`` items and a value for each: elementary symmetric sums, exact."""
    ways = [1] + [0] * most
    for size in sizes:
        for picked in range(most, 0, -1):
            ways[picked] += ways[picked - 1] * size
    return sum(ways)


def _build(sampler: Any, assignment: Sequence[tuple[str, str, int, Any]]) -> JointAction:
    values = {fluent: np.array(default) for fluent, default in sampler.noop_actions.items()}
    for _, fluent, index, value in assignment:
        values[fluent].reshape(-1)[index] = value
    return " & ".join(text for text, *_ in assignment) or "noop", values


def _pretty(grounded: str) -> str:
    """``move___a__b`` as ``move(a,b)``."""
    fluent, bar, objects = grounded.partition("___")
    return f"{fluent}({objects.replace('__', ',')})" if bar else fluent


register_format("rddl", read_rddl, extensions=(".rddl",), options=RddlOptions, is_file=False)
