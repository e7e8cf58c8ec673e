"""Saving and loading gives an equal table; damaged and foreign files are named."""

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from conftest import random_mdp
from formats.small_files import ONE_BASED, write
from tailwise import TabularMDP, backward_induction, domains
from tailwise.errors import FormatError, ModelError, OptionError, StateError, UnknownNameError
from tailwise.formats import load, save


def same(tmp_path, mdp, extension):
    if extension in (".arrow", ".parquet"):
        pytest.importorskip("pyarrow")
    found = load(save(mdp, tmp_path / f"saved{extension}"))
    assert found.equals(mdp)
    assert (found.name, found.notes) == (mdp.name, mdp.notes)
    return found


def labelled():
    mdp = random_mdp(5, states=5, done=True)
    return replace(
        mdp, sense="reward", start=3, discount=1 / 3, name="a 'name', with \"quotes\" and ünïcode",
        state_labels=("a,b", 'c"d', "e\nf", "", "ß"),
        action_labels=("left", "right", "stay"), notes=("one", "two"),
    )  # fmt: skip


@pytest.mark.parametrize("extension", [".npz", ".csv", ".csv.gz", ".arrow", ".parquet"])
@pytest.mark.parametrize("seed", range(5))
def test_random_tables(tmp_path, extension, seed):
    same(tmp_path, random_mdp(seed, scale=10.0 ** (3 * seed - 6), done=seed % 2 == 1), extension)


@pytest.mark.parametrize("extension", [".npz", ".csv", ".csv.gz", ".arrow", ".parquet"])
def test_names_notes_and_rewards(tmp_path, extension):
    same(tmp_path, labelled(), extension)


@pytest.mark.parametrize("extension", [".npz", ".csv", ".csv.gz", ".arrow", ".parquet"])
@pytest.mark.parametrize("name", ["mdp-4", "grid-mdp"])
def test_domains(tmp_path, extension, name):
    same(tmp_path, domains.make(name), extension)


@pytest.mark.parametrize("extension", [".npz", ".csv", ".csv.gz", ".arrow", ".parquet"])
def test_a_state_without_actions_at_the_end_keeps_its_terminal_cost(tmp_path, extension):
    mdp = TabularMDP.from_outcomes([0, 0], [0, 0], [1, 0], [0.5, 0.5], [1.0, 2.0], horizon=1, terminal_costs=[0.0, 7.0])
    assert not same(tmp_path, mdp, extension).done.any()


def test_costs_that_depend_on_the_step_fit_npz_only(tmp_path):
    mdp = random_mdp(1, per_step=True)
    same(tmp_path, mdp, ".npz")
    for extension in (".csv", ".csv.gz", ".arrow", ".parquet"):
        target = tmp_path / f"unfit{extension}"
        with pytest.raises(FormatError, match=r"depend on the step.*save it as .npz") as caught:
            save(mdp, target)
        assert str(caught.value).startswith(f"{target}: ")  # and not the draft beside it
        assert not target.exists()


def test_a_saved_csv_is_the_communitys_dialect(tmp_path):
    path = save(random_mdp(0), tmp_path / "saved.csv")
    assert path.read_text().splitlines()[0] == "idstatefrom,idaction,idstateto,probability,cost"


@pytest.mark.parametrize("name", ["saved.csv", "saved.csv.gz"])
def test_a_list_that_was_changed_needs_a_word(tmp_path, name):
    """Horizon, start and names that were saved with one list must not be taken for those of another."""
    path = save(labelled(), tmp_path / name)
    path = save(random_mdp(1), tmp_path / "other.csv").replace(path)
    with pytest.raises(FormatError, match=r"line 1: the list was changed after .*metadata=ignore"):
        load(path)
    alone = load(path, metadata="ignore", horizon=4, discount=0.9)
    assert (alone.name, alone.state_labels, alone.start) == (name, (), 0)
    assert np.array_equal(alone.losses, random_mdp(1).losses)
    save(random_mdp(2), path)
    assert load(path).equals(random_mdp(2))


@pytest.mark.parametrize("extension", [".arrow", ".parquet"])
def test_metadata_in_a_file_that_another_program_rewrote_needs_a_word(tmp_path, extension):
    """Arrow keeps the metadata of a table when some of its rows are left out."""
    pytest.importorskip("pyarrow")
    import pyarrow.compute as compute
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet

    path = save(random_mdp(5, states=5), tmp_path / f"saved{extension}")
    table = (feather.read_table if extension == ".arrow" else parquet.read_table)(path)
    table = table.filter(compute.less(table["idaction"], 1))
    (feather.write_feather if extension == ".arrow" else parquet.write_table)(table, path)
    with pytest.raises(FormatError, match=r"line 1: the list was changed after .*metadata=ignore"):
        load(path)
    assert load(path, metadata="keep").horizon == random_mdp(5).horizon
    assert load(path, metadata="ignore").horizon == 100


