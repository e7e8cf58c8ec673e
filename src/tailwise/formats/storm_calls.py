"""The calls of Storm that build a model and write it as a UMB archive.

Storm's arithmetic by zero ends the whole process. So this file stands alone, imports nothing of tailwise, and is run as
a script, in a process of its own, for models that divide by what is no number. Where Storm's arithmetic goes on with a
wrong number instead (remainders by 0 are 0), the divisors are looked at in every state that was built.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = ("DTMC", "MDP", "POMDP")


class RefusalError(Exception):
    """What is wrong with a model (``FormatError``) or with what the user said of it (``OptionError``)."""

    def __init__(self, text: str, kind: str = "FormatError") -> None:
        super().__init__(text)
        self.kind = kind


def build(asked: dict[str, Any]) -> dict[str, Any]:
    """Build ``asked["file"]`` into ``asked["archive"]``; return where the goal holds, or who said what is wrong."""
    storm = importlib.import_module("stormpy")
    level = storm.developer.get_log_level()
    storm.developer.set_log_level(storm.developer.LogLevel.OFF)
    try:
        model, goal = _drn(storm, asked) if asked["language"] == "drn" else _symbolic(storm, asked)
        if model.model_type.name not in KINDS:
            raise RefusalError(f"it is a {model.model_type.name}; expected one of {', '.join(KINDS)} (discrete time)")
        if not model.supports_parameters and model.has_parameters:
            raise RefusalError("it has parameters; give them values")
        exporting = importlib.import_module("stormpy.io")
        wanted = exporting.UmbExportOptions()
        wanted.compression, wanted.canonicize_pomdp = exporting.CompressionMode.NO_COMPRESSION, False
        exporting.export_to_umb(model, asked["archive"], options=wanted)
    except RefusalError as refusal:
        return {"kind": refusal.kind, "said": str(refusal)}
    except (RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as error:
        return {"kind": "Storm", "said": " ".join(str(error).split())}
    else:
        return {"goal": goal}
    finally:
        storm.developer.set_log_level(level)


def _drn(storm: Any, asked: dict[str, Any]) -> tuple[Any, None]:
    options = storm.developer.DirectEncodingParserOptions()
    options.build_choice_labeling = b"@nr_choices" in Path(asked["file"]).read_bytes()  # Storm needs it for names
    return storm.build_model_from_drn(asked["file"], options=options), None


def _symbolic(storm: Any, asked: dict[str, Any]) -> tuple[Any, list[int] | None]:
    file = asked["file"]
    is_prism = asked["language"] == "prism"
    source = storm.parse_prism_program(file) if is_prism else storm.parse_jani_model(file, property_filter=[])[0]
    source = _with_constants(storm, source, asked["constants"])
    formulas = [] if asked["goal"] is None else [_goal(storm, source, asked["goal"])]
    looked_at = source
    if asked["divides"] and is_prism:
        looked_at = _with_constants(storm, storm.parse_prism_program(asked["looked_at"]), asked["constants"])
    divisors = _zero_conditions(looked_at, is_prism) if asked["divides"] else {}
    try:
        formulas += [storm.parse_property(" | ".join(places), source) for places in divisors.values()]
    except RuntimeError as error:
        raise RefusalError(f"whether it divides by 0 cannot be told: {' '.join(str(error).split())[:200]}") from None
    # one formula alone would make Storm cut the model off where it holds
    wanted = storm.BuilderOptions([formula.get_raw_formula() for formula in formulas * 2])
    wanted.set_build_all_labels()
    wanted.set_build_all_reward_models()
    wanted.set_build_state_valuations()
    wanted.set_build_choice_labels()
    limits = storm.developer.ExplicitModelBuilderOptions[float]()
    limits.exploration_state_limit = asked["max_states"] + 1
    described = storm.developer.SymbolicModelDescription(source)
    builder = storm.developer.make_explicit_model_builder[float]
    # divided by 0, a value may be anywhere: of that first
    checked = None if divisors else _checked(builder, described, wanted, limits)
    model = builder(described, wanted, None, limits).build() if checked is None else checked
    if model.nr_states > asked["max_states"] or "unexplored" in model.labeling.get_labels():
        raise RefusalError(
            f"the model has more than max_states={asked['max_states']} states; raise it, or bound the model"
        )
    holds = [
        list(storm.model_checking(model, formula, force_fully_observable=True).get_truth_values_vector())
        for formula in formulas
    ]
    goal = None if asked["goal"] is None else holds.pop(0)
    for divisor, states in zip(divisors, holds, strict=True):
        if states:
            shown = " ".join(str(model.state_valuations.to_string(states[0])).strip("[]").split())
            which = f": {divisor} is 0" if any(map(str.isalpha, divisor)) else ""
            raise RefusalError(f"it divides by 0{which} in the state {shown}")
    if checked is None and _leaves_bounds(builder, described, wanted, limits):
        raise RefusalError("an update leads to a value outside of its variable's bounds")
    return model, goal


def _checked(builder: Any, described: Any, wanted: Any, limits: Any) -> Any:
    """Build with Storm's checks of bounds; None where they do not forgive that 13 times 1/13 is not quite 1."""
    wanted.set_exploration_checks(True)
    try:
        return builder(described, wanted, None, limits).build()
    except RuntimeError as error:
        if "out-of-bounds" in str(error):
            raise
        return None
    finally:
        wanted.set_exploration_checks(False)


