"""Explicit files as PRISM 4.10 writes them, UMB archives, and models whose values are known in closed form."""

import io
import json
import struct
import tarfile

import numpy as np
import pytest

from formats.small_files import write
from tailwise import backward_induction
from tailwise.errors import FormatError, OptionError
from tailwise.formats import load, save

# A robot on six fields: as PRISM exports it, with everything in one file, or one file each.
TRANSITIONS = """# Transitions (MDP)
6 10 16
0 0 0 2/5 east
0 0 1 3/5 east
0 1 1 1/10 south
0 1 3 4/5 south
0 1 4 1/10 south
1 0 2 1 east
1 1 2 1/2 south
1 1 4 1/2 south
2 0 2 1 stuck
3 0 3 1 stuck
4 0 5 1 east
4 1 3 3/5 west
4 1 4 2/5 west
5 0 4 1 west
5 1 2 9/10 north
5 1 5 1/10 north
"""
STATES = "# States\n(s,wet)\n0:(0,true)\n1:(1,false)\n2:(2,false)\n3:(3,false)\n4:(4,false)\n5:(5,true)\n"
LABELS = '# Labels\n0="init" 1="deadlock" 2="hazard" 3="goal1" 4="goal2"\n0: 0\n1: 2\n2: 4\n3: 4\n5: 3\n'
TIME = '# Reward structure "time"\n# State rewards\n6 6\n0 1\n1 1\n2 1\n3 1\n4 1\n5 1\n'
NO_TIME = '# Reward structure "time"\n# Transition rewards\n6 10 0\n'
ENERGY = '# Reward structure "energy"\n# State rewards\n6 3\n0 23/10\n1 23/10\n2 1/10\n'
MOVES = '# Reward structure "energy"\n# Transition rewards\n6 10 3\n2 0 2 7/2\n0 0 0 1\n0 0 1 2\n'


def as_files(tmp_path, **changes):
    files = {
        "robot__tra": TRANSITIONS, "robot__lab": LABELS, "robot__sta": STATES, "robot__srew": ENERGY,
        "robot__trew": MOVES,
    }  # fmt: skip
    return write(tmp_path, **(files | changes))


def as_one(tmp_path, *sections):
    sections = sections or (TRANSITIONS, STATES, LABELS, TIME, NO_TIME, ENERGY, MOVES)
    return write(tmp_path, all__pexp="\n".join(sections))


def test_files_of_prism_load_as_they_are(tmp_path):
    mdp = load(as_files(tmp_path), horizon=4)
    assert (mdp.num_states, mdp.num_rows, mdp.num_outcomes, mdp.start) == (6, 10, 16, 0)
    assert mdp.state_labels[0] == "s=0,wet {init}"
    assert mdp.state_labels[2] == "s=2,!wet {goal2}"
    assert set(mdp.action_labels) == {"east", "south", "stuck", "west", "north"}
    assert [o.probability for o in mdp.outcomes(0, 0)] == [0.4, 0.6]
    assert [o.cost for o in mdp.outcomes(0, 0)] == [3.3, 4.3]
    assert [o.cost for o in mdp.outcomes(2, int(mdp.actions(2)[0]))] == [pytest.approx(3.6, rel=1e-15)]
    assert any("'energy' read as costs" in note for note in mdp.notes)


def test_one_file_with_all_sections_is_the_same(tmp_path):
    one = load(as_one(tmp_path), reward="energy", horizon=4)
    assert one.equals(load(as_files(tmp_path), horizon=4))
    with pytest.raises(OptionError, match="several reward structures; say reward= one of 'energy', 'time'"):
        load(as_one(tmp_path))
    assert backward_induction(load(as_one(tmp_path), reward="time", horizon=7), 0.5).value == pytest.approx(7.0)
    with pytest.raises(FormatError, match="line 1: it has no section '# Transitions'"):
        load(as_one(tmp_path, LABELS))