def test_a_list_that_says_the_same_in_another_way_is_not_changed(tmp_path):
    path = save(labelled(), tmp_path / "saved.csv")
    path.write_text("# by hand\n\n" + path.read_text().rstrip("\n"))
    assert load(path).equals(labelled())
    path.write_text(path.read_text().replace("idaction", "IDACTION", 1))
    assert load(path, metadata="keep").equals(labelled())


def test_files_of_the_first_version_load(tmp_path):
    """They have the size of their list, and no checksum."""
    path = save(labelled(), tmp_path / "saved.csv")
    beside = tmp_path / "saved.csv.json"
    fields = json.loads(beside.read_text())
    del fields["list_sha256"]
    beside.write_text(json.dumps(fields))
    assert load(path).equals(labelled())
    path.write_text(path.read_text() + "\n")
    with pytest.raises(FormatError, match="changed after"):
        load(path)
    assert load(path, metadata="keep").equals(labelled())


@pytest.mark.parametrize("extension", [".npz", ".csv", ".csv.gz", ".arrow", ".parquet"])
def test_a_start_means_the_same_state_before_and_after_saving(tmp_path, extension):
    """A file that counts from 1 has a state 1, however it is named and wherever it was saved."""
    if extension in (".arrow", ".parquet"):
        pytest.importorskip("pyarrow")
    path = write(tmp_path, model__csv=ONE_BASED)
    saved = save(load(path, horizon=5), tmp_path / f"saved{extension}")
    for start in (1, 2, "2", 3):
        before, after = load(path, horizon=5, start=start), load(saved, start=start)
        assert before.start == after.start == load(before, start=start).start == int(start) - 1
        assert backward_induction(before, 0.5).value == backward_induction(after, 0.5).value
    for start in (0, "0", 4):
        with pytest.raises((OptionError, StateError), match="is not in"):
            load(saved, start=start)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    from tailwise.formats.kinds import columns

    path = save(random_mdp(0), tmp_path / "saved.csv")
    monkeypatch.setattr(columns, "metadata_of", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(random_mdp(1), path)
    assert load(path).equals(random_mdp(0))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saved.csv", "saved.csv.json"]


def test_options_apply_to_saved_tables(tmp_path):
    for extension in (".npz", ".csv"):
        path = save(labelled(), tmp_path / f"saved{extension}")
        found = load(path, horizon=2, discount=0.5, start="a,b")
        assert (found.horizon, found.discount, found.start) == (2, 0.5, 0)


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(UnknownNameError, match=r"saved as .npz, .csv or .arrow, not '.txt'"):
        save(random_mdp(0), tmp_path / "saved.txt")
    with pytest.raises(ModelError, match="only tables"):
        save(object(), tmp_path / "saved.npz")
    with pytest.raises(FormatError, match="cannot be written"):
        save(random_mdp(0), tmp_path / "no folder" / "saved.npz")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("version", 2, "version 2 of tailwise-table; this tailwise reads version 1"),
        ("format", "other", "not metadata of tailwise"),
        ("horizon", 0, "horizon must be a whole number"),
        ("discount", 1.5, "discount must be a number"),
        ("start", 99, "start must be a state of 0..3"),
        ("sense", "reward", "the values are costs"),
        ("surprise", 1, "unknown key 'surprise'"),
        ("state_labels", ["a", "a", "b", "c"], "more than once"),
        ("num_states", 2, "state 3 in a file that declares 2 states"),
        ("num_states", 10**9, "1000000000 states are declared"),
        ("terminal_values", [1.0], "terminal_values must be"),
        ("state_labels", ["a"], "state_labels has 1 entries for 4 items"),
    ],
)
def test_wrong_metadata_is_named_with_file_and_line(tmp_path, key, value, said):
    path = save(replace(random_mdp(2), terminal_losses=np.zeros(4)), tmp_path / "saved.csv")
    beside = tmp_path / "saved.csv.json"
    fields = json.loads(beside.read_text())
    fields[key] = value
    beside.write_text(json.dumps(fields, indent=1))
    with pytest.raises(FormatError, match=rf"saved\.csv.*, line \d+: .*{said}|line \d+: {said}"):
        load(path)


def rewrite(path, **changes):
    """Write an .npz file again with some members replaced by raw bytes or arrays, and a right checksum."""
    from tailwise.formats.kinds import arrays as kind

    with zipfile.ZipFile(path) as archive:
        members = {name[:-4]: archive.read(name) for name in archive.namelist()}
    for name, value in changes.items():
        if isinstance(value, np.ndarray):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, value, allow_pickle=True)
            value = buffer.getvalue()
        members[name] = value
    arrays = {}
    for name, content in members.items():
        try:
            arrays[name] = np.lib.format.read_array(io.BytesIO(content))
        except (ValueError, MemoryError):
            continue
    if "sha256" not in changes:
        buffer = io.BytesIO()
        digest = np.frombuffer(kind._checksum(arrays), dtype=np.uint8)
        np.lib.format.write_array(buffer, digest)
        members["sha256"] = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def header_only(text):
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


EXECUTED = []


class Trap:
    def __reduce__(self):
        return (EXECUTED.append, ("unpickled",))