def _leaves_bounds(builder: Any, described: Any, wanted: Any, limits: Any) -> bool:
    """Whether a value leaves its bounds, in a build of its own: the state that Storm then adds shows in all names."""
    wanted.set_add_out_of_bounds_state(True)
    labels, name = builder(described, wanted, None, limits).build().labeling, "out_of_bounds"
    return name in labels.get_labels() and labels.get_states(name).number_of_set_bits() > 0


def _with_constants(storm: Any, source: Any, constants: str) -> Any:
    known = {constant.name: constant for constant in source.constants}
    given = [item.partition("=")[0] for item in constants.split(",") if item]
    unknown = [name for name in given if name not in known or known[name].defined]
    undefined = [constant.name for constant in source.constants if not constant.defined]
    if unknown:
        has = ", ".join(undefined) or "none"
        raise RefusalError(f"there is no undefined constant {unknown[0]!r}; undefined constants: {has}", "OptionError")
    missing = [name for name in undefined if name not in given]
    if missing:
        example = ",".join(f"{name}=..." for name in missing)
        raise RefusalError(f"constants without a value: {', '.join(missing)}; say constants='{example}'", "OptionError")
    return storm.instantiate_constants(source, constants)[0] if given else source


def _goal(storm: Any, source: Any, text: str) -> Any:
    labels = {label.name for label in getattr(source, "labels", ())}
    text = f'"{text}"' if text in labels or text in ("init", "deadlock") else text
    try:
        return storm.parse_property(text, source)
    except RuntimeError as error:
        said = " ".join(str(error).split())[:200]
        problem = f"goal={text!r} is no expression of the model, such as 'x=3 & !b' or '\"label\"': {said}"
        raise RefusalError(problem, "OptionError") from None


def _zero_conditions(source: Any, is_prism: bool) -> dict[str, list[str]]:
    """Where each divisor that is no number is used and 0, as texts that Storm parses, by divisor."""
    found: dict[str, list[str]] = {}
    source = (source.substitute_formulas() if is_prism else source).substitute_constants()
    for where, guard, expressions in _commands(source) if is_prism else _edges(source):
        enabled = _both(where, str(guard))
        for part, given in ((guard, where), *((expression, enabled) for expression in expressions)):
            for divisor, place in _divisions(part, given):
                places = found.setdefault(divisor, [])
                if place not in places:
                    places.append(place)
    return found


def _commands(program: Any) -> Iterator[tuple[str, Any, list[Any]]]:
    for module in program.modules:
        for command in module.commands:
            chances = [update.probability_expression for update in command.updates]
            values = [assignment.expression for update in command.updates for assignment in update.assignments]
            yield "", command.guard_expression, chances + values
    commands = [command for module in program.modules for command in module.commands]
    for label in program.labels:
        kind, *action = label.name.split("_", 2)[::2]  # rewards of an action are looked at where it can be taken
        takes = [one.guard_expression for one in commands if kind == "reward" and [one.action_name] == action]
        where = " | ".join(f"({guard})" for guard in takes)
        yield where, label.expression, []


def _edges(model: Any) -> Iterator[tuple[str, Any, list[Any]]]:
    for automaton in model.automata:
        for edge in automaton.edges:
            owners = (edge.template_edge, *edge.destinations)
            values = [assignment.expression for owner in owners for assignment in owner.assignments]
            where = f"{automaton.location_variable.name} = {edge.source_location_index}"
            yield where, edge.guard, [destination.probability for destination in edge.destinations] + values


def _divisions(expression: Any, given: str) -> Iterator[tuple[str, str]]:
    """Divisors in an expression that may be 0, and the condition that one is 0 and looked at, where ``given`` holds."""
    if not expression.is_function_application:
        return
    try:
        operator = expression.operator.name
    except (RuntimeError, AttributeError):  # a logarithm
        operator = ""
    parts = [expression.get_operand(index) for index in range(expression.arity)]
    for index, part in enumerate(parts):
        looked_at = given
        if index and operator in ("AND", "IMPLIES", "ITE"):  # the first one decides whether others are looked at
            looked_at = _both(given, f"!({parts[0]})" if operator == "ITE" and index == 2 else f"{parts[0]}")
        elif index and operator == "OR":
            looked_at = _both(given, f"!({parts[0]})")
        yield from _divisions(part, looked_at)
    if operator in ("DIVIDE", "MODULO"):
        if parts[1].contains_variables() or parts[1].evaluate_as_double() == 0:
            yield f"{parts[1]}", f"({_both(given, f'{parts[1]} = 0')})"
    elif operator == "POWER" and (parts[1].contains_variables() or parts[1].evaluate_as_double() < 0):
        yield f"{parts[0]}", f"({_both(given, f'({parts[0]} = 0) & ({parts[1]} < 0)')})"


def _both(given: str, more: str) -> str:
    return f"({given}) & ({more})" if given else more


if __name__ == "__main__":
    request = json.loads(sys.stdin.read())
    Path(request["reply"]).write_text(json.dumps(build(request)), encoding="utf-8")
