"""Have Storm parse and build a model: PRISM, JANI and DRN files.

Everything that understands these languages is Storm's; its calls are in :mod:`tailwise.formats.storm_calls`, and here
its complaints are turned into errors that name the file. What it built comes over as a UMB archive.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np

from tailwise.errors import FormatError, OptionError, require
from tailwise.formats import storm_calls
from tailwise.formats.explicit_model import ExplicitModel
from tailwise.formats.storm_options import StormOptions
from tailwise.formats.storm_texts import division, tidy_program, undeclared_name, with_rewards_as_labels
from tailwise.formats.umb_archive import read_umb

_LINE = re.compile(r"(?:parsing error at|line|error at) (\d+)", re.IGNORECASE)
_PLACE = re.compile(r"error at (\d+):(\d+): *expecting <[^>]*(?:expression|update list)>")
_INTERVAL = re.compile(r":\s*\[[^]]*,[^]]*\]")
_JANI_DIVISION = re.compile(r'"op"\s*:\s*"(?:/|%|pow|log)"')


def build(kind: str, path: Path, options: StormOptions) -> ExplicitModel:
    """Build a model."""
    storm: Any = require("stormpy", "prism", f"reading {path}")
    if not hasattr(storm, "build_model_from_umb"):
        raise FormatError(f"{path}: stormpy {storm.__version__} is too old; expected version 2 or later")
    if options.constants and kind == "drn":
        raise OptionError(f"{path}: constants are for PRISM and JANI files; explicit models have none")
    if options.labels or options.state_rewards or options.transition_rewards:
        raise OptionError(f"{path}: labels, state_rewards and transition_rewards belong to .tra files")
    with TemporaryDirectory(prefix="tailwise-") as folder:
        asked: dict[str, Any] = {
            "language": kind, "file": str(path), "constants": str(options.constants), "goal": options.goal,
            "max_states": options.max_states, "archive": str(Path(folder) / "model.umb"),
        }  # fmt: skip
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        notes: tuple[str, ...] = ()
        if kind == "prism":
            text, notes = tidy_program(path)
            asked["file"] = str(Path(folder) / path.name)
            Path(asked["file"]).write_text(text, encoding="utf-8")
            asked["divides"] = division(text) is not None
            asked["looked_at"] = str(Path(folder) / "labels.prism")
            Path(asked["looked_at"]).write_text(with_rewards_as_labels(text), encoding="utf-8")
        else:
            asked["divides"] = kind == "jani" and _JANI_DIVISION.search(text) is not None
        asked["divides"] |= options.goal is not None and division(options.goal) is not None
        reply = _apart(asked, path, text) if asked["divides"] else storm_calls.build(asked)
        if "said" in reply:
            _complain(reply, path, asked["file"], text)
        model = read_umb(Path(asked["archive"]))
    hidden = kind == "jani" and '"observable"' in text  # Storm builds the model as if all were seen
    goal = None
    if reply["goal"] is not None:
        goal = np.zeros(model.num_states, dtype=np.bool_)
        goal[reply["goal"]] = True
    return dataclasses.replace(model, goal=goal, notes=notes, is_partial=model.is_partial or hidden)


def _apart(asked: dict[str, Any], path: Path, text: str) -> dict[str, Any]:
    """Build in a process of its own, which Storm's arithmetic by zero may end."""
    answer = Path(asked["archive"]).with_name("reply.json")
    ended = subprocess.run(
        [sys.executable, storm_calls.__file__], input=json.dumps(asked | {"reply": str(answer)}), text=True,
        capture_output=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, check=False,
    )  # fmt: skip
    if answer.is_file():
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return found
    if ended.returncode == -signal.SIGFPE:
        line = division(text) if asked["language"] == "prism" else None
        where = f"{path}, line {line}" if line else f"{path}"
        given = f" with constants={asked['constants']!r}" if asked["constants"] else ""
        raise FormatError(f"{where}: it divides by 0, or takes a remainder by 0{given} (Storm's arithmetic stopped)")
    said = " ".join(ended.stderr.split())[-300:]
    raise FormatError(f"{path}: Storm's process ended with code {ended.returncode} while it built the model: {said}")


def _complain(reply: dict[str, Any], path: Path, file: str, text: str) -> NoReturn:
    said, kind = reply["said"], reply["kind"]
    if kind != "Storm":
        raise (OptionError if kind == "OptionError" else FormatError)(f"{path}: {said}")
    if path.suffix == ".drn" and _INTERVAL.search(text):
        raise FormatError(f"{path}: it has intervals; expected plain probabilities")
    place = _PLACE.search(said)
    name = undeclared_name(text, int(place[1]), int(place[2])) if place else ""
    if place and name:
        raise FormatError(
            f"{path}, line {place[1]}: nothing declares {name!r}; if it is a constant, add the line "
            f"'const int {name};' (or double, or bool) and say constants='{name}=...'"
        )
    said = said.replace(file, path.name).replace(str(path), path.name)
    found = _LINE.search(said)
    where = f"{path}, line {found[1]}" if found else f"{path}"
    raise FormatError(f"{where}: Storm cannot build it: {said[:400]}")
