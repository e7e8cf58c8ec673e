"""Logs in every everyday shape become the same episodes; each fault names its row and the way out."""

import gzip
from types import SimpleNamespace

import numpy as np
import pytest

from tailwise import Discretized, load_episodes
from tailwise.errors import FormatError, OptionError

LONG = {
    "patient": ["a", "a", "a", "b", "b"],
    "visit": [1, 2, 3, 1, 2],
    "state": ["ill", "ill", "ill", "ill", "ill"],
    "action": ["wait", "wait", "treat", "treat", "treat"],
    "next_state": ["ill", "ill", "well", "ill", "well"],
    "cost": [1.0, 1.0, 5.0, 5.0, 5.0],
}


def plain(log):
    """What a log says, whatever its indices are."""
    names = [log.state_name(s) if s >= 0 else None for s in log.next_states]
    return (
        log.first.tolist(),
        [log.state_name(s) for s in log.states],
        [log.action_name(a) for a in log.actions],
        names,
        log.signed(log.losses).tolist(),
        log.done.tolist(),
    )


EXPECTED = (
    [0, 3, 5],
    ["ill"] * 5,
    ["wait", "wait", "treat", "treat", "treat"],
    ["ill", "ill", "well", "ill", "well"],
    [1.0, 1.0, 5.0, 5.0, 5.0],
    [False, False, True, False, True],
)


def write_csv(path, columns, separator=","):
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join(separator.join(map(str, row)) for row in (list(columns), *rows)) + "\n")
    return path


def test_a_long_table_in_every_container(tmp_path):
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    parquet = pytest.importorskip("pyarrow.parquet")
    path = write_csv(tmp_path / "log.csv", LONG)
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    parquet.write_table(arrow.table(LONG), tmp_path / "log.parquet")
    sources = [
        LONG, {name: np.array(column) for name, column in LONG.items()}, pandas.DataFrame(LONG),
        pandas.DataFrame(LONG).astype({"state": "category"}), polars.DataFrame(LONG), polars.DataFrame(LONG).lazy(),
        arrow.table(LONG), path, tmp_path / "log.csv.gz", write_csv(tmp_path / "log.tsv", LONG, "\t"),
        write_csv(tmp_path / "semi.csv", LONG, ";"), tmp_path / "log.parquet",
    ]  # fmt: skip
    for source in sources:
        assert plain(load_episodes(source)) == EXPECTED


def test_rows_in_any_order_come_back_in_the_order_of_steps():
    mixed = {name: [column[k] for k in (4, 1, 0, 3, 2)] for name, column in LONG.items()}
    log = load_episodes(mixed)
    assert plain(log)[0] == [0, 2, 5]
    assert plain(log)[2] == ["treat", "treat", "wait", "wait", "treat"]
    dates = {**mixed, "visit": [f"2024-01-{day:02d}" for day in (9, 5, 1, 2, 7)]}
    assert plain(load_episodes(dates)) == plain(log)


def test_without_next_states_the_next_row_says_where_a_step_led():
    short = {name: column for name, column in LONG.items() if name != "next_state"}
    log = load_episodes(short)
    assert plain(log)[3] == ["ill", "ill", None, "ill", None]
    assert not log.done.any()
    assert any("ends='done'" in note for note in log.notes)
    assert load_episodes(short, ends="done").done.tolist() == [False, False, True, False, True]
    said = load_episodes({**short, "done": [0, 0, 1, 0, 1]})
    assert said.done.tolist() == [False, False, True, False, True]


def test_a_closing_row_says_where_the_last_step_led():
    closed = {
        "patient": ["a", "a", "b", "b"],
        "state": ["ill", "well", "ill", "dead"],
        "action": ["treat", None, "wait", ""],
        "cost": [5.0, None, 1.0, float("nan")],
    }
    log = load_episodes(closed)
    assert plain(log)[3] == ["well", "dead"]
    assert log.done.tolist() == [True, True]
    assert load_episodes({**closed, "done": [0, 1, 0, 0]}).done.tolist() == [True, False]


def test_one_row_an_episode():
    wide = {
        "patient": ["a", "b"], "state_0": ["ill", "ill"], "action_0": ["wait", "treat"], "cost_0": [1, 5],
        "state_1": ["ill", "well"], "action_1": ["treat", None], "cost_1": [5, None], "state_2": ["well", None],
    }  # fmt: skip
    log = load_episodes(wide)
    assert log.first.tolist() == [0, 2, 3]
    assert plain(log)[3] == ["ill", "well", "well"]
    assert log.done.tolist() == [False, True, True]


def test_one_file_an_episode(tmp_path):
    for name, rows in (("one", slice(0, 3)), ("two", slice(3, 5))):
        part = {key: column[rows] for key, column in LONG.items() if key != "patient"}
        write_csv(tmp_path / f"{name}.csv", part)
    for source in (tmp_path, str(tmp_path / "*.csv"), [tmp_path / "one.csv", tmp_path / "two.csv"]):
        assert plain(load_episodes(source)) == EXPECTED
    bad = {key: column[:3] for key, column in LONG.items() if key != "patient"} | {"cost": [1.0, "much", 5.0]}
    write_csv(tmp_path / "one.csv", bad)
    with pytest.raises(FormatError, match=r"one\.csv, line 3: cost is 'much'; expected a number"):
        load_episodes(tmp_path)


