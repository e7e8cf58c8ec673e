"""Files of arrays: P and R of the toolboxes, as (S, S, A), (A, S, S) or (S, A, S), and every array of a table.

The latter are our own ``.npz``, versioned and checksummed. The members are plain, uncompressed ``.npy`` arrays, so that
reading never needs more memory than the file has bytes; nothing is ever unpickled; a SHA-256 over names, types, shapes
and bytes guards the whole.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailwise._validate import choice
from tailwise.errors import FormatError, ModelError, OptionError
from tailwise.formats.metadata import metadata_of, parse_metadata
from tailwise.formats.options import CommonOptions, settled
from tailwise.formats.registry import COMMON, register_format
from tailwise.models import TabularMDP

_ORDERS = ("SSA", "ASS", "SAS")
_CHANCES = ("P", "T", "transitions", "transition", "probabilities")
_VALUES = {"R": "rewards", "rewards": "rewards", "reward": "rewards", "C": "costs", "costs": "costs", "cost": "costs"}


@dataclass(frozen=True, kw_only=True)
class ArrayOptions(CommonOptions):
    """Options of files of arrays."""

    order: str | None = None  # of the axes of P; that in which its rows sum to 1, where there is but one

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order is not None:
            choice(self.order, "order", _ORDERS)


def table_of_arrays(arrays: Mapping[str, Any], path: Path, asked: ArrayOptions) -> TabularMDP:
    """Build a table from a file's arrays: P (or T), R or C, and perhaps gamma and start."""
    horizon, discount, start, order = asked.horizon, asked.discount, asked.start, asked.order
    lower = {name.lower(): value for name, value in arrays.items()}
    chances = next((lower[name.lower()] for name in _CHANCES if name.lower() in lower), None)
    named = next((name for name in _VALUES if name.lower() in lower), None)
    if chances is None or named is None:
        has = ", ".join(arrays) or "nothing"
        raise FormatError(f"{path}: it holds {has}; expected P (or T) and R (or C)")
    values = lower[named.lower()]
    notes = [f"read as arrays {named} and P"]
    if isinstance(chances, np.ndarray) and chances.dtype == object:  # a cell array, of one matrix an action
        chances, order = np.stack([_dense(item) for item in chances.reshape(-1)]), "ASS"
        if isinstance(values, np.ndarray) and values.dtype == object:
            values = np.stack([_dense(item) for item in values.reshape(-1)])
    chances, values = _dense(chances), _dense(values)
    order = _order(chances, path) if order is None else order
    if values.ndim == 2 and 1 in values.shape and chances.shape[order.index("A")] != 1:
        values = values.reshape(-1)  # MATLAB has no vectors
    kind = {1: "S", 2: "SA", 3: "ASS" if order == "SSA" else order}.get(values.ndim)
    if order == "SSA":
        chances = np.moveaxis(chances, 2, 0)
        values = np.moveaxis(values, 2, 0) if values.ndim == 3 else values
    if discount is None:
        found = next((lower[name] for name in ("gamma", "discount") if name in lower), None)
        discount = 1.0 if found is None else float(np.asarray(found).reshape(-1)[0])
    horizon, discount = settled(horizon, discount, notes)
    given: dict[str, Any] = {_VALUES[named]: values}
    try:
        mdp = TabularMDP.from_arrays(
            chances, **given, order="SAS" if order == "SAS" else "ASS", costs_order=kind, horizon=horizon,
            discount=discount, start=0 if start is None else int(start), name=path.name,
        )  # fmt: skip
    except (ModelError, ValueError) as error:
        raise FormatError(f"{path}: {error}") from None
    return replace(mdp, notes=(*mdp.notes, *notes))


def _dense(value: Any) -> Any:
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)