def test_several_reward_structures_stand_in_numbered_files(tmp_path):
    whole = as_one(tmp_path)
    files = {"robot__srew": "", "robot1__srew": TIME, "robot1__trew": NO_TIME, "robot2__srew": ENERGY}
    path = as_files(tmp_path, **files, robot2__trew=MOVES)
    (tmp_path / "robot.srew").unlink()
    (tmp_path / "robot.trew").unlink()
    for reward in ("time", "energy"):
        assert load(path, reward=reward, horizon=4).equals(load(whole, reward=reward, horizon=4))
    write(tmp_path, robot2__tra=TRANSITIONS)  # those rewards are of another model now
    assert any("'time' read as costs" in note for note in load(path).notes)
    bare = {name: text.partition("# State rewards\n")[2] for name, text in (("robot1__srew", TIME), ("x3__srew", TIME))}
    (tmp_path / "robot2.tra").unlink()
    (tmp_path / "robot1.trew").unlink()
    write(tmp_path, **bare)
    assert load(path, reward="1", horizon=4).equals(load(whole, reward="time", horizon=4))


def test_older_files_without_comments_load_too(tmp_path):
    def strip(text):
        return "".join(line + "\n" for line in text.splitlines() if not line.startswith("#"))

    commented = TRANSITIONS.replace("1 0 2 1 east", "# States are fields of a grid\n\n1 0 2 1 east")
    assert load(as_files(tmp_path, robot__tra=commented), horizon=4).equals(load(as_files(tmp_path), horizon=4))
    files = {f"robot__{k}": strip(v) for k, v in (("tra", TRANSITIONS), ("lab", LABELS), ("sta", STATES))}
    files |= {"robot__srew": strip(ENERGY), "robot__trew": strip(MOVES)}
    assert load(write(tmp_path, **files), horizon=4).equals(load(as_files(tmp_path), horizon=4))


def test_observations_and_deadlocks(tmp_path):
    maze = "# Transitions (POMDP)\n3 3 4 2\n- - 0 - 0\n0 0 1 0.5 1 go\n0 0 2 0.5 1 go\n1 0 0 1 0\n1 1 2 1 1 east\n"
    path = write(tmp_path, maze__tra=maze, maze__lab=LABELS.replace("3: 4\n5: 3\n", ""))
    with pytest.raises(OptionError, match=r"has observations \(a POMDP\).*say observe='state'"):
        load(path, step_cost=1, horizon=3)
    mdp = load(path, step_cost=1, horizon=3, observe="state")
    assert (mdp.num_states, mdp.num_outcomes) == (3, 5)  # the last state loops on itself
    assert {"go", "choice", "east"} == set(mdp.action_labels)
    assert any("POMDP" in note for note in mdp.notes)
    assert any("1 states without transitions loop" in note for note in mdp.notes)


def test_a_goal_of_explicit_files_is_a_label(tmp_path):
    """East twice misses the hazard with 0.4 squared; south misses the second goal with 0.2."""
    path = as_one(tmp_path)
    mdp = load(path, goal="hazard", sense="reward", goal_cost=1.0, horizon=2)
    assert backward_induction(mdp, 0.0).value == pytest.approx(1 - 0.4**2, rel=1e-12)
    mdp = load(path, goal="goal2", miss_cost=1.0, horizon=1)
    assert backward_induction(mdp, 0.0).value == pytest.approx(0.2, rel=1e-12)
    averse = backward_induction(mdp, 2.0).value
    assert averse == pytest.approx(np.log(0.8 + 0.2 * np.exp(2.0)) / 2.0, rel=1e-12)
    with pytest.raises(OptionError, match=r"no state label 's=3'; labels are .*goal= takes one here"):
        load(path, goal="s=3", miss_cost=1)
    with pytest.raises(OptionError, match="the start state is a goal state already"):
        load(path, goal="init", miss_cost=1)
    with pytest.raises(OptionError, match="miss_cost needs goal="):
        load(path, miss_cost=1.0)


