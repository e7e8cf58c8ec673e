"""Transition lists as CSV: dialects, ids, outcomes, and what is said about wrong ones."""

import sys

import numpy as np
import pytest

from formats.small_files import ALTERNATIVES, HEADER, INFO, NUMBERED, ONE_BASED, ZERO_BASED, write
from tailwise import Alternatives, solve
from tailwise.errors import FormatError, OptionError, StateError
from tailwise.formats import csv_rows, load


def model(tmp_path, text, **options):
    return load(write(tmp_path, model__csv=text), **{"horizon": 5, **options})


def test_duplicates_are_kept_apart_and_rewards_keep_their_sense(tmp_path):
    mdp = model(tmp_path, ZERO_BASED)
    assert (mdp.num_states, mdp.num_actions, mdp.num_rows, mdp.num_outcomes) == (3, 2, 4, 7)
    assert mdp.sense == "reward"
    first, second, _ = mdp.outcomes(0, 0)
    assert (first.next_state, first.cost) == (0, 1.5)
    assert (second.next_state, second.cost) == (0, -2.0)


def test_counting_from_one_gives_the_same_table_with_the_files_ids_as_labels(tmp_path):
    zero, one = model(tmp_path, ZERO_BASED), model(tmp_path, ONE_BASED)
    assert one.state_labels == ("1", "2", "3")
    assert one.action_labels == ("1", "2")
    assert any("count from 1" in note for note in one.notes)
    assert np.array_equal(zero.losses, one.losses)
    assert np.array_equal(zero.next_states, one.next_states)
    assert np.array_equal(zero.outcome_offsets, one.outcome_offsets)


@pytest.mark.parametrize("start", [2, "2"])
def test_start_is_an_id_as_the_file_counts(tmp_path, start):
    assert model(tmp_path, ONE_BASED, start=start).start == 1
    assert model(tmp_path, ZERO_BASED, start=start).start == 2


@pytest.mark.parametrize("start", [0, "0", 4, "x", "-1", "1" * 30])
def test_a_start_outside_the_file_is_refused(tmp_path, start):
    with pytest.raises(OptionError, match=r"is not in .*ids are 1\.\.3"):
        model(tmp_path, ONE_BASED, start=start)


def test_states_are_found_by_the_files_ids_only(tmp_path):
    mdp = model(tmp_path, ONE_BASED)
    assert [mdp.find_state(text) for text in ("1", "3", 0)] == [0, 2, 0]
    for text in ("0", "4", "\u00b2", "--1"):
        with pytest.raises(StateError, match="is not in the table"):
            mdp.find_state(text)


def test_ambiguous_ids_need_an_option(tmp_path):
    text = HEADER + "1,0,1,1,0\n2,0,1,1,5\n"
    with pytest.raises(FormatError, match=r"model.csv, line 2: .*say base=0 or base=1"):
        model(tmp_path, text)
    assert model(tmp_path, text, base=1).num_states == 2
    assert model(tmp_path, text, base=0, start=1).num_states == 3
    with pytest.raises(FormatError, match=r"line 2: .*say base"):
        model(tmp_path, HEADER + "5,1,6,1,0\n6,1,6,1,0\n")


def test_a_wrong_base_is_named(tmp_path):
    with pytest.raises(FormatError, match="line 2: state id 0 in a file said to count from 1"):
        model(tmp_path, ZERO_BASED, base=1)
    with pytest.raises(FormatError, match="line 2: action id 0"):
        model(tmp_path, ZERO_BASED, action_base=1)


def test_alternatives_are_models_of_which_one_is_true(tmp_path):
    unknown = model(tmp_path, ALTERNATIVES)
    assert isinstance(unknown, Alternatives)
    assert [[o.cost for o in table.outcomes(0, 0)] for table in unknown.tables] == [[-1.0], [1.0], [0.0, 0.0]]
    assert unknown.weights.tolist() == pytest.approx([1 / 3] * 3)
    assert any("one is true" in note for note in unknown.notes)
    mixed = model(tmp_path, ALTERNATIVES, outcomes="uniform")
    assert [(round(o.probability * 6), o.next_state, o.cost) for o in mixed.outcomes(0, 0)] == [
        (2, 1, -1.0), (2, 1, 1.0), (1, 0, 0.0), (1, 1, 0.0),
    ]  # fmt: skip
    assert any("anew at each step" in note for note in mixed.notes)
    again = unknown.mixed()
    assert solve(again, 0.7).value == pytest.approx(solve(mixed, 0.7).value, rel=1e-12)
    assert solve(mixed, 0.7).value != pytest.approx(solve(unknown, 0.7).value, rel=1e-3)
    picked = model(tmp_path, ALTERNATIVES, outcomes=0)
    assert [o.cost for o in picked.outcomes(0, 0)] == [-1.0]
    with pytest.raises(FormatError, match="line 2: this state and action have no outcome 7"):
        model(tmp_path, ALTERNATIVES, outcomes=7)
    lacking = ALTERNATIVES + "1,0,1,1,1,0\n"
    with pytest.raises(FormatError, match="line 6: this state and action have no outcome 2; outcomes='uniform'"):
        model(tmp_path, lacking)


