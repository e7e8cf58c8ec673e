"""Files that are whole or not at all, and containers that notice whatever happened to them."""

import hashlib
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailwise._files import PART, Record, clear_drafts, read_record, record_parts, write_record, write_whole
from tailwise.errors import FormatError

ARRAYS = (np.arange(3), np.array(0.5), np.zeros((0, 2), np.int32), np.array([[True], [False]]), np.array(["a", "bc"]))
RECORD = Record({"text": "\u00e4", "number": 1e-300, "none": None}, ARRAYS)


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "it"
    write_record(path, "thing", 3, RECORD)
    found = read_record(path, "thing", 3)
    assert found.content == RECORD.content
    for array, expected in zip(found.arrays, ARRAYS, strict=True):
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected)
    assert [entry.name for entry in tmp_path.iterdir()] == ["it"]


def test_every_flip_and_every_cut_is_noticed(tmp_path):
    path, whole = tmp_path / "it", b"".join(bytes(part) for part in record_parts("thing", 3, RECORD))
    for place in range(len(whole)):
        for bit in (1, 0x80):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            with pytest.raises(FormatError, match=r"it: "):
                read_record(path, "thing", 3)
        path.write_bytes(whole[:place])
        with pytest.raises(FormatError, match=r"it: "):
            read_record(path, "thing", 3)
    path.write_bytes(whole + b"\n")
    with pytest.raises(FormatError, match="checksum is wrong"):
        read_record(path, "thing", 3)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=300))
def test_foreign_files_are_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("foreign") / "it"
    for start in (b"", b"tailwise thing 3\n", b'tailwise thing 3\n{"content":1,"arrays":[]}\n'):
        path.write_bytes(start + content)
        with pytest.raises(FormatError, match=r"it: "):
            read_record(path, "thing", 3)


@pytest.mark.parametrize(
    ("kind", "version", "reason"),
    [
        ("plan", 3, "it holds a thing; expected a plan that tailwise saved"),
        ("thing", 4, "its format has version 3, this tailwise reads version 4"),
    ],
)
def test_other_kinds_and_versions_are_named(kind, version, reason, tmp_path):
    write_record(tmp_path / "it", "thing", 3, RECORD)
    with pytest.raises(FormatError, match=reason):
        read_record(tmp_path / "it", kind, version)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(FormatError, match="it cannot be read: No such file"):
        read_record(tmp_path / "it", "thing", 3)
    with pytest.raises(FormatError, match="it cannot be read"):
        read_record(tmp_path, "thing", 3)
    with pytest.raises(FormatError, match="it cannot be written: No such file"):
        write_record(tmp_path / "no" / "it", "thing", 3, RECORD)
    with pytest.raises(FormatError, match="it cannot be written: it is no regular file"):
        write_record(tmp_path, "thing", 3, RECORD)


def test_a_header_that_lies_about_its_arrays_is_refused(tmp_path):
    for shapes in ('[["<f8",[1000000000000]]]', '[["|O",[1]]]', '[["<f8",[-1]]]', '[["<f8"]]', '[["<i8",[2]]]'):
        head = record_parts("thing", 3, Record(None, []))[0].replace(b"[]", shapes.encode()) + bytes(24)
        write_whole(tmp_path / "it", [head, f"{hashlib.sha256(head).hexdigest()}\n".encode()])
        with pytest.raises(FormatError, match="the checksum is right, but what it holds is no thing"):
            read_record(tmp_path / "it", "thing", 3)


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "it"
    path.write_bytes(b"before")

    def broken():
        yield b"half"
        raise RuntimeError("the power is cut")

    with pytest.raises(RuntimeError, match="power"):
        write_whole(path, broken())
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["it"]


def test_links_are_followed_and_permissions_are_the_users(tmp_path):
    path, link = tmp_path / "it", tmp_path / "link"
    path.write_bytes(b"before")
    link.symlink_to(path)
    write_whole(link, [b"after"])
    assert link.is_symlink()
    assert path.read_bytes() == b"after"
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_drafts_of_killed_runs_are_cleared(tmp_path):
    for name in (f".a[1].7-7{PART}", f".b.7-7{PART}", "a[1]"):
        (tmp_path / name).touch()
    clear_drafts(tmp_path / "a[1]")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [f".b.7-7{PART}", "a[1]"]