WRONG = [
    ({"robot__tra": TRANSITIONS.replace("(MDP)", "(CTMC)")}, r"robot.tra, line 1: it is a CTMC; expected one of DTMC"),
    ({"robot__tra": TRANSITIONS.replace("2/5", "2/0")}, "robot.tra, line 3: '2/0' is not a finite number"),
    ({"robot__tra": TRANSITIONS.replace("2/5", "[0.4,0.4]")}, "robot.tra, line 3: intervals: it is not read"),
    ({"robot__tra": "6 10 16\n0 0.1:1 0.8:3 0.1:x south\n"}, "robot.tra, line 2: 'x' is no number of a state"),
    ({"robot__tra": TRANSITIONS.replace("0 0 0 2/5", "0 0 9 2/5")}, "robot.tra, line 3: '9' is no number"),
    ({"robot__tra": TRANSITIONS.replace("6 10 16", "6 10 17")}, "robot.tra, line 2: 17 transitions are declared, 16"),
    (
        {"robot__tra": TRANSITIONS.replace("6 10 16", "9" * 15 + " 10 16")},
        "robot.tra, line 2: 9{15} states are declared",
    ),
    ({"robot__tra": TRANSITIONS.replace("4 1 3 3/5", "4 2 3 3/5")}, "line 1[34]: .*state 4,? "),
    ({"robot__tra": TRANSITIONS.replace("0 0 0 2/5", "0 0 0 -2/5")}, "robot.tra, line 3: the probabilities of state 0"),
    ({"robot__tra": TRANSITIONS + LABELS}, "robot.tra, line 19: another section starts here"),
    ({"robot__lab": TIME}, "robot.lab, line 1: robot.lab holds '# State rewards'; expected '# Labels'"),
    ({"robot__srew": MOVES}, "robot.srew, line 1: robot.srew holds '# Transition rewards'; expected '# State rewards'"),
    ({"robot__srew": ENERGY.replace("6 3", "6 4")}, "robot.srew, line 3: 4 rewards are declared, 3 follow"),
    ({"robot__trew": MOVES.replace("2 0 2", "2 0 1")}, "robot.trew, line 4: a reward for a state or transition that"),
    ({"robot__sta": STATES.replace("5:(5,true)\n", "")}, "robot.sta, line 1: 5 states; the model has 6"),
    ({"robot__sta": STATES.replace("5:(5,true)", "5:(5)")}, "robot.sta, line 8: '5:.5.' does not give the 2 variables"),
]


@pytest.mark.parametrize(("files", "said"), WRONG)
def test_wrong_files_are_named_with_their_line(tmp_path, files, said):
    with pytest.raises(FormatError, match=said):
        load(as_files(tmp_path, **files))


def test_sums_may_miss_by_rounding_only(tmp_path):
    thirds = "dtmc\n0 0 0.333333\n0 1 0.333333\n0 2 0.333333\n"
    mdp = load(write(tmp_path, model__tra=thirds), start=0, step_cost=1)
    assert np.allclose(mdp.probabilities[:3], 1 / 3, rtol=0, atol=1e-15)
    assert any("miss a sum of 1" in note for note in mdp.notes)


def test_a_label_that_no_state_carries_hides_no_number(tmp_path):
    labels = "#DECLARATION\ninit 0\n#END\n0 init\n"
    path = write(tmp_path, model__tra="mdp\n0 0 1 1\n1 0 2 1\n2 0 2 1\n", model__lab=labels)
    assert load(path, start=0, step_cost=1).start == 0
    (tmp_path / "model.lab").write_text(labels + "1 0\n2 0\n")
    with pytest.raises(OptionError, match="'0' is a label of 2 states; expected one"):
        load(path, start=0, step_cost=1)


def test_of_several_initial_states_one_is_said_by_name(tmp_path):
    files = as_files(tmp_path, robot__lab='0="init"\n0: 0\n3: 0\n')
    with pytest.raises(FormatError, match=r"it has 2 initial states \(0: .* \{init\}; 3: .*\); say start= one of them"):
        load(files)
    name = load(files, start=3).state_labels[3]
    assert name.endswith(" {init}")
    assert load(files, start=name).start == load(files, start=name.removesuffix(" {init}")).start == 3