def test_numbered_outcomes_are_outcomes(tmp_path):
    mdp = model(tmp_path, NUMBERED)
    assert mdp.sense == "cost"
    assert [(o.probability, o.cost) for o in mdp.outcomes(0, 0)] == [(0.5, 4.0), (0.5, 2.0)]
    with pytest.raises(OptionError, match="needs a column idoutcome"):
        model(tmp_path, ZERO_BASED, outcomes=0)


def test_entering_a_state_without_transitions_ends_the_episode(tmp_path):
    mdp = model(tmp_path, HEADER + "0,0,1,0.5,2\n0,0,0,0.5,1\n")
    assert [o.done for o in mdp.outcomes(0, 0)] == [True, False]
    assert any("ends the episode" in note for note in mdp.notes)


def test_an_episode_cannot_start_where_nothing_follows(tmp_path):
    text = HEADER + "0,0,1,0.5,2\n0,0,0,0.5,1\n"
    with pytest.raises(OptionError, match="start state 1 has no transitions in"):
        model(tmp_path, text, start=1)
    write(tmp_path, domains_info__csv="domain,initstate,discount\nmodel.csv,1,0.9\nother.csv,0,1\n")
    with pytest.raises(FormatError, match=r"domains_info.csv, line 2: start state '1' has no transitions"):
        model(tmp_path, text)


def test_a_done_column_decides_by_itself(tmp_path):
    text = HEADER.replace("reward", "reward,done") + "0,0,1,0.5,2,true\n0,0,0,0.5,1,0\n1,0,1,1,0,False\n"
    assert model(tmp_path, text).done.tolist() == [True, False, False]


def test_start_and_discount_come_from_the_list_beside(tmp_path):
    write(tmp_path, domains_info__csv=INFO)
    mdp = model(tmp_path, ONE_BASED)
    assert (mdp.start, mdp.discount) == (1, 0.9)
    assert "start 2 from domains_info.csv, line 3 (as its file counts)" in mdp.notes
    assert "discount 0.9 from domains_info.csv, line 3" in mdp.notes
    assert model(tmp_path, ONE_BASED, start=3, discount=0.5).discount == 0.5
    (tmp_path / "domains_info.csv").write_text(INFO.replace("model.csv,2", "model.csv,9"))
    with pytest.raises(FormatError, match=r"domains_info.csv, line 3: start state '9' is not in"):
        model(tmp_path, ONE_BASED)
    with pytest.raises(FormatError, match="this is a list of start states"):
        load(tmp_path / "domains_info.csv")


def test_what_is_assumed_is_noted(tmp_path):
    mdp = load(write(tmp_path, model__csv=ZERO_BASED))
    assert mdp.horizon == 100
    assert any("no horizon; 100 is assumed" in note for note in mdp.notes)
    assert any("no start state; its smallest, 0," in note for note in mdp.notes)


def test_options_in_the_specification_and_a_stray_column(tmp_path):
    text = "weight," + HEADER + "9,1,0,2,1,0\n9,2,0,2,1,0\n"
    path = write(tmp_path, model__csv=text)
    with pytest.raises(FormatError, match="line 1: unknown column 'weight'"):
        load(path, horizon=3)
    mdp = load(f"{path}?base=1&horizon=3&ignore_columns=weight&start=2")
    assert (mdp.num_states, mdp.horizon, mdp.start) == (2, 3, 1)


