"""Models as people have them: documents, course text, bare tables, workbooks, arrays of MATLAB, Cassandra's format."""

import json

import numpy as np
import pytest

from formats.small_files import write
from tailwise import PomdpTable, backward_induction
from tailwise.errors import FormatError, MissingExtraError, OptionError
from tailwise.formats import load

# A machine: run (0) earns 4 and breaks with 1/4; repair (1) costs 2. Broken machines earn nothing if run.
P = [[[0.75, 0.25], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]]  # (S, A, S)
R = [[4.0, -2.0], [0.0, -2.0]]
NESTED = {
    s: {a: [(p, t, R[s][a], False) for t, p in enumerate(row) if p] for a, row in enumerate(rows)}
    for s, rows in enumerate(P)
}
RECORDS = [
    {"state": s, "action": a, "next_state": t, "probability": p, "reward": r}
    for s, actions in NESTED.items() for a, rows in actions.items() for p, t, r, _ in rows
]  # fmt: skip
LISTS = [[[list(outcome) for outcome in rows] for rows in actions.values()] for actions in NESTED.values()]
YAML = """gamma: 0.9
start: ok
states: [ok, broken]
actions: [run, repair]
transitions:
  ok:
    run: {ok: 0.75, broken: 1/4}
    repair: {ok: 1}
  broken:
    run: {broken: 1}
    repair: {ok: 1}
rewards:
  ok: {run: 4, repair: -2}
  broken: {run: 0, repair: -2}
"""
TOML = """discount = 0.9
transitions = [
  ["ok", "run", "ok", 0.75, 4], ["ok", "run", "broken", 0.25, 4], ["ok", "repair", "ok", 1, -2],
  ["broken", "run", "broken", 1, 0], ["broken", "repair", "ok", 1, -2],
]
"""
COURSE = """numStates 2
numActions 2
end -1
transition 0 0 0 4 0.75
transition 0 0 1 4 0.25
transition 0 1 0 -2 1
transition 1 0 1 0 1
transition 1 1 0 -2 1
mdptype continuing
discount  0.9
"""
CASSANDRA = """# a machine
discount: 0.9
values: reward
states: ok broken
actions: run repair
start: ok

T: run
0.75 0.25
0 1
T: repair : * : ok 1
R: run : ok : * 4
R: repair : * : * -2
"""


def value(horizon=6, discount=0.9, beta=-0.3):
    """ERM of the rewards from state 0, by the recursion written out."""
    values = [0.0, 0.0]
    for h in reversed(range(horizon)):
        b = beta * discount**h

        def q(s, a, following, b=b):
            terms = [p * np.exp(b * (R[s][a] + discount * v)) for p, v in zip(P[s][a], following, strict=True)]
            return np.log(sum(terms)) / b

        values = [max(q(s, 0, values), q(s, 1, values)) for s in (0, 1)]
    return values[0]


def check(source, **options):
    mdp = load(source, **{"horizon": 6, "discount": 0.9, **options})
    assert (mdp.num_states, mdp.num_rows, mdp.num_outcomes) == (2, 4, 5)
    assert backward_induction(mdp, 0.3).value == pytest.approx(value(), rel=1e-12)
    return mdp


@pytest.mark.parametrize("form", [NESTED, LISTS, RECORDS, {"P": NESTED}, {"transitions": RECORDS}])
def test_objects_of_python(form):
    check(form)


@pytest.mark.parametrize("form", [LISTS, {str(s): {str(a): r for a, r in enumerate(x)} for s, x in enumerate(LISTS)},
                                  RECORDS, {"gamma": 0.9, "transitions": RECORDS}])  # fmt: skip
def test_json(tmp_path, form):
    path = write(tmp_path, model__json=json.dumps(form))
    check(path)
    if isinstance(form, dict) and "gamma" in form:
        assert load(path, horizon=6).discount == 0.9
    lines = "\n".join(json.dumps(record) for record in RECORDS)
    check(write(tmp_path, model__jsonl=lines))


def test_yaml_and_toml(tmp_path):
    pytest.importorskip("yaml")
    mdp = check(write(tmp_path, model__yaml=YAML), discount=None)
    assert (mdp.state_labels, mdp.action_labels, mdp.start) == (("ok", "broken"), ("run", "repair"), 0)
    assert load(write(tmp_path, model__yml=YAML.replace("start: ok", "start: broken"))).start == 1
    check(write(tmp_path, model__toml=TOML), discount=None)


def test_course_text(tmp_path):
    check(write(tmp_path, model__txt=COURSE), discount=None)
    mdp = load(write(tmp_path, model__txt=COURSE.replace("end -1", "end 1")))
    assert mdp.done.tolist() == [False, True, False]
    for old, new, said in (
        ("4 0.75", "4", "line 4: expected 'transition s a s2 r p'"),
        ("0.9", "x", "line 10: the discount 'x' is no number"),
        ("end -1", "end 7", "line 1: the end '7' is no state"),
        ("mdptype", "kind", "line 9: 'kind' is no word of this format"),
        ("4 0.75", "4 0.5", "line 4: the probabilities of state 0, action 0 sum to 0.75"),
    ):
        with pytest.raises(FormatError, match=f"model.txt, {said}"):
            load(write(tmp_path, model__txt=COURSE.replace(old, new)))
    with pytest.raises(FormatError, match="no line 'transition s a s2 r p'"):
        load(write(tmp_path, model__txt="hello"))