def test_what_prism_writes_for_others_is_named(tmp_path):
    for text, said in (("STATES 2\nTRANSITIONS 2\n1 2 1\n2 2 1\n", "for MRMC"), ("P = sparse(2,2);\n", "MATLAB code")):
        with pytest.raises(
            FormatError, match=rf"model.tra, line 1: it is .*{said}.*export the model without that option"
        ):
            load(write(tmp_path, model__tra=text))


# ------------------------------------------------------------------------------------------------------------- UMB


def umb(tmp_path, name="model.umb", mode="w", *, index=None, reward=None, **members):
    """A coin that is tossed until it comes up heads, written by hand from the format's description."""
    system = {
        "time": "discrete", "#players": 1, "#states": 2, "#initial-states": 1, "#choices": 3, "#choice-actions": 2,
        "#branches": 4, "#branch-actions": 0, "#observations": 0,
        "branch-probability-type": {"type": "double", "size": 64},
    } | (index or {})  # fmt: skip
    variables = [{"name": "b", "type": {"type": "bool", "size": 1}}, {"name": "n", "type": {"type": "int", "size": 3}}]
    description = {
        "format-version": 1, "format-revision": 0, "transition-system": system,
        "annotations": {
            "aps": {"heads": {"applies-to": ["states"], "type": {"type": "bool", "size": 1}}},
            "rewards": {"r0": {"alias": "tosses", "applies-to": ["choices", "branches"]} | (reward or {})},
        },
        "valuations": {"states": {"unique": True, "classes": [{"variables": [*variables, {"padding": 4}]}]}},
    }  # fmt: skip

    def words(*values):
        return np.array(values, dtype="<u8").tobytes()

    content = {
        "index.json": json.dumps(description).encode(),
        "state-to-choices.bin": words(0, 2, 3), "choice-to-branches.bin": words(0, 2, 3, 4),
        "branch-to-target.bin": words(0, 1, 0, 1), "branch-to-probability.bin": np.array([0.75, 0.25, 1, 1]).tobytes(),
        "state-is-initial.bin": words(1), "annotations/aps/heads/states/values.bin": words(2),
        "annotations/rewards/r0/choices/values.bin": np.array([1.0, 0.5, 0.0]).tobytes(),
        "annotations/rewards/r0/branches/values.bin": np.array([0.0, 8.0, 0.0, 0.0]).tobytes(),
        "actions/choices/values.bin": np.array([1, 0, 0], dtype="<u4").tobytes(),
        "actions/choices/string-mapping.bin": words(0, 4, 8), "actions/choices/strings.bin": b"waittoss",
        "valuations/states/valuations.bin": bytes([0b0110, 0b1001]),
    } | {name: value for name, value in members.items() if value is not None}  # fmt: skip
    path = tmp_path / name
    with tarfile.open(path, mode) as archive:
        for member, data in content.items():
            if members.get(member, b"") is not None:
                info = tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_umb_archive_is_read_without_storm(tmp_path, monkeypatch, mode):
    monkeypatch.setitem(__import__("sys").modules, "stormpy", None)
    mdp = load(umb(tmp_path, mode=mode), horizon=3)
    assert mdp.state_labels == ("!b,n=3 {init}", "b,n=-4 {heads}")
    assert mdp.action_labels == ("toss", "wait")
    assert [(o.probability, o.next_state, o.cost) for o in mdp.outcomes(0, 0)] == [(0.75, 0, 1.0), (0.25, 1, 9.0)]
    assert [o.cost for o in mdp.outcomes(0, 1)] == [0.5]
    assert any("'tosses' read as costs" in note for note in mdp.notes)
    assert load(save(mdp, tmp_path / "saved.npz")).equals(mdp)
    heads = load(umb(tmp_path, mode=mode), goal="heads", sense="reward", goal_cost=1, horizon=3)
    assert backward_induction(heads, 0.0).value == pytest.approx(1 - 0.75**3, rel=1e-14)