def test_arrays_of_learning_libraries():
    flat = {
        "observations": np.array([0, 0, 1, 0, 1]), "actions": np.array([1, 0, 1, 0, 0]), "rewards": np.arange(5.0),
        "terminals": np.array([0, 0, 1, 0, 0]), "timeouts": np.array([0, 0, 0, 0, 1]),
    }  # fmt: skip
    log = load_episodes(flat)
    assert (log.first.tolist(), log.done.tolist(), log.sense) == (
        [0, 3, 5],
        [False, False, True, False, False],
        "reward",
    )
    assert log.next_states.tolist() == [0, 1, 1, 1, -1]
    episodes = [
        SimpleNamespace(observations=np.array([0, 0, 1, 2]), actions=np.array([1, 0, 1]), rewards=np.arange(3.0),
                        terminations=np.array([0, 0, 1]), truncations=np.zeros(3)),
        SimpleNamespace(observations=np.array([0, 1, 1]), actions=np.array([0, 0]), rewards=np.array([3.0, 4.0]),
                        terminations=np.zeros(2), truncations=np.array([0, 1])),
    ]  # fmt: skip
    for source in (episodes, SimpleNamespace(iterate_episodes=lambda: iter(episodes))):
        log = load_episodes(source)
        assert log.next_states.tolist() == [0, 1, 2, 1, 1]
        assert log.done.tolist() == [False, False, True, False, False]
    tuples = [
        [(0, 1, 0.0, 0, False), (0, 0, 1.0, 1, False), (1, 1, 2.0, 2, True)],
        [(0, 0, 3.0, 1, False), (1, 0, 4.0, 1, False)],
    ]
    assert plain(load_episodes(tuples)) == plain(load_episodes(episodes))


def test_states_of_several_columns_and_of_vectors():
    columns = {
        "episode": [0, 0, 1], "stock": [3, 2, 3], "weather": ["sun", "rain", "rain"], "action": [0, 1, 0],
        "reward": [1.0, 2.0, 3.0], "done": [0, 1, 1],
    }  # fmt: skip
    log = load_episodes(columns, state=["stock", "weather"])
    assert [log.state_name(s) for s in log.states] == ["3, sun", "2, rain", "3, rain"]
    vectors = {**columns, "state": np.array([[3, 0], [2, 1], [3, 1]])}
    del vectors["stock"], vectors["weather"]
    log = load_episodes(vectors)
    assert [log.state_name(s) for s in log.states] == ["3, 0", "2, 1", "3, 1"]


def test_a_continuous_column_is_binned_on_request_only():
    rng = np.random.default_rng(0)
    heat = rng.random(500) * 10
    columns = {
        "episode": np.arange(500),
        "heat": heat,
        "action": rng.integers(0, 2, 500),
        "cost": heat,
        "done": np.ones(500),
    }
    with pytest.raises(FormatError, match=r"500 different numbers.*discretize=\{'heat': Discretized\(levels=5\)\}"):
        load_episodes(columns, state="heat")
    log = load_episodes(columns, state="heat", discretize={"heat": Discretized(choices=[0, 5, 10])})
    nearest = np.array(["0", "5", "10"])[np.abs(heat[:, None] - [0, 5, 10]).argmin(1)]
    assert [log.state_name(s) for s in log.states] == nearest.tolist()
    with pytest.raises(OptionError, match="weight is no column of the state"):
        load_episodes(columns, state="heat", discretize={"weight": Discretized()})