def _order(chances: Any, path: Path) -> str:
    if chances.ndim != 3 or chances.dtype.kind not in "iufb":
        raise FormatError(
            f"{path}: P has shape {chances.shape}; expected three axes, of numbers: (S,S,A), (A,S,S) or (S,A,S)"
        )
    found = []
    for order in _ORDERS:
        states = [chances.shape[k] for k, axis in enumerate(order) if axis == "S"]
        if states[0] == states[1] and np.allclose(chances.sum(axis=order.rindex("S")), 1.0, rtol=0, atol=1e-6):
            found.append(order)
    if len(found) != 1:
        what = "rows of P sum to 1 in no order" if not found else f"P may be {' or '.join(found)}"
        raise (OptionError if found else FormatError)(
            f"{path}: shape {chances.shape}: {what}; say order=SSA, ASS or SAS"
        )
    return found[0]


def read_matlab(path: Path, **options: Any) -> TabularMDP:
    """Arrays P and R of a MATLAB file, as the MDP toolbox has them."""
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except NotImplementedError:
        hint = "files of version 7.3 (HDF5) are not read: in MATLAB, save with the option '-v7'"
        raise FormatError(f"{path}: {hint}") from None
    except Exception as error:  # scipy raises many types
        raise FormatError(f"{path}: not a readable MATLAB file: {str(error)[:200]}") from None
    arrays = {name: value for name, value in content.items() if not name.startswith("__")}
    return table_of_arrays(arrays, path, ArrayOptions(**options))


register_format("matlab", read_matlab, extensions=(".mat",), options=ArrayOptions)


_FIELDS = {
    "action_offsets": ("<i8", 1), "action_ids": ("<i8", 1), "outcome_offsets": ("<i8", 1),
    "probabilities": ("<f8", 1), "next_states": ("<i4", 1), "costs": ("<f8", 1), "done": ("|b1", 1),
    "step_costs": ("<f8", 2), "terminal_costs": ("<f8", 1),
}  # fmt: skip
_LOSSES = {"costs": "losses", "step_costs": "step_losses", "terminal_costs": "terminal_losses"}  # field of each member
_LEARNED = "learned_"  # what a table learned from a log keeps; see tailwise.logs.files
_TEXTS = {"metadata": ("|u1", 1), "sha256": ("|u1", 1)}


def write_npz(mdp: TabularMDP, path: Path) -> None:
    """Write a table with all that it has; reading it back gives an equal table."""
    arrays: dict[str, Any] = {
        name: np.ascontiguousarray(getattr(mdp, _LOSSES.get(name, name)), dtype=kind)
        for name, (kind, _) in _FIELDS.items()
    }
    arrays |= getattr(mdp, "saved_members", dict)()
    arrays["metadata"] = np.frombuffer(metadata_of(mdp).encode(), dtype=np.uint8)
    arrays["sha256"] = np.frombuffer(_checksum(arrays), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)  # allow_pickle= would be one more array, before NumPy 2.1


def read_npz(path: Path, **options: Any) -> TabularMDP:
    """Read a table with all that it has, as tailwise saved it, or arrays P and R."""
    from tailwise.formats.loading import with_common

    asked, foreign = ArrayOptions(**options), _foreign(path)
    if foreign:
        return table_of_arrays(foreign, path, asked)
    given = {name: value for name in COMMON if (value := getattr(asked, name)) is not None}
    table: Any = with_common(_saved(path), given)
    return table  # type: ignore[no-any-return]  # as what was saved