def packed(kind, *values):
    """Numbers as the format packs them: whole ones of some size, or fractions of two."""
    if kind["type"] == "rational":
        return b"".join(struct.pack("<qQ", *value) for value in values)
    letter = {"int": "bhiq", "uint": "BHIQ"}[kind["type"]][{8: 0, 16: 1, 32: 2, 64: 3}[kind["size"]]]
    return struct.pack(f"<{len(values)}{letter}", *values)


@pytest.mark.parametrize(
    "kind", [{"type": "int", "size": 64}, {"type": "int", "size": 16}, {"type": "uint", "size": 8}]
)
def test_whole_rewards_of_umb_archives_are_whole(tmp_path, kind):
    low = 3 if kind["type"] == "uint" else -3
    members = {
        "annotations/rewards/r0/choices/values.bin": packed(kind, 13, 5, low),
        "annotations/rewards/r0/branches/values.bin": packed(kind, 0, 2, 0, 0),
    }
    mdp = load(umb(tmp_path, reward={"type": kind}, **members), horizon=3)
    assert [o.cost for o in mdp.outcomes(0, 0)] == [13.0, 15.0]
    assert (mdp.outcomes(0, 1)[0].cost, mdp.outcomes(1, 1)[0].cost) == (5.0, low)


def test_fractions_in_umb_archives(tmp_path):
    kind = {"type": "rational", "size": 128}
    members = {
        "branch-to-probability.bin": packed(kind, (3, 4), (1, 4), (1, 1), (1, 1)),
        "annotations/rewards/r0/choices/values.bin": packed(kind, (-1, 3), (0, 1), (7, 2)),
        "annotations/rewards/r0/branches/values.bin": packed(kind, (0, 1), (0, 1), (0, 1), (0, 1)),
    }
    path = umb(tmp_path, index={"branch-probability-type": kind}, reward={"type": kind}, **members)
    mdp = load(path, horizon=3)
    assert [(o.probability, o.cost) for o in mdp.outcomes(0, 0)] == [(0.75, -1 / 3), (0.25, -1 / 3)]
    assert mdp.outcomes(1, 1)[0].cost == 3.5
    members["branch-to-probability.bin"] = packed(kind, (3, 4), (1, 0), (1, 1), (1, 1))
    with pytest.raises(FormatError, match=r"branch-to-probability.bin: it holds a fraction with the denominator 0"):
        load(umb(tmp_path, index={"branch-probability-type": kind}, reward={"type": kind}, **members))


def test_umb_archives_with_observations_are_refused_unless_the_state_is_said_to_be_seen(tmp_path):
    path = umb(tmp_path, index={"#observations": 1})
    with pytest.raises(OptionError, match="say observe='state'"):
        load(path, horizon=3)
    assert load(path, horizon=3, observe="state").notes[0].startswith("as if seen: ")


HOSTILE = [
    ({"state-to-choices.bin": None}, "member state-to-choices.bin: it is missing"),
    ({"branch-to-target.bin": np.array([0, 1, 0, 7], dtype="<u8").tobytes()}, "it names state 7 of 2"),
    ({"branch-to-target.bin": b"short"}, "it has 5 bytes; expected 32"),
    ({"choice-to-branches.bin": np.array([0, 2, 2, 4], dtype="<u8").tobytes()}, "into 3 runs of at least 1"),
    ({"actions/choices/values.bin": np.array([1, 0, 9], dtype="<u4").tobytes()}, "it names action 9 of 2"),
    ({"branch-to-probability.bin": np.array([0.75, 0.35, 1, 1]).tobytes()}, "probabilities sum to 1.1"),
    ({"branch-to-probability.bin": np.array([np.nan, 0.25, 1, 1]).tobytes()}, "it must lie in|probability nan"),
    ({"index.json": b"{"}, "member index.json: not valid JSON"),
    ({"index.json": b"[]"}, "member index.json: it does not describe a model"),
    ({"index": {"#players": 2}}, "2 players; expected discrete time, and one player at most"),
    ({"index": {"time": "stochastic"}}, "stochastic time"),
    ({"index": {"#states": 2**60}}, "#states is 1152921504606846976"),
    ({"index": {"#branches": 10**9}}, "#branches is 1000000000; expected one of 1 to"),
    ({"index": {"branch-probability-type": {"type": "double-interval", "size": 128}}}, "export it with doubles"),
    ({"reward": {"type": {"type": "int", "size": 24}}}, "numbers of type 'int' and 24 bits in .*choices/values.bin"),
    ({"reward": {"type": {"type": "int", "size": 32}}}, "choices/values.bin: it has 24 bytes; expected 12"),
]