def test_what_binning_loses_is_measured_on_held_out_episodes():
    rng = np.random.default_rng(0)
    columns = {name: [] for name in ("unit", "t", "wear", "action", "cost")}
    for unit in range(200):
        wear = rng.uniform(0.0, 1.0)
        for t in range(5):
            row = (unit, t, wear, int(rng.random() < 0.5), 4.0 * wear + 0.01 * rng.normal())
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
            wear = 0.9 * wear + 0.1 * rng.random()

    def losses(**bins):
        return {loss.target: loss for loss in load_episodes(columns, episode="unit", step="t", state="wear",
                                                            discretize=Discretized(**bins)).bin_losses}  # fmt: skip

    coarse, fine = losses(levels=3), losses(levels=30)
    cost = coarse["cost"]
    assert (cost.column, cost.levels) == ("wear", 3)
    # a uniform variable in two bins of a quarter and one of a half: its halves leave a quarter of what is left
    assert 1.0 - cost.halved == pytest.approx((1.0 - cost.explained) / 4.0, rel=0.3)
    assert fine["cost"].explained > 0.99 > 0.95 > cost.explained
    assert fine["next wear"].explained > coarse["next wear"].explained
    log = load_episodes(columns, episode="unit", step="t", state="wear", discretize={"wear": Discretized(levels=3)})
    assert any("wear in 3 bins" in note and "held-out" in note for note in log.notes)
    assert not load_episodes({"episode": [0, 1], "state": [0, 1], "action": [0, 0], "cost": [1, 2]}).bin_losses


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"visit": [1, 2, 2, 1, 2]}, r"row 3: the same episode and step as .* row 2; drop one"),
        ({"visit": [1, 2, "soon", 1, 2]}, r"expected a number, or a date"),
        ({"visit": [1, 2, None, 1, 2]}, r"row 3: visit is missing"),
        ({"state": ["ill", "", "ill", "ill", "ill"]}, r"row 2: the state is missing"),
        ({"action": ["wait", None, "treat", "treat", "treat"]}, r"row 2: the action is missing"),
        ({"cost": [1, 1, "x", 5, 5]}, r"row 3: cost is 'x'; expected a number"),
        ({"cost": [1, None, 1, 5, 5]}, r"row 2: the cost is nan; expected a finite number"),
        ({"next_state": ["well", "ill", "well", "ill", "well"]}, r"row 1: this row leads to a state .* gaps='split'"),
        ({"patient": ["a", None, "a", "b", "b"]}, r"row 2: patient is missing"),
        ({"done": [0, 1, 0, 0, 1]}, r"row 2: done before the episode's last row"),
        ({"done": [0, 7, 0, 0, 1]}, r"row 2: done is '7'; expected 0, 1, true or false"),
    ],
)
def test_faults_name_the_row_and_the_way_out(change, match):
    with pytest.raises(FormatError, match=match):
        load_episodes({**LONG, **change})


def test_missing_columns_are_named():
    for name, match in (
        ("action", "action=COLUMN"),
        ("cost", "cost=COLUMN or reward=COLUMN"),
        ("state", "state=COLUMN"),
    ):
        with pytest.raises(FormatError, match=match):
            load_episodes({key: column for key, column in LONG.items() if key != name})
    alone = {"state": [0, 1], "action": [0, 0], "cost": [1, 2]}
    with pytest.raises(FormatError, match=r"nothing tells episodes apart: say episode=COLUMN"):
        load_episodes(alone)
    with pytest.raises(OptionError, match="there is no column 'day'; there are"):
        load_episodes(LONG, step="day")
    with pytest.raises(FormatError, match="there is no such file"):
        load_episodes("nowhere.csv")


def test_gaps_are_refused_split_or_ignored():
    gap = {"episode": [0, 0, 0, 0], "step": [0, 1, 3, 4], "state": [5, 6, 7, 8], "action": [0] * 4, "cost": [1] * 4}
    with pytest.raises(FormatError, match=r"row 2: this row is followed by a step 1 later in most rows"):
        load_episodes(gap)
    assert load_episodes(gap, gaps="split").next_states.tolist() == [6, -1, 8, -1]
    assert load_episodes(gap, gaps="ignore").next_states.tolist() == [6, 7, 8, -1]


def test_ids_that_are_numbers_keep_their_index():
    log = load_episodes({"episode": [0, 0], "state": [7, 3], "action": [2, 0], "cost": [1, 1], "done": [0, 1]})
    assert (log.states.tolist(), log.actions.tolist(), log.num_states) == ([7, 3], [2, 0], 8)
    assert not log.state_labels


def test_selection_and_split_keep_whole_episodes():
    log = load_episodes(LONG)
    assert log.select([1]).totals().tolist() == [10.0]
    kept, held = log.split(0.5)
    assert sorted([*kept.totals(), *held.totals()]) == [7.0, 10.0]
    with pytest.raises(OptionError, match="one episode cannot be split"):
        held.split()


@pytest.mark.slow
def test_a_million_rows_in_three_seconds(tmp_path):
    import time

    n = 1_000_000
    rng = np.random.default_rng(0)
    columns = {"episode": np.arange(n) // 10, "step": np.arange(n) % 10, "state": rng.integers(0, 50, n),
               "action": rng.integers(0, 4, n), "cost": rng.random(n).round(3)}  # fmt: skip
    pytest.importorskip("pandas").DataFrame(columns).to_csv(tmp_path / "log.csv", index=False)
    begun = time.perf_counter()
    assert load_episodes(tmp_path / "log.csv").num_steps == n
    assert time.perf_counter() - begun < 6.0  # 2 on an idle machine


def test_a_list_of_transitions_is_no_log(tmp_path):
    transitions = {name: LONG[name] for name in ("state", "action", "next_state", "cost")}
    path = write_csv(tmp_path / "list.csv", transitions | {"probability": [0.5, 0.5, 1.0, 0.2, 0.8]})
    with pytest.raises(FormatError, match=r"how probable each is \(column probability\), not a log"):
        load_episodes(path)
    weights = LONG | {"prob": [0.5] * 5}  # a log may say how likely its behaviour was
    assert load_episodes(weights).num_episodes == 2
