"""Have Storm parse and build a model: PRISM, JANI and DRN files.

Everything that understands these languages is Storm's; here are its calls, and its complaints turned
into errors that name the file. What it built comes over as a UMB archive, whole arrays at a time.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tailwise.errors import FormatError, OptionError, require
from tailwise.formats.explicit_model import Bools, ExplicitModel
from tailwise.formats.prism_text import tidy_program, undeclared_name
from tailwise.formats.storm_options import StormOptions
from tailwise.formats.umb_archive import read_umb

_LINE = re.compile(r"(?:parsing error at|line|error at) (\d+)", re.IGNORECASE)
_PLACE = re.compile(r"error at (\d+):(\d+): *expecting <[^>]*(?:expression|update list)>")
_KINDS = ("DTMC", "MDP", "POMDP")


def build(kind: str, path: Path, options: StormOptions) -> ExplicitModel:
    """Build a model.

    Parameters
    ----------
    kind : "prism", "jani" or "drn"
        The language.
    path : Path
        The file.
    options : StormOptions
        Constants, bounds and the goal.

    Returns
    -------
    ExplicitModel

    Raises
    ------
    FormatError
        If Storm cannot read or build it, it is of another kind, or it has too many states.
    OptionError
        If constants are missing or unknown, or the goal is no expression of the model.
    MissingExtraError
        If stormpy is not installed.
    """
    storm: Any = require("stormpy", "prism", f"reading {path}")
    if not hasattr(storm, "build_model_from_umb"):
        raise FormatError(f"{path}: stormpy {storm.__version__} is too old; expected version 2 or later")
    if options.constants and kind == "drn":
        raise OptionError(f"{path}: constants are for PRISM and JANI files; explicit models have none")
    if options.labels or options.state_rewards or options.transition_rewards:
        raise OptionError(f"{path}: labels, state_rewards and transition_rewards belong to .tra files")
    notes: tuple[str, ...] = ()
    with _complaints(path):
        if kind == "drn":
            drn_options = storm.developer.DirectEncodingParserOptions()
            drn_options.build_choice_labeling = b"@nr_choices" in path.read_bytes()  # Storm needs it for names
            model, goal = storm.build_model_from_drn(str(path), options=drn_options), None
        elif kind == "prism":
            source, notes = _parse_prism(storm, path)
        else:
            source = storm.parse_jani_model(str(path), property_filter=[])[0]
    if kind != "drn":
        source = _define_constants(storm, source, path, options)
        with _complaints(path):
            model, goal = _build_symbolic(storm, source, path, options)
    if model.model_type.name not in _KINDS:
        kinds = ", ".join(_KINDS)
        raise FormatError(f"{path}: it is a {model.model_type.name}; expected one of {kinds} (discrete time)")
    if not model.supports_parameters and model.has_parameters:
        raise FormatError(f"{path}: it has parameters; give them values")
    with _complaints(path), TemporaryDirectory(prefix="tailwise-") as folder:
        exporting = importlib.import_module("stormpy.io")
        wanted = exporting.UmbExportOptions()
        wanted.compression, wanted.canonicize_pomdp = exporting.CompressionMode.NO_COMPRESSION, False
        archive = Path(folder) / "model.umb"
        exporting.export_to_umb(model, str(archive), options=wanted)
        del model  # before there is a second copy of it in memory
        return dataclasses.replace(read_umb(archive), goal=goal, notes=notes)


def _parse_prism(storm: Any, path: Path) -> tuple[Any, tuple[str, ...]]:
    """Parse a program, in the form in which Storm takes it."""
    text, notes = tidy_program(path)
    with TemporaryDirectory(prefix="tailwise-") as folder:
        tidied = Path(folder) / path.name
        tidied.write_text(text, encoding="utf-8")
        try:
            return storm.parse_prism_program(str(tidied)), notes
        except RuntimeError as error:
            place = _PLACE.search(str(error))
            name = undeclared_name(text, int(place[1]), int(place[2])) if place else ""
            if not name:
                raise
            raise FormatError(
                f"{path}, line {place and place[1]}: nothing declares {name!r}; if it is a constant, add the line "
                f"'const int {name};' (or double, or bool) and say constants='{name}=...'"
            ) from None


def _define_constants(storm: Any, source: Any, path: Path, options: StormOptions) -> Any:
    known = {constant.name: constant for constant in source.constants}
    given = [item.partition("=")[0] for item in str(options.constants).split(",") if item]
    unknown = [name for name in given if name not in known or known[name].defined]
    undefined = [constant.name for constant in source.constants if not constant.defined]
    if unknown:
        has = ", ".join(undefined) or "none"
        raise OptionError(f"{path}: there is no undefined constant {unknown[0]!r}; undefined constants: {has}")
    missing = [name for name in undefined if name not in given]
    if missing:
        example = ",".join(f"{name}=..." for name in missing)
        raise OptionError(f"{path}: constants without a value: {', '.join(missing)}; say constants='{example}'")
    with _complaints(path):
        return storm.instantiate_constants(source, str(options.constants))[0] if given else source


def _build_symbolic(storm: Any, source: Any, path: Path, options: StormOptions) -> tuple[Any, Bools | None]:
    developer = storm.developer
    goal = _goal(storm, source, path, options.goal)
    # one formula alone would make Storm cut the model off where it holds
    wanted = storm.BuilderOptions() if goal is None else storm.BuilderOptions([goal.get_raw_formula()] * 2)
    wanted.set_build_all_labels()
    wanted.set_build_all_reward_models()
    wanted.set_build_state_valuations()
    wanted.set_build_choice_labels()
    limits = developer.ExplicitModelBuilderOptions[float]()
    limits.exploration_state_limit = options.max_states + 1
    description = developer.SymbolicModelDescription(source)
    model = developer.make_explicit_model_builder[float](description, wanted, None, limits).build()
    if model.nr_states > options.max_states or "unexplored" in model.labeling.get_labels():
        raise FormatError(
            f"{path}: the model has more than max_states={options.max_states} states; raise it, or bound the model"
        )
    if goal is None:
        return model, None
    holds = np.zeros(model.nr_states, dtype=np.bool_)
    holds[list(storm.model_checking(model, goal).get_truth_values_vector())] = True
    return model, holds


def _goal(storm: Any, source: Any, path: Path, text: str | None) -> Any:
    if text is None:
        return None
    labels = {label.name for label in getattr(source, "labels", ())}
    text = f'"{text}"' if text in labels or text in ("init", "deadlock") else text
    try:
        return storm.parse_property(text, source)
    except RuntimeError as error:
        said = " ".join(str(error).split())[:200]
        raise OptionError(
            f"{path}: goal={text!r} is no expression of the model, such as 'x=3 & !b' or '\"label\"': {said}"
        ) from None


@contextmanager
def _complaints(path: Path) -> Iterator[None]:
    """Turn Storm's exceptions into ``FormatError``, and keep its log off the terminal."""
    developer = importlib.import_module("stormpy").developer
    level = developer.get_log_level()
    developer.set_log_level(developer.LogLevel.OFF)
    try:
        yield
    except (RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as error:
        if isinstance(error, (FormatError, OptionError)):
            raise
        text = " ".join(str(error).split()).replace(f"{path}", path.name)
        found = _LINE.search(text)
        where = f"{path}, line {found[1]}" if found else f"{path}"
        raise FormatError(f"{where}: Storm cannot build it: {text[:400]}") from None
    finally:
        developer.set_log_level(level)