WRONG = {
    "": "line 1: .*empty file",
    "\n1,2": "line 2: the column 'idstatefrom' is missing",
    "a,b\n": "line 1: the column 'idstatefrom' is missing",
    "0,0,0,1,0\n": "line 1: the column 'idstatefrom' is missing",
    HEADER: "line 1: no transitions follow",
    HEADER.replace("reward", "x"): "line 1: expected one of the columns 'reward' and 'cost', found neither",
    HEADER.replace("reward", "reward,cost"): "line 1: .*not both",
    HEADER.replace("reward", "reward,reward"): "line 1: .*more than once",
    HEADER + "0,0,0,1\n": "line 2: 4 fields, but the first line names 5",
    HEADER + "0,0,0,1,0\n\n0,x,0,1,0\n": "line 4: idaction is 'x'; expected a whole number",
    HEADER + "0,0,0.5,1,0\n": "line 2: idstateto is 0.5",
    HEADER + "-1,0,0,1,0\n": "line 2: idstatefrom is -1",
    HEADER + "0,0,1000000000000,1,0\n": "line 2: idstateto is 1000000000000.*nearly",
    HEADER + "0,99999999,0,1,0\n": "line 2: idaction is 99999999",
    HEADER + "0,0," + "9" * 40 + ",1,0\n": r"line 2: idstateto is 1e\+40",
    HEADER + "0,0,0,1.5,0\n": r"line 2: probability is 1.5; it must lie in \[0, 1\]",
    HEADER + "0,0,0,-0.5,0\n": "line 2: probability is -0.5",
    HEADER + "0,0,0,nan,0\n": "line 2: probability is 'nan'",
    HEADER + "0,0,0,1,inf\n": "line 2: reward is 'inf'",
    HEADER + "0,0,0,1,1e999\n": "line 2: reward is inf",
    HEADER + "0,0,0,1,1_0\n": "line 2: reward is '1_0'",
    HEADER + "0,0,0,1,\u0661\n": "line 2: reward is",
    HEADER + "0,0,0,0.5,0\n0,1,0,1,0\n": "line 2: the probabilities of state 0, action 0 sum to 0.5",
    HEADER + "0,0,0,1,0\n0,1,0,0,0\n": "line 3: the probabilities of state 0, action 1 sum to 0",
    HEADER + '0,0,0,1,"0\n': "line [12]: not valid CSV",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items())
def test_a_wrong_file_is_refused_by_file_and_line(tmp_path, text, said):
    with pytest.raises(FormatError, match=said) as caught:
        model(tmp_path, text)
    assert "model.csv" in str(caught.value)