HOSTILE = {
    "pickle": ({"costs": np.array([Trap()], dtype=object)}, "member costs"),
    "huge": (
        {"costs": header_only("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }")},
        "shape",
    ),
    "wide": (
        {"costs": header_only("{'descr': '|V1000000000', 'fortran_order': False, 'shape': (9,), }")},
        "costs",
    ),
    "code": ({"costs": header_only("__import__('os').getpid()")}, "member costs: not a readable"),
    "offsets": ({"outcome_offsets": np.array([0, 10**15])}, "outcome_offsets"),
    "targets": ({"next_states": np.full(3, 77, dtype=np.int32)}, "next_states"),
    "repeat": ({"action_offsets": np.array([0, 10**15, -5, 3, 4])}, "action_offsets are out of order"),
    "infinite": ({"terminal_costs": np.array([np.inf, 0, 0, 0])}, "terminal cost"),
    "checksum": ({"sha256": np.zeros(32, dtype=np.uint8)}, "checksum does not match"),
    "truth": ({"done": np.frombuffer(b"\x07" * 18, dtype=np.bool_)}, "member done"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_npz_files_are_refused(tmp_path, case):
    changes, said = HOSTILE[case]
    mdp = random_mdp(3)
    if case == "truth":
        changes = {"done": np.frombuffer(b"\x07" * mdp.num_outcomes, dtype=np.bool_)}
    path = save(mdp, tmp_path / "saved.npz")
    rewrite(path, **changes)
    with pytest.raises(FormatError, match=said):
        load(path)
    assert not EXECUTED


def test_the_rewriting_itself_does_no_harm(tmp_path):
    path = save(random_mdp(3), tmp_path / "saved.npz")
    rewrite(path)
    assert load(path).equals(random_mdp(3))


def test_foreign_and_damaged_npz_files(tmp_path):
    path = tmp_path / "saved.npz"
    np.savez(path, x=np.zeros(3))
    with pytest.raises(FormatError, match="member action_offsets: it is missing"):
        load(path)
    np.savez_compressed(path, action_offsets=np.zeros(3))
    with pytest.raises(FormatError, match="compressed"):
        load(path)
    path.write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(FormatError, match=r"not a readable \.npz"):
        load(path)
    content = save(random_mdp(3), path).read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            damaged[int(rng.integers(len(damaged)))] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged[: int(rng.integers(1, len(damaged) + 1))] if rng.random() < 0.3 else damaged))
        said = ""
        try:
            found = load(path)
        except FormatError as error:
            said = str(error)
        assert "saved.npz" in said or found.equals(random_mdp(3))  # nobody reads a time stamp, for one


def test_arrow_files_of_others(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.feather as feather
    import pyarrow.ipc as ipc

    columns = {
        "idstatefrom": arrow.array([1, 2], arrow.int32()), "idaction": arrow.array([1, 1], arrow.uint8()),
        "idstateto": arrow.array([2, 2], arrow.int64()),
        "probability": arrow.array([1.0, 1.0], arrow.float32()),
        "reward": arrow.array([3, 0], arrow.int64()),
    }  # fmt: skip
    path = tmp_path / "model.arrow"
    with ipc.new_stream(str(path), arrow.table(columns).schema) as writer:
        writer.write_table(arrow.table(columns))
    mdp = load(path, horizon=4)
    assert (mdp.num_states, mdp.state_labels, mdp.outcomes(0, 0)[0].cost) == (2, ("1", "2"), 3.0)
    feather.write_feather(arrow.table(columns), str(tmp_path / "model.feather"), compression="lz4")
    assert load(tmp_path / "model.feather", horizon=4).equals(mdp)
    for name, column, said in (
        ("idaction", [1.5, 1.0], "row 1: idaction is 1.5; expected a whole number"),
        ("idaction", [1, None], "row 2: idaction is empty"),
        ("probability", [1.0, 0.5], "row 2: the probabilities of state 2, action 1 sum to 0.5"),
        ("reward", [0.0, float("nan")], "row 2: reward is nan"),
        ("reward", [True, False], "row 1: reward is True; expected a finite number"),
    ):
        table = arrow.table({**columns, name: arrow.array(column)})
        feather.write_feather(table, str(path), compression="uncompressed")
        with pytest.raises(FormatError, match=rf"model.arrow, {said}"):
            load(path, horizon=4)
    path.write_bytes(b"ARROW1 nonsense")
    with pytest.raises(FormatError, match=r"model.arrow, row 1: not a readable Arrow"):
        load(path)


def test_the_real_arrow_file_is_its_csv_twin_counted_from_zero(data_folder):
    pytest.importorskip("pyarrow")
    arrow, csv = (
        load(data_folder / "inventory.arrow", horizon=5),
        load(data_folder / "inventory1.csv", horizon=5),
    )
    assert arrow.num_outcomes == csv.num_outcomes == 3476
    assert np.array_equal(arrow.next_states, csv.next_states)
    assert np.allclose(arrow.probabilities, csv.probabilities, rtol=0, atol=1e-12)
    assert np.allclose(arrow.losses, csv.losses, rtol=0, atol=1e-9)
