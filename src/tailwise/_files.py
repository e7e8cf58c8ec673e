"""Files that are there as a whole or not at all, and the container of what tailwise keeps between runs.

A container is

    tailwise KIND VERSION                        one line
    {"content": ..., "arrays": [[dtype, shape]]} one line of JSON, ASCII
    the arrays, one after the other, in C order, little-endian
    64 hexadecimal digits and a line feed        the SHA-256 of everything before

so that whatever was cut off, flipped or put in is found before anything is believed. Nothing in it depends on when
it was written, and nothing is ever unpickled. The checksum guards against accidents, not against a forger.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailwise.errors import FormatError, TailwiseError

PART = ".part"
_BLOCK = 1 << 20
_log = logging.getLogger(__name__)
_SEAL = 65  # digits of a SHA-256, and a line feed
T = TypeVar("T")
_DTYPE = re.compile(r"[<|][biufcSU]\d{1,9}\Z")


class Record(NamedTuple):
    """What a container holds."""

    content: Any  # plain values, as JSON has them
    arrays: Sequence[NDArray[Any]]


def write_whole(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file of the bytes of ``parts`` so that it is there as a whole or not at all, also after a power cut.

    What was there before stays until all is written.

    Raises
    ------
    OSError
        If the file cannot be written; nothing has changed then.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(0, "it is no regular file", str(path))
    draft = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_native_id()}{PART}")
    try:
        with draft.open("wb") as file:
            for part in parts:
                file.write(part)
        put_in_place(draft, target)
        _log.info("wrote %s", path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def put_in_place(draft: Path, target: Path) -> None:
    """Move a complete file to its place in the same file system, so that it outlives a power cut from then on."""
    with draft.open("r+b") as file:
        os.fsync(file.fileno())
    draft.replace(target)
    folder = target.parent
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    except OSError:  # some network drives know no such thing
        pass
    finally:
        os.close(handle)


def clear_drafts(path: Path) -> None:
    """Remove what runs that were killed while they wrote ``path`` have left; no other may be writing it."""
    target = Path(os.path.realpath(path))
    for draft in target.parent.glob(f".{glob.escape(target.name)}.*{PART}"):
        draft.unlink(missing_ok=True)


def record_parts(kind: str, version: int, record: Record) -> list[bytes | memoryview]:
    """Return the bytes of a container, in parts."""
    arrays = [np.asarray(array, order="C") for array in record.arrays]
    arrays = [array.astype(array.dtype.newbyteorder("<"), copy=False) for array in arrays]
    shapes = [[array.dtype.str, list(array.shape)] for array in arrays]
    header = json.dumps({"content": record.content, "arrays": shapes}, separators=(",", ":"))
    parts: list[bytes | memoryview] = [f"tailwise {kind} {version}\n{header}\n".encode("ascii")]
    parts += [array.reshape(-1).view(np.uint8).data for array in arrays if array.nbytes]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return [*parts, f"{digest.hexdigest()}\n".encode("ascii")]


def write_result(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file, whole or not at all, or raise ``FormatError``."""
    try:
        write_whole(path, parts)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise FormatError(f"{path}: it cannot be written: {getattr(error, 'strerror', None) or error}") from None


def write_record(path: Path, kind: str, version: int, record: Record) -> None:
    """Write a container, whole or not at all, or raise ``FormatError``."""
    write_result(path, record_parts(kind, version, record))


def read_record(path: Path, kind: str, version: int) -> Record:
    """Read a container, or raise the ``FormatError`` of one that is not there, foreign, of another kind or damaged."""
    try:
        with path.open("rb") as file:
            _log.info("reading %s, a %s", path, kind)
            return _read(path, file, kind, version)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        if isinstance(error, TailwiseError):
            raise
        raise FormatError(f"{path}: it cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _read(path: Path, file: BinaryIO, kind: str, version: int) -> Record:
    size = os.fstat(file.fileno()).st_size
    words = file.readline(100).split(b" ")
    wanted = f"a {kind} that tailwise saved"
    if len(words) != 3 or words[0] != b"tailwise" or not words[2].strip().isdigit():
        raise FormatError(f"{path}: it is not {wanted}: its first line does not say so")
    if words[1] != kind.encode():
        other = words[1].decode("ascii", "backslashreplace")
        raise FormatError(f"{path}: it holds a {other}; expected {wanted}")
    if int(words[2]) != version:
        raise FormatError(
            f"{path}: its format has version {int(words[2])}, this tailwise reads version {version}; load it with the "
            "tailwise that saved it, or save it anew"
        )
    begun = file.tell()
    file.seek(0)
    digest, left = hashlib.sha256(), size - _SEAL
    while left > 0 and (block := file.read(min(_BLOCK, left))):
        digest.update(block)
        left -= len(block)
    if file.read(_SEAL + 1) != f"{digest.hexdigest()}\n".encode():
        raise FormatError(f"{path}: its checksum is wrong: the {kind} was cut off or damaged; use another copy")
    file.seek(begun)
    return checked(path, kind, lambda: _parsed(file, size))


def _parsed(file: BinaryIO, size: int) -> Record:
    header = json.loads(file.readline())
    arrays = []
    for dtype, shape in header["arrays"]:
        count = math.prod(shape)
        if not _DTYPE.match(dtype) or min(shape, default=0) < 0:
            raise ValueError(f"an array of {dtype} and shape {shape}")
        kind = np.dtype(dtype)
        if count * kind.itemsize > size - _SEAL - file.tell():
            raise ValueError("arrays are longer than the file")
        array = np.empty(shape, kind)
        if array.nbytes:
            file.readinto(array.reshape(-1).view(np.uint8).data)  # type: ignore[attr-defined]
        arrays.append(array)
    if file.tell() != size - _SEAL:
        raise ValueError("there is more in it than it says")
    return Record(header["content"], arrays)


def checked(path: Path, kind: str, read: Callable[[], T]) -> T:
    """Return what ``read`` makes of the content of a container, or say that it makes no sense."""
    try:
        return read()
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, StopIteration) as error:
        if isinstance(error, TailwiseError):
            raise
        raise FormatError(
            f"{path}: the checksum is right, but what it holds is no {kind}: {type(error).__name__}: {error}"
        ) from error