def test_other_encodings_are_named(tmp_path):
    path = tmp_path / "model.csv"
    path.write_bytes(ZERO_BASED.encode("utf-16"))
    with pytest.raises(FormatError, match="line 1: the file is UTF-16"):
        load(path)
    path.write_bytes(ZERO_BASED.encode() + b"0,0,0,1,\xff\n")
    with pytest.raises(FormatError, match="line 9: not UTF-8"):
        load(path)
    path.write_bytes(b"\xef\xbb\xbf" + ZERO_BASED.replace("\n", "\r\n").encode())
    assert load(path, horizon=5).equals(model(tmp_path, ZERO_BASED))


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FormatError, match="there is no such file"):
        load(tmp_path / "nothing.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FormatError, match="it is a folder"):
        load(tmp_path / "folder.csv")
    with pytest.raises(FormatError, match="it cannot be read: File name too long"):
        load("x" * 5000 + ".csv")


@pytest.mark.parametrize("text", [ZERO_BASED, ONE_BASED, ALTERNATIVES, NUMBERED, ZERO_BASED.replace("0,0,", "0.0,0,")])
def test_all_readers_agree(tmp_path, monkeypatch, text):
    pytest.importorskip("pyarrow")
    path = write(tmp_path, model__csv=text)
    header, _ = csv_rows.read_rows(path)
    found = [csv_rows._read_arrow(path, header, 1), csv_rows._read_numpy(path, header, 1)]
    found.append(csv_rows._read_rows(path, header))
    assert all({n: c.tolist() for n, c in raw.items()} == {n: c.tolist() for n, c in found[0].items()} for raw in found)


def test_without_pyarrow_the_result_is_the_same(tmp_path, monkeypatch):
    expected = model(tmp_path, ONE_BASED)
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    assert model(tmp_path, ONE_BASED).equals(expected)


def test_options_are_checked(tmp_path):
    path = write(tmp_path, model__csv=ZERO_BASED)
    for options in ({"horizon": 0}, {"discount": 1.5}, {"base": 2}, {"outcomes": "worst"}, {"nothing": 1}):
        with pytest.raises(OptionError):
            load(path, **options)


REAL = {  # states, actions, outcomes, sense-free facts, counted with the csv module alone
    "cliff.csv": (39, 4, 446, 36, 0.9),
    "gridworld_transient.csv": (26, 4, 404, 0, 1.0),
    "inventory1.csv": (21, 11, 3476, 9, 0.9),
    "machine.csv": (10, 2, 45, 0, 0.9),
    "machine_replacement_zero_based.csv": (10, 2, 45, 0, 1.0),
    "population.csv": (51, 5, 5583, 43, 0.9),
    "riverswim.csv": (20, 2, 78, 8, 0.9),
    "rock_paper_scissors_outcomes.csv": (2, 3, 18, 0, 1.0),
    "ruin.csv": (11, 11, 111, 4, 0.9),
    "two_state.csv": (2, 1, 3, 0, 1.0),
}


@pytest.mark.parametrize("name", REAL)
def test_real_files(data_folder, name):
    mdp = load(data_folder / name, horizon=10, **({"outcomes": "uniform"} if "outcomes" in name else {}))
    found = (mdp.num_states, mdp.num_actions, mdp.num_outcomes, mdp.start, mdp.discount)
    assert found == REAL[name]
    assert mdp.check().ok


@pytest.mark.parametrize(
    ("acting", "entered", "is_slip"),
    [
        ("poor", "Poor", True), ("poor", " poor. ", True), ("in repair", "in_repair", True),
        ("maintenance", "maintenances", True), ("stage 1", "stage 2", False), ("1", "-1", False),
        ("(1, 2)", "(12)", False), ("poor", "dead", False), ("+", "-", False), ("dead", "deaf", False),
    ],
)  # fmt: skip
def test_a_state_that_reads_like_another_is_no_free_end(tmp_path, acting, entered, is_slip):
    rows = (
        f'state,action,next_state,probability,cost\n"{acting}",run,"{entered}",0.5,1\n"{acting}",run,"{acting}",0.5,1\n'
    )
    path = write(tmp_path, model__csv=rows)
    if is_slip:
        with pytest.raises(FormatError, match=r"line 2: the next state .* reads like .* column done"):
            load(path, ids="names", horizon=3)
        rows = rows.replace("cost\n", "cost,done\n").replace(",1\n", ",1,1\n", 1)[:-1] + ",0\n"
        assert load(write(tmp_path, model__csv=rows), ids="names", horizon=3).done.any()
    else:
        assert load(path, ids="names", horizon=3).done.any()


@pytest.mark.parametrize("first", ["sep=;\n", '"sep=;"\r\n', "SEP=;\n"])
@pytest.mark.parametrize("names", ["01", "ab"])
def test_a_file_may_begin_with_excels_separator(tmp_path, first, names):
    """Numbers are read at once, names row by row."""
    one, two = names
    rows = f"{one};0;{two};0.5;1.5\n{one};0;{one};0.5;2\n{two};0;{two};1;0\n"
    text = HEADER.replace(",", ";") + rows
    same, found = model(tmp_path, text), model(tmp_path, first + text)
    assert np.array_equal(found.losses, same.losses)
    assert np.array_equal(found.next_states, same.next_states)


def test_columns_of_other_names_are_listed_with_the_way_to_name_them(tmp_path):
    with pytest.raises(FormatError, match=r"found neither; say which it is of eur, note: columns=NAME:cost"):
        model(tmp_path, "state,action,next_state,p,eur,note\n0,0,0,1,2,x\n")
    with pytest.raises(FormatError, match=r"say which it is of von, nach: columns=NAME:idstatefrom"):
        model(tmp_path, "von,action,nach,p,cost\n0,0,0,1,2\n")


def test_what_stands_in_the_index_of_a_frame_is_pointed_to():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"state": [0], "action": [0], "next_state": [0], "p": [1.0], "cost": [2.0]})
    assert load(frame.set_index(pd.Index([7], name="row")), horizon=2).num_states == 1
    with pytest.raises(FormatError, match=r"'state', 'action' is its index: give frame.reset_index\(\)"):
        load(frame.set_index(["state", "action"]), horizon=2)
