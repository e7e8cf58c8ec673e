"""Transition lists as people have them: data frames, spreadsheets' habits, names for ids, rounded numbers."""

import gzip
import io

import numpy as np
import pytest

import tailwise
from formats.small_files import HEADER, NAMED, ONE_BASED, ZERO_BASED, write
from tailwise import TabularMDP, backward_induction
from tailwise.errors import FormatError, OptionError, UnknownNameError
from tailwise.formats import load

COLUMNS = {
    "idstatefrom": [0, 0, 0, 0, 1, 1, 2], "idaction": [0, 0, 0, 1, 0, 0, 0], "idstateto": [0, 0, 1, 1, 2, 0, 2],
    "probability": [0.25, 0.25, 0.5, 1, 0.75, 0.25, 1], "reward": [1.5, -2, 0, -0.125, 3, 0, 0],
}  # fmt: skip


@pytest.fixture
def expected(tmp_path):
    return load(write(tmp_path, plain__csv=ZERO_BASED), horizon=5)


def pandas_frame():
    return pytest.importorskip("pandas").DataFrame(COLUMNS)


def polars_frame():
    return pytest.importorskip("polars").DataFrame(COLUMNS, strict=False)


def lazy_frame():
    return polars_frame().lazy()


def arrow_table():
    return pytest.importorskip("pyarrow").table(COLUMNS)


def records():
    rows = list(zip(*COLUMNS.values(), strict=True))
    return np.array(rows, dtype=[(name, float if name in ("probability", "reward") else int) for name in COLUMNS])


FRAMES = [pandas_frame, polars_frame, lazy_frame, arrow_table, records, lambda: dict(COLUMNS)]


@pytest.mark.parametrize("make", FRAMES)
def test_data_frames_are_lists(expected, make):
    frame = make()
    assert load(frame, horizon=5).equals(expected)
    assert load(frame, horizon=5, start=1).start == 1
    with pytest.raises(OptionError, match="unknown option 'constants'; data frames take"):
        load(frame, constants="N=1")


@pytest.mark.parametrize("make", FRAMES)
def test_columns_of_data_frames_go_into_from_outcomes(expected, make):
    frame = make()
    frame = frame.collect() if make is lazy_frame else frame
    built = TabularMDP.from_outcomes(
        *(frame[name] for name in list(COLUMNS)[:4]), rewards=frame["reward"], horizon=5, num_states=3
    )
    assert np.array_equal(built.probabilities, expected.probabilities)
    assert backward_induction(built, 0.3).value == backward_induction(expected, 0.3).value


def test_missing_values_of_data_frames_are_named_by_row():
    pandas = pytest.importorskip("pandas")
    frame = pandas_frame()
    frame["idaction"] = pandas.array([0, 0, 0, None, 0, 0, 0], dtype="Int64")
    with pytest.raises(FormatError, match=r"the DataFrame, row 4: idaction is (nan|<NA>); expected a whole number"):
        load(frame)
    frame = pandas_frame()
    frame.loc[2, "probability"] = np.nan
    with pytest.raises(FormatError, match="row 3: probability is nan; expected a finite number"):
        load(frame)
    polars = pytest.importorskip("polars")
    frame = polars_frame().with_columns(reward=polars.Series([1.0, None, 0, 0, 0, 0, 0]))
    with pytest.raises(FormatError, match="the DataFrame, row 2: reward is empty"):
        load(frame)
    with pytest.raises(FormatError, match="the DataFrame, columns: the column 'idstatefrom' is missing"):
        load(pandas_frame().set_index("idstatefrom"))
    with pytest.raises(FormatError, match="columns: idaction is no column of the same length"):
        load({**COLUMNS, "idaction": [0]})
    with pytest.raises(FormatError, match="row 1: reward is True"):
        load({**COLUMNS, "reward": [True] * 7})


