"""Arithmetic by zero in PRISM and JANI: Storm's own ends the process, or goes on with 0; here it is an error."""

import json

import pytest

from tailwise.errors import FormatError, OptionError
from tailwise.formats import load
from tailwise.formats.kinds.storm import division

pytest.importorskip("stormpy")

PROGRAM = """mdp
const int N = {n};
module m
  s : [0..9] init {s};
  y : [0..9] init {y};
  [] {guard} -> {update};
endmodule
rewards true : {cost}; endrewards
"""
DEFAULTS = {"n": "3", "s": 1, "y": 2, "guard": "true", "update": "true", "cost": "1"}

WRONG = [
    ({"n": "0", "update": "(s'=mod(s+1,N))"}, "model.nm: it divides by 0 in the state s=1"),
    ({"update": "(s'=mod(s+1,0))"}, "it divides by 0"),
    ({"update": "(s'=mod(s+1,y)) & (y'=max(0,y-1))"}, "it divides by 0: y is 0 in the state s=0 & y=0"),
    ({"n": "0", "update": "1/N : (s'=1) + 1-1/N : (s'=0)"}, "line 6: it divides by 0"),
    ({"y": 0, "update": "(s'=floor(1/y))"}, "line 6: it divides by 0"),
    ({"y": 0, "guard": "s=5 | s/y>1", "update": "(y'=1)"}, "it divides by 0: y is 0 in the state y=0"),
    ({"y": 0, "update": "(s'=min(3,floor(pow(y,0-1)))) & (y'=1)"}, "it divides by 0: y is 0"),
    ({"y": 0, "cost": "1/y"}, "it divides by 0"),
    ({"y": 0, "cost": "mod(3,y)"}, "it divides by 0"),
    ({"y": 0, "cost": "min(1, mod(3,y))"}, "it divides by 0"),
    ({"y": 0, "cost": "s>0 & 3/y>1 ? 1 : 2"}, "it divides by 0"),
    ({"y": 0, "cost": "0; [] s>0 : min(1, 3/y)"}, "it divides by 0"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG)
def test_arithmetic_by_zero_is_an_error(tmp_path, changes, said):
    path = tmp_path / "model.nm"
    path.write_text(PROGRAM.format(**DEFAULTS | changes))
    with pytest.raises(FormatError, match=said):
        load(path)


RIGHT = [  # changes, state after the first step
    ({"update": "(s'=mod(s+7,N))"}, "s=2"),
    ({"update": "(s'=mod(s+6,y+1)) & (y'=max(0,y-1))"}, "s=1,y=1"),
    ({"guard": "y>0 & s/y<9", "update": "(s'=floor(8/y)) & (y'=0)"}, "s=4,y=0"),
    ({"guard": "y>0", "update": "(s'=4) & (y'=0)", "cost": "y>0 ? 1/y : 0; [] true : min(1, 1/y)"}, "s=4,y=0"),
    ({"guard": "y=0 | mod(s,y)=1", "update": "(s'=(y>0 ? floor(8/y) : 1)) & (y'=0)"}, "s=4,y=0"),
]


@pytest.mark.parametrize(("changes", "after"), RIGHT)
def test_divisors_that_are_never_zero_where_they_are_looked_at(tmp_path, changes, after):
    path = tmp_path / "model.nm"
    path.write_text(PROGRAM.format(**DEFAULTS | changes))
    mdp = load(path)
    assert mdp.state_labels[mdp.outcomes(mdp.start, 0)[0].next_state].partition(" ")[0] == after


def test_a_process_of_its_own_is_started_only_where_a_program_divides_by_what_is_no_number(tmp_path, monkeypatch):
    for text in ("1/6 : (x'=1) + 5/6.5 : true", "mod(x+1, 4)", "x>1 // a/b\n & y", '"a/b" & x=1', "1/2e3"):
        assert division(text) is None
    for text, line in (("1/N", 1), ("x\n+ mod(x,y)", 2), ("1/(2)", 1), ("pow(x,2)", 1), ("1/3^x", 1), ("1/0.5x", 1)):
        assert division(text) == line
    monkeypatch.setattr("subprocess.run", None)
    path = tmp_path / "model.nm"
    path.write_text(PROGRAM.format(**DEFAULTS | {"update": "1/3 : (s'=mod(s+1,3)) + 2/3 : true"}))
    assert load(path).num_states == 3


def test_constants_and_goals_may_not_divide_by_zero_either(tmp_path):
    path = tmp_path / "model.nm"
    path.write_text(PROGRAM.format(**DEFAULTS).replace("N = 3", "N"))
    with pytest.raises(OptionError, match="'N=1/0' is not name=value"):
        load(path, constants="N=1/0")
    assert load(path, constants="N=3", goal="s/y>2").num_states == 1


def automaton(right, k=2):
    """k goes to 3 mod (a divisor), for ever."""
    kind = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 9}
    assignment = {"ref": "k", "value": {"op": "%", "left": 3, "right": right}}
    edge = {"location": "x", "destinations": [{"location": "x", "assignments": [assignment]}]}
    return json.dumps({
        "jani-version": 1, "name": "b", "type": "mdp", "properties": [],
        "variables": [{"name": "k", "type": kind, "initial-value": k}],
        "automata": [{"name": "a", "locations": [{"name": "x"}], "initial-locations": ["x"], "edges": [edge]}],
        "system": {"elements": [{"automaton": "a"}]},
    })  # fmt: skip