@pytest.mark.parametrize(("changes", "said"), HOSTILE)
def test_wrong_umb_archives_are_refused_by_member(tmp_path, changes, said):
    with pytest.raises(FormatError, match=said):
        load(umb(tmp_path, **changes), horizon=3)


def test_what_is_no_archive(tmp_path):
    (tmp_path / "model.umb").write_bytes(b"nonsense")
    with pytest.raises(FormatError, match="not a readable UMB archive"):
        load(tmp_path / "model.umb")
    whole = umb(tmp_path).read_bytes()
    (tmp_path / "model.umb").write_bytes(whole[: len(whole) // 3])
    with pytest.raises(FormatError, match=r"model\.umb"):
        load(tmp_path / "model.umb")


def test_rows_and_compressed_files(tmp_path):
    import gzip
    import lzma

    expected = load(as_files(tmp_path), horizon=4)
    choices: dict[tuple[str, str], list[str]] = {}
    for line in TRANSITIONS.splitlines()[2:]:
        state, choice, target, chance, action = line.split()
        choices.setdefault((state, choice, action), []).append(f"{chance}:{target}")
    rows = "".join(f"{s} {' '.join(pairs)} {action}\n" for (s, _, action), pairs in choices.items())
    assert load(as_files(tmp_path, robot__tra=f"6 10 16\n{rows}"), horizon=4).equals(expected)
    as_files(tmp_path)
    (tmp_path / "robot.tra.gz").write_bytes(gzip.compress(TRANSITIONS.encode()))
    assert load(tmp_path / "robot.tra.gz", horizon=4).equals(expected)
    for path in [one for one in tmp_path.iterdir() if one.stem == "robot" and one.suffix != ".tra"]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert load(tmp_path / "robot.tra.gz", horizon=4).equals(expected)
    whole = as_one(tmp_path).read_bytes()
    (tmp_path / "all.pexp.xz").write_bytes(lzma.compress(whole))
    assert load(tmp_path / "all.pexp.xz", reward="energy", horizon=4).equals(expected)
    (tmp_path / "all.pexp.xz").write_bytes(lzma.compress(whole)[:-30])
    with pytest.raises(FormatError, match=r"all.pexp.xz, line \d+: damaged compressed data"):
        load(tmp_path / "all.pexp.xz", reward="energy")


def test_states_of_umb_archives_without_choices_end_the_episode(tmp_path):
    words = {"state-to-choices.bin": (0, 2, 2), "choice-to-branches.bin": (0, 2, 3), "branch-to-target.bin": (0, 1, 0)}
    members = {name: np.array(values, dtype="<u8").tobytes() for name, values in words.items()} | {
        "branch-to-probability.bin": np.array([0.75, 0.25, 1]).tobytes(),
        "annotations/rewards/r0/choices/values.bin": np.array([1.0, 0.5]).tobytes(),
        "annotations/rewards/r0/branches/values.bin": np.array([0.0, 8.0, 0.0]).tobytes(),
        "actions/choices/values.bin": np.array([1, 0], dtype="<u4").tobytes(),
    }
    mdp = load(umb(tmp_path, index={"#choices": 2, "#branches": 3}, **members), horizon=3)
    assert [(o.probability, o.cost, o.done) for o in mdp.outcomes(0, 0)] == [(0.75, 1.0, False), (0.25, 9.0, True)]
    assert any("1 states have no choices" in note for note in mdp.notes)