def test_parquet_and_compressed_files(tmp_path, expected):
    (tmp_path / "model.csv.gz").write_bytes(gzip.compress(ZERO_BASED.encode()))
    assert load(tmp_path / "model.csv.gz", horizon=5).equals(expected)
    (tmp_path / "model.csv.gz").write_bytes(gzip.compress(ZERO_BASED.encode())[:-20])
    with pytest.raises(FormatError, match=r"model.csv.gz, line \d+: damaged gzip data"):
        load(tmp_path / "model.csv.gz")
    pytest.importorskip("pyarrow")
    pandas_frame().to_parquet(tmp_path / "model.parquet")
    assert load(tmp_path / "model.parquet", horizon=5).equals(expected)
    indexed = pandas_frame()
    indexed.index = [f"row {k}" for k in range(7)]
    indexed.to_parquet(tmp_path / "model.parquet")
    assert load(tmp_path / "model.parquet", horizon=5).equals(expected)
    (tmp_path / "model.parquet").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(FormatError, match=r"model.parquet, row 1: not a readable Parquet file"):
        load(tmp_path / "model.parquet")


@pytest.mark.parametrize("index", [True, False])
def test_what_pandas_writes_is_read(tmp_path, expected, index):
    pandas_frame().to_csv(tmp_path / "model.csv", index=index)
    found = load(tmp_path / "model.csv", horizon=5)
    assert found.equals(expected)
    assert any("column 1 has no name and is skipped" in note for note in found.notes) == index
    assert load(f"{tmp_path / 'model.csv'}?ignore_columns=", horizon=5).equals(expected)
    twice = __import__("pandas").read_csv(tmp_path / "model.csv")  # its index is now "Unnamed: 0"
    assert load(twice, horizon=5).equals(expected)


HABITS = {
    "commas at the ends of lines": ZERO_BASED.replace("\n", ",\n"),
    "commas at the ends of some lines": ZERO_BASED.replace("0,0,1,0.5,0\n", "0,0,1,0.5,0,,\n"),
    "blank lines and comments": "# made by hand\n\n"
    + ZERO_BASED.replace("\n", "\n  \n,,,,\n# 9,9,9,1,it's \"quoted\n"),
    "ids with a point": ZERO_BASED.replace("0,0,0,", "0.0,0,0.0,").replace("2,0,2", "2.0,0,2.0"),
    "windows": ZERO_BASED.replace("\n", "\r\n"),
    "spaces": ZERO_BASED.replace(",", " , "),
    "no end": ZERO_BASED.rstrip("\n"),
}


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("with_arrow", [True, False])
def test_habits_of_other_programs(tmp_path, expected, monkeypatch, habit, with_arrow):
    if not with_arrow:
        monkeypatch.setitem(__import__("sys").modules, "pyarrow.csv", None)
    assert load(write(tmp_path, model__csv=HABITS[habit]), horizon=5).equals(expected)


def test_lines_are_counted_past_comments(tmp_path):
    path = write(tmp_path, model__csv="# one\n\n" + HEADER + "# two\n0,0,0,1,0\n\n0,1,0,0.5,0\n")
    with pytest.raises(FormatError, match=r"model.csv, line 7: the probabilities of state 0, action 1"):
        load(path)
    path = write(tmp_path, model__csv=HEADER + "0,0,0,1,0\n\n0,1,0,1,0,7\n")
    with pytest.raises(FormatError, match=r"model.csv, line 4: 6 fields, but the first line names 5 columns"):
        load(path)


def test_ids_may_be_names(tmp_path, expected):
    mdp = load(write(tmp_path, model__csv=NAMED), horizon=5)
    assert (mdp.state_labels, mdp.action_labels, mdp.start) == (("home", "away", "end"), ("go", "fly"), 0)
    assert np.array_equal(mdp.losses, expected.losses)
    assert np.array_equal(mdp.next_states, expected.next_states)
    assert load(tmp_path / "model.csv", start="away", horizon=5).start == 1
    assert any("ids of states and actions are names" in note for note in mdp.notes)
    assert load(tailwise.save(mdp, tmp_path / "saved.csv")).equals(mdp)
    with pytest.raises(OptionError, match=r"'nowhere' is not in .*its states are home, away, end"):
        load(tmp_path / "model.csv", start="nowhere")
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(tmp_path / "model.csv", dtype={"idstatefrom": "category"})
    assert load(frame, horizon=5).equals(mdp)