def test_rewards_by_state_may_be_a_list():
    for states in (None, ["b", "a"]):
        document = {"P": {"0": {"x": {"1": 1.0}}, "1": {"x": {"1": 1.0}}}, "rewards": [1, 5]}
        if states:
            document = {"P": CHAIN, "states": states, "rewards": [5, 1]}
        assert backward_induction(load(document, horizon=2), 0.0).value == 6.0


def test_ends_and_a_discount_of_zero(tmp_path):
    document = {"gamma": 0, "transitions": RECORDS}
    assert load(document).horizon == 1
    assert load(document).notes[0] == "discount 0: only the first step counts, so that the horizon is 1"
    mdp = load(RECORDS, discount=0)
    assert (mdp.horizon, backward_induction(mdp, 0.0).value) == (1, 4.0)
    mdp = load({"transitions": [["a", "x", "b", 1, 2], ["b", "x", "b", 1, 5]], "terminals": ["b"]})
    assert backward_induction(mdp, 1.0).value == 2.0
    wins = load({0: {0: [(0.5, 1, 1.0, True), (0.5, 0, 0.0, False)]}, 1: {0: [(1.0, 1, 9.0, False)]}}, horizon=5)
    assert backward_induction(wins, 0.0).value == pytest.approx(1 - 0.5**5)


CHAIN = {"a": {"x": {"b": 1.0}}, "b": {"x": {"b": 1.0}}}

WRONG = [
    ({"transitions": [["a", "x", "b", 1]]}, "each transition must have state, action, next state, probability"),
    ({"transitions": [["a", "x", "b", 1, 2], 3]}, "3 is no transition; expected a row"),
    ({"transitions": {"a": {"x": 3}}}, "expected outcomes, not 3"),
    ({"transitions": {"a": 3}}, "expected states, then actions, then outcomes"),
    ({"transitions": []}, "no transitions follow|is missing"),
    ({"transitions": RECORDS, "speed": 3}, "unknown key 'speed'"),
    ([RECORDS[0], {"state": 1}], "record 2: its keys are not those of the first"),
    ({0: {0: [(0.5, 0, 1.0, False)]}}, "probabilities of state 0, action 0 sum to 0.5"),
    ({"a": [1, 2]}, "the column 'idstatefrom' is missing"),
    ({"P": CHAIN, "rewards": {"a": 1}, "costs": {"a": 2}}, "both 'rewards' and 'costs' say what is paid"),
    ({"P": CHAIN, "rewards": {"A": 1}}, "a reward of 1 is never paid: no transition goes by state 'A'"),
    ({"P": CHAIN, "rewards": {"a": {"x": {"c": 1}}}}, "state 'a', action 'x', next state 'c'"),
    ({"P": CHAIN, "rewards": [1, 2, 3]}, "never paid"),
    ({"P": CHAIN, "rewards": {"b": 1}, "terminals": ["b"]}, "that of an end on those that lead there"),
    ({"transitions": RECORDS, "rewards": {"0": 1}}, "'rewards' stands beside a list"),
    ({"transitions": [["a", "x", "a", 1, 2]], "rewards": {"a": 1}}, "beside transitions that say themselves what is"),
    ({"P": CHAIN, "sense": "cost", "rewards": {"a": 1}}, "'rewards' contradicts the sense 'cost'"),
    ({"P": CHAIN, "terminals": ["c"]}, "the end 'c' is no state of any transition"),
]


@pytest.mark.parametrize(("form", "said"), WRONG)
def test_wrong_documents(tmp_path, form, said):
    with pytest.raises(FormatError, match=said):
        load(write(tmp_path, model__json=json.dumps(form)))


@pytest.mark.parametrize("name", ["model__json", "model__toml", "model__yaml"])
def test_what_is_no_document(tmp_path, name):
    pytest.importorskip("yaml")
    with pytest.raises(FormatError, match=r"line \d+: it cannot be parsed"):
        load(write(tmp_path, **{name: 'a: [1\n"'}))
    with pytest.raises(FormatError, match=r"cannot be parsed"):
        load(write(tmp_path, model__json="[" * 100_000))
    for name, text in (("model__json", '{"a": {"x": 1, "x": 2}}'), ("model__yaml", "a:\n  x: 1\n  x: 2\n")):
        with pytest.raises(FormatError, match="the key 'x' stands twice"):
            load(write(tmp_path, **{name: text}))
    with pytest.raises(OptionError, match="it is a JANI model; say jani:"):
        load(write(tmp_path, model__json='{"jani-version": 1}'))


