"""Random damage to small text files, for every text format that is parsed here."""

from dataclasses import dataclass

import numpy as np

from conftest import random_mdp
from formats import small_files as small
from formats.small_files import write
from tailwise.formats import load, save

TOKENS = (
    "", "-1", "0", "1", "2", "nan", "inf", "-inf", "1e999", "1e-999", "999999999999", "1000000", "9" * 40,
    "9" * 5000, "\0", '"', "'", ",", ";", "\n", "\r", "\r\n", "\t", " ", "0x10", "1_0", "0.5", "1.0000001",
    "é", "\u0663", "\ufeff", "__import__('os')._exit(7)", "!!python/object/apply:os._exit [7]", "{", "}",
    "1/3", "1/0", "# Labels", "# Transitions (CTMC)",
    "[" * 3000, "]", ":", "null", "true", "#", "#END", "#DECLARATION", "mdp", "dtmc", "init",
)  # fmt: skip


def mutate(text, rng):
    """Damage ``text`` in one to four places."""
    data = text.encode()
    for _ in range(int(rng.integers(1, 5))):
        size = len(data)
        first, last = sorted(int(i) for i in rng.integers(0, size + 1, size=2))
        kind = int(rng.integers(8))
        if kind == 0 and size:  # another byte
            place = int(rng.integers(size))
            data = data[:place] + bytes([int(rng.integers(256))]) + data[place + 1 :]
        elif kind == 1:  # a nasty token put in
            data = data[:first] + TOKENS[int(rng.integers(len(TOKENS)))].encode() + data[first:]
        elif kind == 2:  # a field replaced
            fields = data.replace(b"\n", b",\n,").split(b",")
            fields[int(rng.integers(len(fields)))] = TOKENS[int(rng.integers(len(TOKENS)))].encode()
            data = b",".join(fields).replace(b",\n,", b"\n")
        elif kind == 3:  # a piece taken out
            data = data[:first] + data[min(last, first + 20) :]
        elif kind == 4:  # a piece doubled
            data = data[:last] + data[first:]
        elif kind == 5:  # cut off
            data = data[: max(last, 1)]
        elif kind == 6:  # lines in another order
            lines = data.split(b"\n")
            data = b"\n".join(lines[int(i)] for i in rng.permutation(len(lines)))
        else:  # a digit changed
            digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
            if digits:
                place = digits[int(rng.integers(len(digits)))]
                data = data[:place] + str(int(rng.integers(10))).encode() + data[place + 1 :]
    return data


@dataclass(frozen=True)
class Subject:
    """Files of one format, the one that gets damaged, and how to read them."""

    files: dict[str, str]
    damaged: str
    read: object


def _load(path):
    load(path, horizon=3)


def _explicit(path):
    load(path, horizon=3, start=0)


def subjects(folder):
    """All formats by name."""
    saved = save(random_mdp(1, states=3, done=True), folder / "made.csv")
    info = {"model__csv": small.ONE_BASED, "domains_info__csv": small.INFO}
    meta = {"model__csv": saved.read_text(), "model__csv__json": (folder / "made.csv.json").read_text()}
    storm = {
        "model__tra": small.STORM_TRA, "model__lab": small.STORM_LAB, "model__srew": small.STORM_SREW,
        "model__trew": small.STORM_TREW,
    }  # fmt: skip
    prism = {
        "model__tra": small.PRISM_TRA, "model__lab": small.PRISM_LAB, "model__srew": small.PRISM_SREW,
        "model__trew": small.PRISM_TREW,
    }  # fmt: skip
    found = {
        "csv from 0": Subject({"model__csv": small.ZERO_BASED}, "model__csv", _load),
        "csv from 1": Subject({"model__csv": small.ONE_BASED}, "model__csv", _load),
        "csv alternatives": Subject({"model__csv": small.ALTERNATIVES}, "model__csv", _load),
        "csv numbered": Subject({"model__csv": small.NUMBERED}, "model__csv", _load),
        "csv saved": Subject(meta, "model__csv", _load),
        "domains_info": Subject(info, "domains_info__csv", _load),
        "metadata": Subject(meta, "model__csv__json", _load),
    }
    prism |= {"model__sta": "(x,b)\n0:(0,true)\n1:(5,false)\n2:(7,true)\n"}
    sections = {
        "tra": "# Transitions (MDP)", "sta": "# States", "lab": "# Labels",
        "srew": '# Reward structure "r"\n# State rewards', "trew": '# Reward structure "r"\n# Transition rewards',
    }  # fmt: skip
    whole = "\n".join(f"{title}\n{prism[f'model__{ending}']}" for ending, title in sections.items())
    found["prism pexp"] = Subject({"model__pexp": whole}, "model__pexp", _explicit)
    found["csv names"] = Subject({"model__csv": small.NAMED}, "model__csv", _load)
    for name, files in (("storm", storm), ("prism", prism)):
        for damaged in files:
            found[f"{name} {damaged.partition('__')[2]}"] = Subject(files, damaged, _explicit)
    return found


def try_one(subject, folder, rng):
    """Read one damaged copy; return what was raised, or None, and the damaged bytes."""
    path = write(folder, **subject.files)
    data = mutate(subject.files[subject.damaged], rng)
    (folder / subject.damaged.replace("__", ".")).write_bytes(data)
    try:
        subject.read(path)
    except Exception as error:  # whatever it is: the caller judges
        return error, data
    return None, data


def generator(name, index):
    """The stream of one case, by itself, so that any case can be run alone."""
    return np.random.default_rng([index, *name.encode()])