def test_names_among_numbers_are_refused_unless_all_are_names(tmp_path):
    path = write(tmp_path, model__csv=HEADER + "1,0,2,1,0\n2,0,goal,1,5\ngoal,0,goal,1,0\n")
    with pytest.raises(FormatError, match=r"line 4: idstatefrom is 'goal'; expected a whole number \(or say ids=names"):
        load(path)
    mdp = load(path, ids="names", horizon=3)
    assert mdp.state_labels == ("1", "2", "goal")
    assert load(path, ids="names", start=2).start == 1
    path = write(tmp_path, model__csv=HEADER + "a,0,1,1,0\nb,0,1,1,5\n")
    with pytest.raises(FormatError, match="line 2: idstateto is 1; expected a name, as in the other column"):
        load(path)


def test_probabilities_rounded_to_six_digits_are_rescaled_with_a_note(tmp_path):
    """Three times 1/3 is 0.999999 in six digits; the value is that of a third each."""
    thirds = "".join(f"0,0,0,0.333333,{cost}\n" for cost in (1, 2, 6))
    mdp = load(write(tmp_path, model__csv=HEADER + thirds), horizon=1)
    assert np.allclose(mdp.probabilities, 1 / 3, rtol=0, atol=1e-15)
    assert any("1 actions miss a sum of 1, by up to 1e-06; they are rescaled" in note for note in mdp.notes)
    exact = -np.log(np.mean(np.exp([-1.0, -2.0, -6.0])))
    assert backward_induction(mdp, 1.0).value == pytest.approx(exact, rel=1e-14)
    path = write(tmp_path, model__csv=HEADER + thirds.replace("0.333333", "0.333"))
    with pytest.raises(FormatError, match=r"sum to 0.999; they must sum to 1; say tolerance=0.001 to rescale"):
        load(path)
    assert np.allclose(load(path, tolerance=0.001).probabilities, 1 / 3, rtol=0, atol=1e-15)
    with pytest.raises(FormatError, match=r"sum to 0.999999"):
        load(write(tmp_path, model__csv=HEADER + thirds), tolerance=1e-8)
    assert not any("rescaled" in note for note in load(write(tmp_path, model__csv=ZERO_BASED)).notes)


def test_a_missing_discount_is_noted(tmp_path):
    assert any("no discount; 1 is assumed" in n for n in load(write(tmp_path, model__csv=ZERO_BASED)).notes)
    assert not any("discount" in n for n in load(tmp_path / "model.csv", discount=1.0).notes)


def test_open_files_and_home_folders(tmp_path, expected, monkeypatch):
    path = write(tmp_path, model__csv=ZERO_BASED)
    with path.open() as file:
        assert load(file, horizon=5).equals(expected)
    assert load(io.StringIO(ZERO_BASED), kind="csv", horizon=5).equals(expected)
    assert load(io.BytesIO(ZERO_BASED.encode()), kind="csv", horizon=5).equals(expected)
    with pytest.raises(FormatError, match=r"^stream.csv, line 2: reward is 'x'"):
        load(io.StringIO(HEADER + "0,0,0,1,x\n"), kind="csv")
    with pytest.raises(OptionError, match="say which with kind='csv'"):
        load(io.StringIO(ZERO_BASED))
    with pytest.raises(UnknownNameError, match="kind='cvs': there are"):
        load(path, kind="cvs")
    path.rename(tmp_path / "model.txt")
    assert load(tmp_path / "model.txt", kind="csv", horizon=5).equals(expected)
    (tmp_path / "model.txt").rename(path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("~/model.csv", horizon=5).equals(expected)
    assert load("~/model.csv?horizon=5").equals(expected)
    assert tailwise.save(expected, "~/saved.npz").exists()


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("https://example.org/model.csv", "does not download: fetch the file first"),
        ("s3://bucket/model.parquet", "does not download"),
        ("model.xls", r"save the sheet as that or CSV, or read it with pandas .*load\(pandas.read_excel"),
        ("model.pkl", "never unpickled"),
        ("model.m", "MATLAB code is not run"),
    ],
)
def test_what_is_not_read_says_what_to_do(source, advice):
    with pytest.raises(UnknownNameError, match=advice):
        load(source)