def test_a_workbook(tmp_path, monkeypatch):
    path = tmp_path / "model.xlsx"
    path.write_bytes(b"nonsense")
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "openpyxl", None)
        with pytest.raises(MissingExtraError, match=r"tailwise\[excel\]"):
            load(path)
    excel = pytest.importorskip("openpyxl")
    with pytest.raises(FormatError, match="not a readable workbook"):
        load(path)
    book = excel.Workbook()
    book.active.append(["", *RECORDS[0]])
    for k, record in enumerate(RECORDS):
        book.active.append([k, *record.values()])
    book.save(path)
    check(path)
    book.active["E3"] = "a quarter"
    book.save(path)
    with pytest.raises(FormatError, match=r"model\.xlsx, row 3: probability is 'a quarter'"):
        load(path)
    book.active["E3"] = None
    book.save(path)
    with pytest.raises(FormatError, match=r"model\.xlsx, row 3: probability is empty"):
        load(path)


def test_arrays_of_matlab_and_numpy(tmp_path):
    io = pytest.importorskip("scipy.io")
    sas, rewards = np.array(P), np.array(R)
    ass, ssa = sas.transpose(1, 0, 2), sas.transpose(0, 2, 1)
    path = tmp_path / "model.mat"
    io.savemat(path, {"P": ssa, "R": rewards, "gamma": 0.9})
    check(path, discount=None, order="SSA")
    cells = np.empty(2, dtype=object)
    cells[:] = [__import__("scipy.sparse").sparse.csc_matrix(matrix) for matrix in ass]
    io.savemat(path, {"P": cells, "R": rewards})
    check(path)
    for order, array in (("SAS", sas), ("ASS", ass), ("SSA", ssa)):
        np.savez(tmp_path / "model.npz", P=array, R=rewards)
        check(tmp_path / "model.npz", order=order)
    np.savez(tmp_path / "model.npz", P=sas, R=rewards)
    with pytest.raises(OptionError, match=r"P may be .* or .*; say order=SSA, ASS or SAS"):
        load(tmp_path / "model.npz")  # two states and two actions
    wide = np.array([[[0.5, 0.3, 0.2]] * 2] * 3)  # three states: it can only be read in one way
    np.savez(tmp_path / "model.npz", P=wide, R=np.ones((3, 2)))
    assert load(tmp_path / "model.npz", horizon=2).num_states == 3
    np.savez(tmp_path / "model.npz", P=wide * 2, R=np.ones((3, 2)))
    with pytest.raises(FormatError, match="rows of P sum to 1 in no order"):
        load(tmp_path / "model.npz")
    path.write_bytes(b"nonsense")
    with pytest.raises(FormatError, match="not a readable MATLAB file"):
        load(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(384))
    with pytest.raises(FormatError, match="save with the option '-v7'"):
        load(path)
    io.savemat(path, {"A": 1})
    with pytest.raises(FormatError, match=r"it holds A; expected P \(or T\) and R \(or C\)"):
        load(path)


def test_cassandras_format(tmp_path):
    mdp = check(write(tmp_path, model__MDP=CASSANDRA), discount=None)
    assert (mdp.state_labels, mdp.action_labels) == (("ok", "broken"), ("run", "repair"))
    numbered = CASSANDRA.replace("states: ok broken", "states: 2").replace("actions: run repair", "actions: 2")
    for name, number in (("start: ok", "start: 1.0 0"), (" ok", " 0"), ("run", "0"), ("repair", "1")):
        numbered = numbered.replace(name, number)
    check(write(tmp_path, model__MDP=numbered), discount=None)
    hidden = CASSANDRA.replace("start", "observations: beep quiet\nstart")
    hidden = hidden.replace(": * 4", ": * : * 4").replace(": * -2", ": * : * -2") + "O: * uniform\n"
    path = write(tmp_path, model__POMDP=hidden)
    assert isinstance(load(path), PomdpTable)
    assert check(path, observe="state").notes[0].startswith("as if seen")
    for old, new, said in (
        ("0.75 0.25", "0.75", "line 8: expected 2 x 2 numbers"),
        ("R: run", "R: walk", "line 1[12]: 'walk' is none of the actions: run, repair"),
        ("discount", "discunt", "line 2: 'discunt' starts no line"),
        ("0 1\n", "0 0.5\n", "sum to 0.5"),
        ("ok : * 4", "ok : * 4 5", "expected one number"),
    ):
        with pytest.raises(FormatError, match=said):
            load(write(tmp_path, model__MDP=CASSANDRA.replace(old, new)))
    with pytest.raises(OptionError, match="no single start state; say start= one of ok, broken"):
        load(write(tmp_path, model__MDP=CASSANDRA.replace("start: ok", "start: uniform")))
    assert load(tmp_path / "model.MDP", start="broken").start == 1


def test_cassandras_rewards_by_observation_are_refused(tmp_path):
    text = CASSANDRA.replace("start", "observations: a b\nstart").replace("ok : * 4", "ok : * : a 4")
    with pytest.raises(FormatError, match="a reward that depends on the observation"):
        load(write(tmp_path, model__POMDP=text), observe="state")