def test_jani_files_that_divide_by_zero(tmp_path):
    path = tmp_path / "model.jani"
    for right, said in ((0, "model.jani: it divides by 0"), ("k", "it divides by 0: k is 0 in the state .*k=0")):
        path.write_text(automaton(right))  # 3 mod 2 is 1, 3 mod 1 is 0
        with pytest.raises(FormatError, match=said):
            load(path, step_cost=1)
    path.write_text(automaton({"op": "+", "left": "k", "right": 1}))  # 2, then 3 mod 3, then 3 mod 1
    assert load(path, step_cost=1).num_states == 2


def test_constants_may_be_used_before_they_are_defined(tmp_path):
    path = tmp_path / "model.nm"
    late = "const int late = 2*N; // twice\nconst double p = 1/(late+q);\n"
    path.write_text("mdp\n" + late + PROGRAM.format(**DEFAULTS | {"update": "(s'=late)"})[4:] + "const int q = 3;\n")
    mdp = load(path)
    assert mdp.state_labels == ("s=1 {init}", "s=6")
    path.write_text(path.read_text().replace("[] true", "[] oops"))
    with pytest.raises(FormatError, match="line 8: nothing declares 'oops'"):
        load(path)
    path.write_text("mdp\nconst int a = b;\nconst int b = a+1;\nmodule m\n x:bool;\nendmodule\n")
    with pytest.raises(FormatError, match=r"line [23]: constants that are defined by each other: (a -> b -> a|b -> a)"):
        load(path)


def test_a_composition_of_all_modules_and_the_least_of_one_number(tmp_path):
    other = "module o\n t : [0..2] init 0;\n [] true -> (t'=min(2));\nendmodule\n"
    text = PROGRAM.format(**DEFAULTS | {"update": "(s'=max(s))"}) + other
    path = tmp_path / "model.nm"
    path.write_text(text)
    plain = load(path)
    assert plain.num_states == 2
    for system in ("m || o", "(o || m)", "m\n || o"):
        path.write_text(f"{text}system {system} endsystem\n")
        found = load(path)
        assert found.equals(plain)
        assert any("all modules in parallel" in note for note in found.notes)
    for system in ("m ||| o", "m |[a]| o", "m", "m || o {a <- b}"):
        path.write_text(f"{text}system {system} endsystem\n")
        with pytest.raises(FormatError, match=r"line 13: Storm cannot build it: of system compositions, only all"):
            load(path)