def two_states(tmp_path, base, listing, **options):
    """A coin that is played until it falls into a sink, with ids from ``base`` on."""
    a, b = base, base + 1
    rows = f"{a},{base},{a},0.9,-0.2\n{a},{base},{b},0.1,-0.1\n{b},{base},{b},1,0\n"
    write(tmp_path, domains_info__csv="domain,initstate,discount\n" + listing)
    return load(write(tmp_path, model__csv=HEADER + rows), horizon=20, **options)


@pytest.mark.parametrize("base", [0, 1])
def test_a_list_that_counts_otherwise_than_its_models_does_not_shift_the_start(tmp_path, base):
    """The start is the coin, and not the sink, whichever of the two counts from 1."""
    value = -0.19 * (1 - 0.9**20) / (1 - 0.9)
    for listing in ("model.csv,1,1\n", "model.csv,0,1\nother.csv,3,1\n"):
        mdp = two_states(tmp_path, base, listing)
        assert mdp.start == 0
        assert backward_induction(mdp, 0.0).value == pytest.approx(value, rel=1e-12)
        assert any("domains_info.csv, line 2 (" in note for note in mdp.notes)


def test_a_start_that_may_be_either_of_two_states_is_refused(tmp_path):
    write(tmp_path, domains_info__csv="domain,initstate,discount\nmodel.csv,1,0.5\nother.csv,2,1\n")
    path = write(tmp_path, model__csv=ZERO_BASED)
    with pytest.raises(FormatError, match=r"domains_info.csv, line 2: start state '1' may count .* say start=0 or 1,"):
        load(path)
    assert (load(path, start=1).start, load(path, start=1).discount) == (1, 0.5)
    write(tmp_path, domains_info__csv="domain,initstate,discount\nmodel.csv,3,0.5\n")
    with pytest.raises(FormatError, match="may count"):  # the last state is a sink that can be left nowhere
        load(write(tmp_path, model__csv=ZERO_BASED + "2,1,0,1,0\n3,0,0,1,0\n"))
    assert load(write(tmp_path, model__csv=ZERO_BASED + "2,1,0,1,0\n")).start == 2  # there is no state 3
    write(tmp_path, domains_info__csv="domain,initstate,discount\nmodel.csv,2,0.5\nother.csv,0,1\n")
    with pytest.raises(FormatError, match="may count from 0 or from 1: say start=2 or 3"):
        load(write(tmp_path, model__csv=ONE_BASED + "3,2,1,1,0\n"))


def test_the_list_may_stand_one_folder_up(tmp_path, monkeypatch):
    folder = tmp_path / "models"
    folder.mkdir()
    write(tmp_path, domains_info__csv="domain,initstate,discount\nmodel.csv,2,0.75\n")
    path = write(folder, model__csv=ONE_BASED)
    assert (load(path).start, load(path).discount) == (1, 0.75)
    monkeypatch.chdir(folder)
    assert load("model.csv").discount == 0.75
    write(folder, domains_info__csv="domain,initstate,discount\nmodel.csv,3,0.25\n")
    assert load(path).discount == 0.25


SEPARATED = {
    "semicolons": ZERO_BASED.replace(",", ";"),
    "tabs": ZERO_BASED.replace(",", "\t"),
    "decimal commas": ZERO_BASED.replace(",", ";").replace(".", ","),
    "semicolons at the ends of lines": ZERO_BASED.replace(",", ";").replace("\n", ";\n"),
}


@pytest.mark.parametrize("name", SEPARATED)
@pytest.mark.parametrize("with_arrow", [True, False])
def test_columns_may_be_separated_by_semicolons_or_tabs(tmp_path, expected, monkeypatch, name, with_arrow):
    if not with_arrow:
        monkeypatch.setitem(__import__("sys").modules, "pyarrow.csv", None)
    assert load(write(tmp_path, model__csv=SEPARATED[name]), horizon=5).equals(expected)
    assert load(write(tmp_path, model__tsv=SEPARATED[name]), horizon=5).equals(expected)
    with pytest.raises(FormatError, match=r"model.csv, line 3: reward is '?1,2,3"):
        load(write(tmp_path, model__csv=SEPARATED[name].replace("-2", '"1,2,3"')))


