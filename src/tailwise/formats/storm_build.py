"""Have Storm parse and build a model: PRISM, JANI, DRN and explicit files.

Everything that understands these languages is Storm's; here are its calls, and its complaints turned
into errors that name the file.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tailwise.errors import FormatError, OptionError, require
from tailwise.formats.explicit_files import explicit_files
from tailwise.formats.storm_options import StormOptions

_BY_ZERO = re.compile(r"/\s*0(?:\.0*)?(?![\w.])")
_LINE = re.compile(r"(?:parsing error at|line|error at) (\d+)", re.IGNORECASE)


def build(kind: str, path: Path, options: StormOptions) -> tuple[Any, tuple[str, ...]]:
    """Build a sparse model.

    Parameters
    ----------
    kind : "prism", "jani", "drn" or "tra"
        The language.
    path : Path
        The file.
    options : StormOptions
        Constants, bounds, and companions of explicit files.

    Returns
    -------
    tuple
        Storm's sparse model, and notes.

    Raises
    ------
    FormatError
        If Storm cannot read or build it, or it has too many states.
    OptionError
        If constants are missing or unknown.
    MissingExtraError
        If stormpy is not installed.
    """
    storm = require("stormpy", "prism", f"reading {path}")
    if not hasattr(storm, "model_checking"):
        raise FormatError(f"{path}: stormpy {storm.__version__} is too old; expected version 2 or later")
    if options.constants and kind in ("drn", "tra"):
        raise OptionError(f"{path}: constants are for PRISM and JANI files; explicit models have none")
    if kind != "tra" and (options.labels or options.state_rewards or options.transition_rewards):
        raise OptionError(f"{path}: labels, state_rewards and transition_rewards belong to .tra files")
    with _complaints(path):
        if kind == "tra":
            return _build_explicit(storm, path, options)
        if kind == "drn":
            drn_options = storm.developer.DirectEncodingParserOptions()
            drn_options.build_choice_labeling = b"@nr_choices" in path.read_bytes()  # Storm needs it for names
            return storm.build_model_from_drn(str(path), options=drn_options), ()
        if kind == "prism":
            _refuse_division_by_zero(path)
            source = storm.parse_prism_program(str(path))
        else:
            source = storm.parse_jani_model(str(path), property_filter=[])[0]
    source = _define_constants(storm, source, path, options)
    with _complaints(path):
        return _build_symbolic(storm, source, path, options)


def _refuse_division_by_zero(path: Path) -> None:
    """Raise where a number is divided by a zero that stands there: Storm's arithmetic would end the whole process."""
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if _BY_ZERO.search(line.partition("//")[0]):
            raise FormatError(f"{path}, line {number}: it divides by 0")


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


def _build_symbolic(storm: Any, source: Any, path: Path, options: StormOptions) -> tuple[Any, tuple[str, ...]]:
    developer = storm.developer
    wanted = storm.BuilderOptions()
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
    return model, ()


def _build_explicit(storm: Any, path: Path, options: StormOptions) -> tuple[Any, tuple[str, ...]]:
    with TemporaryDirectory(prefix="tailwise-") as folder:
        files = explicit_files(path, options, Path(folder))
        model = storm.build_model_from_explicit(
            str(files.transitions),
            str(files.labels),
            state_rewards=_text(files.state_rewards),
            transition_rewards=_text(files.transition_rewards),
            choice_labeling=_text(files.choices),
        )
    return model, files.notes


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


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
