"""Our own file: every array of a table, as NumPy ``.npz``, versioned and checksummed.

The members are plain, uncompressed ``.npy`` arrays, so that reading never needs more memory than the file
has bytes; nothing is ever unpickled; a SHA-256 over names, types, shapes and bytes guards the whole.
"""

from __future__ import annotations

import ast
import hashlib
import math
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError
from tailwise.formats.metadata import Metadata, metadata_of, parse_metadata
from tailwise.models import TabularMDP

_ARRAYS = {
    "action_offsets": ("<i8", 1), "action_ids": ("<i8", 1), "outcome_offsets": ("<i8", 1),
    "probabilities": ("<f8", 1), "next_states": ("<i4", 1), "costs": ("<f8", 1), "done": ("|b1", 1),
    "step_costs": ("<f8", 2), "terminal_costs": ("<f8", 1), "metadata": ("|u1", 1),
}  # fmt: skip
_LOSSES = {"costs": "losses", "step_costs": "step_losses", "terminal_costs": "terminal_losses"}  # field of each member
_CHECKSUM = "sha256"
_LONGEST_HEADER = 4096
_MOST_ACTIONS = 2**31


def write_npz(mdp: TabularMDP, path: Path) -> None:
    """Write a table with all that it has; reading it back gives an equal table.

    Parameters
    ----------
    mdp : TabularMDP
        The table.
    path : Path
        The file to write.
    """
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(getattr(mdp, _LOSSES.get(name, name)), dtype=kind)
        for name, (kind, _) in _ARRAYS.items()
        if name != "metadata"
    }
    arrays["metadata"] = np.frombuffer(metadata_of(mdp).encode(), dtype=np.uint8)
    arrays[_CHECKSUM] = np.frombuffer(_checksum(arrays), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_npz(path: Path) -> TabularMDP:
    """Read a table that :func:`write_npz` wrote.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    TabularMDP

    Raises
    ------
    FormatError
        If the file is not ours, of another version, damaged, or does not describe a table.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {name: _member(archive, name, path) for name in (*_ARRAYS, _CHECKSUM)}
    except (zipfile.BadZipFile, OSError, struct.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise FormatError(f"{path}: not a readable .npz file: {error}") from None
    if _checksum(arrays) != arrays[_CHECKSUM].tobytes():
        raise FormatError(f"{path}: the checksum does not match: the file is damaged; save it again")
    metadata = parse_metadata(arrays["metadata"].tobytes().decode("utf-8", "replace"), f"{path}, member metadata")
    _check_structure(arrays, metadata, path)
    fields = {_LOSSES.get(name, name): arrays[name] for name in _ARRAYS if name != "metadata"}
    for array in fields.values():
        array.setflags(write=False)
    mdp = TabularMDP(
        **fields,
        horizon=metadata.horizon,
        discount=metadata.discount,
        start=metadata.start,
        sense=metadata.sense,
        state_labels=metadata.state_labels,
        action_labels=metadata.action_labels,
        name=metadata.name,
        notes=metadata.notes,
    )
    report = mdp.check()
    if not report.ok:
        raise FormatError(f"{path}: {report.violations[0]}")
    return mdp


def _checksum(arrays: dict[str, NDArray[Any]]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        if name != _CHECKSUM:
            array = arrays[name]
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.tobytes())
    return digest.digest()


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    """Read one array, after checking that its header promises no more than the file holds."""
    where = f"{path}, member {name}"
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise FormatError(f"{where}: it is missing; expected a table that tailwise saved") from None
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > path.stat().st_size:
        raise FormatError(f"{where}: it is compressed or its size is wrong; tailwise saves plain members")
    kind, dimensions = _ARRAYS.get(name, ("|u1", 1))
    with archive.open(info) as file:
        shape, start = _npy_header(file, kind, where)
        size = math.prod(shape) * np.dtype(kind).itemsize
        if len(shape) != dimensions or size != info.file_size - start:
            raise FormatError(f"{where}: its shape {shape} does not fit its size or its {dimensions} dimensions")
        file.seek(0)
        try:
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            raise FormatError(f"{where}: not a readable array: {error}") from None
    return array


def _npy_header(file: IO[bytes], kind: str, where: str) -> tuple[tuple[int, ...], int]:
    """Shape that the header of a ``.npy`` member promises, and where its data starts."""
    prefix = file.read(10)
    if prefix[:8] != b"\x93NUMPY\x01\x00" or len(prefix) < 10:
        raise FormatError(f"{where}: not a version 1.0 .npy array")
    length = int.from_bytes(prefix[8:10], "little")
    if length > _LONGEST_HEADER:
        raise FormatError(f"{where}: its header is longer than {_LONGEST_HEADER} bytes")
    try:
        header = ast.literal_eval(file.read(length).decode("latin1").strip())
        shape, found = tuple(header["shape"]), header["descr"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise FormatError(f"{where}: its header is not one of a .npy array") from None
    if not all(isinstance(n, int) and 0 <= n < 2**48 for n in shape):
        raise FormatError(f"{where}: its shape {shape} is impossible")
    if found != kind:
        raise FormatError(f"{where}: it holds {str(found)[:40]!r}; expected {kind!r}")
    return shape, 10 + length


def _check_structure(arrays: dict[str, NDArray[Any]], metadata: Metadata, path: Path) -> None:
    """Whether the arrays fit together, so that no kernel reads outside of them."""
    states, ids, targets = metadata.num_states, arrays["action_ids"], arrays["next_states"]
    rows, outcomes = ids.size, targets.size

    def check(name: str, is_right: bool) -> None:
        if not is_right:
            raise FormatError(f"{path}, member {name}: it does not fit the other members of the table")

    check("action_offsets", _are_offsets(arrays["action_offsets"], states, rows, least=0))
    check("outcome_offsets", rows > 0 and _are_offsets(arrays["outcome_offsets"], rows, outcomes, least=1))
    check("next_states", bool(((targets >= 0) & (targets < states)).all()))
    for name in ("probabilities", "costs", "done"):
        check(name, arrays[name].size == outcomes)
    check("done", bool((arrays["done"].view(np.uint8) <= 1).all()))
    check("step_costs", arrays["step_costs"].shape in ((0, 0), (metadata.horizon, rows)))
    check("terminal_costs", arrays["terminal_costs"].size == states)
    row_states = np.repeat(np.arange(states), np.diff(arrays["action_offsets"]))
    check("action_ids", bool(((ids >= 0) & (ids < _MOST_ACTIONS)).all()))
    check("action_ids", bool((np.diff(ids)[np.diff(row_states) == 0] > 0).all()))
    check("metadata", len(metadata.state_labels) in (0, states))
    check("metadata", not metadata.action_labels or len(metadata.action_labels) > int(ids.max()))


def _are_offsets(offsets: NDArray[Any], count: int, total: int, *, least: int) -> bool:
    """Whether ``offsets`` cut ``total`` items into ``count`` runs of at least ``least`` each."""
    return (
        offsets.size == count + 1
        and bool(offsets[0] == 0 and offsets[-1] == total)
        and bool((np.diff(offsets) >= least).all())
    )