@pytest.mark.parametrize("with_arrow", [True, False])
def test_what_may_be_a_thousand_is_noted_or_refused(tmp_path, monkeypatch, with_arrow):
    """By hand: of 1.000 and 1,000 one reader makes one, the other a thousand."""
    if not with_arrow:
        monkeypatch.setitem(__import__("sys").modules, "pyarrow.csv", None)

    def read(chance, reward):
        text = HEADER + "0,0,1,CHANCE,REWARD\n0,0,0,CHANCE,2\n1,0,1,1,0\n"
        text = text.replace(",", ";").replace("CHANCE", chance).replace("REWARD", reward)
        mdp = load(write(tmp_path, model__csv=text), horizon=2)
        return max(o.cost for o in mdp.outcomes(0, 0)), any("is read as a decimal" in note for note in mdp.notes)

    assert read("1/2", "1.000") == (2.0, True)
    assert read("1/2", "3,125") == (3.125, True)
    assert read("0.5", "3.125") == read("0,5", "3,125") == read("50%", "3.1250") == (3.125, False)
    assert read("1/2", "0.250") == read("1/2", "1") == (2.0, False)
    for chance, reward in (("0,5", "1.000"), ("0.5", "1,000"), ("12,5%", "1.000"), ("0.5", "-12.345,000")):
        with pytest.raises(FormatError, match=r"model.csv, line 2: "):
            read(chance, reward)


def test_numbers_may_be_fractions_and_percents(tmp_path):
    text = HEADER + "0,0,0,1/3,5/2\n0,0,1,2/3,-1/4\n1,0,0,12.5%,50%\n1,0,1,87.5 %,0\n"
    mdp = load(write(tmp_path, model__csv=text), horizon=5)
    assert mdp.probabilities.tolist() == [1 / 3, 2 / 3, 0.125, 0.875]
    assert [o.cost for o in mdp.outcomes(0, 0)] == [2.5, -0.25]
    assert mdp.outcomes(1, 0)[0].cost == 0.5
    for wrong in ("1/0", "1/x", "1/2/3", "%", "5%%", "1.5/2"):
        with pytest.raises(FormatError, match=rf"line 2: probability is '{wrong}'; expected a finite number"):
            load(write(tmp_path, model__csv=text.replace("1/3", wrong)))


def test_usual_other_names_of_columns_are_guessed_with_a_note_and_others_are_given(tmp_path, expected):
    for header in (
        "state,action,next_state,prob,reward\n",
        "S,A,S',P,R\n",
        "s,a,sp,p,r\n",
        "From;Action;To;Probability;Reward\n",
    ):
        separator = ";" if ";" in header else ","
        path = write(tmp_path, model__csv=ZERO_BASED.replace(HEADER, header.replace(separator, ",")))
        path.write_text(path.read_text().replace(",", separator))
        mdp = load(path, horizon=5)
        assert mdp.equals(expected)
        assert any("columns are read by their names: " in note and " as idstatefrom" in note for note in mdp.notes)
    text = ZERO_BASED.replace(HEADER, "von,was,nach,w,lohn\n")
    path = write(tmp_path, model__csv=text)
    given = "von:idstatefrom,was:idaction,nach:idstateto,w:probability,lohn:reward"
    assert load(f"{path}?columns={given}&horizon=5").equals(expected)
    assert load(path, columns=dict(item.split(":") for item in given.split(",")), horizon=5).equals(expected)
    with pytest.raises(FormatError, match="the column 'idstatefrom' is missing"):
        load(path)
    with pytest.raises(OptionError, match="has no column 'wo'; it has von, was"):
        load(path, columns="wo:idstatefrom")
    with pytest.raises(OptionError, match="the meaning of column 'von' must be one of 'idstatefrom'"):
        load(path, columns="von:from")
    with pytest.raises(FormatError, match="unknown column 'r'"):  # it has a reward already
        load(write(tmp_path, model__csv=ZERO_BASED.replace("reward\n", "reward,r\n").replace("0,0,0,0.25,1.5", "9")))


def test_no_error_advises_to_load_a_file_unsafely(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"\0\1\2")
    np.savez(tmp_path / "b.npz", allow_pickle=True, costs=np.array([{}], dtype=object))
    for name in ("a.npz", "b.npz"):
        with pytest.raises(FormatError) as caught:
            tailwise.load(tmp_path / name)
        assert "pickle" not in str(caught.value)
        assert "unsafe" not in str(caught.value)