def _foreign(path: Path) -> dict[str, Any]:
    """Return the arrays of a file that holds P and is not ours, or {}."""
    found: dict[str, Any] = {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = getattr(archive, "files", ())
            for name in names if {"P", "T", "transitions"} & set(names) else ():
                info = archive.zip.getinfo(f"{name}.npy")
                with archive.zip.open(info) as member:
                    _check_size(member, info.file_size, f"{path}, member {name}")
                found[name] = archive[name]
    except FormatError:
        raise
    except Exception:  # a damaged file of ours raises many types here, and is named below
        return {}
    return found


def _saved(path: Path) -> TabularMDP:
    arrays = _arrays(path)
    if _checksum(arrays) != arrays["sha256"].tobytes():
        raise FormatError(f"{path}: the checksum does not match: the file is damaged; save it again")
    metadata = parse_metadata(arrays["metadata"].tobytes().decode("utf-8", "replace"), f"{path}, member metadata")
    fields: dict[str, Any] = {_LOSSES.get(name, name): arrays[name] for name in _FIELDS}
    for array in fields.values():
        array.setflags(write=False)
    mdp = TabularMDP(
        **fields, horizon=metadata.horizon, discount=metadata.discount, start=metadata.start, sense=metadata.sense,
        state_labels=metadata.state_labels, action_labels=metadata.action_labels, name=metadata.name,
        notes=metadata.notes,
    )  # fmt: skip
    if arrays["action_offsets"].size != metadata.num_states + 1:
        raise FormatError(f"{path}, member action_offsets: it does not fit the {metadata.num_states} states declared")
    if not (arrays["done"].view(np.uint8) <= 1).all():
        raise FormatError(f"{path}, member done: it holds something else than truth values")
    report = mdp.check()
    if not report.ok:
        raise FormatError(f"{path}: {report.violations[0]}")
    return mdp


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read all members, none of which may promise more than the file holds."""
    found: dict[str, NDArray[Any]] = {}
    name = ""
    if not path.exists():
        raise FormatError(f"{path}: there is no such file")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise FormatError(f"{path}: it holds one array; expected a table that tailwise saved")
            own = _FIELDS | _TEXTS
            for name in (*own, *(more for more in archive.files if more.startswith(_LEARNED))):
                where = f"{path}, member {name}"
                if name not in archive.files:
                    raise FormatError(f"{where}: it is missing; expected a table that tailwise saved")
                assert archive.zip is not None
                info = archive.zip.getinfo(f"{name}.npy")
                if info.compress_type != zipfile.ZIP_STORED or info.file_size > path.stat().st_size:
                    raise FormatError(f"{where}: it is compressed or its size is wrong; tailwise saves plain members")
                with archive.zip.open(info) as member:
                    _check_size(member, info.file_size, where)
                found[name] = array = archive[name]
                kind, dimensions = own.get(name, (array.dtype.str, array.ndim))
                if array.dtype.str != kind or array.ndim != dimensions:
                    raise FormatError(f"{where}: it holds {array.dtype.str!r}; expected {kind!r} of shape {dimensions}")
    except FormatError:
        raise
    except Exception as error:  # a damaged file raises many types
        said = str(error)[:200]
        if "pickle" in said:  # NumPy would advise to believe the file
            said = "it holds Python objects, which are never loaded, or is no archive at all"
        raise FormatError(f"{path}, member {name or '?'}: not a readable .npz file: {said}") from None
    return found


def read_members(path: Path, prefix: str) -> dict[str, NDArray[Any]]:
    """Read what else a file of ours keeps: the members whose names begin so."""
    return {name: array for name, array in _arrays(path).items() if name.startswith(prefix)}


def _check_size(member: Any, size: int, where: str) -> None:
    """Whether the header of an array promises what the archive has, before memory is set aside for it."""
    version = np.lib.format.read_magic(member)
    if version != (1, 0):
        raise FormatError(f"{where}: not a version 1.0 .npy array")
    shape, _, kind = np.lib.format.read_array_header_1_0(member)
    promised = np.prod([float(n) for n in shape]) * kind.itemsize
    if kind.hasobject or promised != size - member.tell():
        raise FormatError(f"{where}: its shape {shape} of {kind.str} does not fit its size")


def _checksum(arrays: dict[str, NDArray[Any]]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        if name != "sha256":
            array = arrays[name]
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.tobytes())
    return digest.digest()


register_format("npz", read_npz, extensions=(".npz",), write=write_npz, options=ArrayOptions)
