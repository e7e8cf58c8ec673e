"""RDDL instances through pyRDDLGym, from rddlrepository or from files (extra ``rddl``)."""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailwise._validate import choice, integer, real
from tailwise.errors import FormatError, OptionError, TailwiseError, UnknownNameError, require
from tailwise.formats.options import observed
from tailwise.formats.rddl_actions import ActionLimits, joint_actions
from tailwise.formats.registry import register_format

if TYPE_CHECKING:
    from tailwise.formats.rddl_simulator import HiddenRddl, RddlSimulator


@dataclass(frozen=True, kw_only=True)
class RddlOptions(ActionLimits):
    """Options of an instance: those that every source takes, and bounds on its joint actions."""

    horizon: int | None = None
    discount: float | None = None
    start: int | str | None = None
    observe: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.observe is not None:
            choice(self.observe, "observe", ("state",))


def read_rddl(target: str, **options: Any) -> RddlSimulator | HiddenRddl:
    """RDDL instance of rddlrepository, or two files (extra ``rddl``).

    The options are those of :class:`RddlOptions`; the instance must have finitely many actions.

    Returns
    -------
    RddlSimulator or HiddenRddl
    """
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


register_format("rddl", read_rddl, extensions=(".rddl",), options=RddlOptions, is_file=False)
