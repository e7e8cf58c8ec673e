"""PRISM, JANI, DRN and explicit files, against Storm's own counts and step-bounded rewards."""

import json
from pathlib import Path

import numpy as np
import pytest

from formats.small_files import (
    PRISM_LAB,
    PRISM_MODEL,
    PRISM_SREW,
    PRISM_TRA,
    PRISM_TREW,
    STORM_LAB,
    STORM_SREW,
    STORM_TRA,
    STORM_TREW,
    write,
)
from tailwise import PomdpTable, backward_induction, domains, solve
from tailwise.errors import FormatError, OptionError
from tailwise.formats import load

storm = pytest.importorskip("stormpy")

STEPS = 20
SHIPPED = [  # file, constants, reward structure
    ("mdp/slipgrid.nm", "", ""),
    ("mdp/coin2-2.nm", "", "steps"),
    ("mdp/coin2.nm", "K=3", "steps"),
    ("mdp/two_dice.nm", "", "coinflips"),
    ("mdp/firewire.nm", "delay=3,fast=0.5", "time"),
    ("mdp/csma2-2.nm", "", "time"),
    ("mdp/leader4.nm", "", "rounds"),
    ("mdp/maze_2.nm", "", ""),
    ("mdp/die_selection.nm", "", "coin_flips"),
    ("mdp/multiobjective1.nm", "", "rew"),
    ("dtmc/die.pm", "", "coin_flips"),
    ("dtmc/leader-3-5.pm", "", "num_rounds"),
    ("pmdp/two_dice.nm", "p1=0.4,p2=0.7", "coinflips"),
]


def shipped(name):
    from stormpy.examples import files

    return Path(files.testfile_dir) / name


def storms_value(source, model, reward, best):
    quantifier = best if model.is_nondeterministic_model else ""
    structure = f'{{"{reward}"}}' if reward else ""
    formula = storm.parse_property(f"R{structure}{quantifier}=? [C<={STEPS}]", source)
    return storm.model_checking(model, formula).get_value(model.initial_states[0])


@pytest.mark.parametrize(("name", "constants", "reward"), SHIPPED)
def test_sizes_and_step_bounded_rewards_are_storms(name, constants, reward):
    path = shipped(name)
    source = storm.parse_prism_program(str(path))
    if constants:
        source = storm.instantiate_constants(source, constants)[0]
    model = storm.build_model(source)
    for sense, best in (("cost", "min"), ("reward", "max")):
        mdp = load(path, constants=constants, reward=reward, sense=sense, horizon=STEPS)
        assert (mdp.num_states, mdp.num_outcomes) == (model.nr_states, model.nr_transitions)
        assert mdp.num_rows == (model.nr_choices if model.is_nondeterministic_model else model.nr_states)
        assert mdp.start == model.initial_states[0]
        expected = storms_value(source, model, reward, best)
        assert backward_induction(mdp, 0.0).value == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "constants"),
    [("mdp/wlan0-2-2.nm", ""), ("mdp/wlan0_collide.nm", "COL=1,TRANS_TIME_MAX=5"), ("dtmc/die.jani", "")],
)
def test_models_without_rewards_load_with_a_note(name, constants):
    mdp = load(shipped(name), constants=constants)
    assert any("no reward structure" in note for note in mdp.notes)
    assert not mdp.losses.any()


def test_probability_of_a_label_as_a_cost():
    """The step-bounded probability of reaching a label is the cost of entering it, once."""
    path, label = shipped("mdp/two_dice.nm"), "seven"
    source = storm.parse_prism_program(str(path))
    model = storm.build_model(source)
    formula = storm.parse_property(f'Pmax=? [F<={STEPS} "{label}"]', source)
    expected = storm.model_checking(model, formula).get_value(model.initial_states[0])
    mdp = load(path, label_costs={label: 1.0}, until=label, sense="reward", horizon=STEPS)
    assert 0.0 < expected < 1.0
    assert backward_induction(mdp, 0.0).value == pytest.approx(expected, abs=1e-8)


def test_constants_may_be_fractions_small_or_mapped():
    path = shipped("pmdp/two_dice.nm")
    expected = load(path, constants="p1=0.25,p2=0.001")
    assert load(path, constants="p1=1/4, p2=1e-3").equals(expected)
    assert load(path, constants={"p1": 0.25, "p2": 1e-3}).equals(expected)
    assert load(f"{path}?constants=p1=1/4,p2=1/1000").equals(expected)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("smg/example_smg.nm", "it is a SMG; expected one of DTMC, MDP, POMDP"),
        ("ma/simple.ma", "it is a MA"),
        ("ctmc/dft.drn", "it is a CTMC"),
        ("pdtmc/die.drn", "Storm cannot build it: .*parametric"),
        ("imdp/tiny-01.drn", "it has intervals; expected plain probabilities"),
        ("idtmc/die-intervals.pm", "Storm cannot build it: .*interval"),
        ("mdp/system_composition.nm", "line 27: Storm cannot build it: of system compositions, only all"),
        ("mdp/coin2-2-illegalSynchronizingWrite.nm", "line 48: Storm cannot build it"),
    ],
)
def test_other_kinds_of_models_are_refused_by_name(name, said):
    with pytest.raises(FormatError, match=said):
        load(shipped(name))


@pytest.fixture
def model(tmp_path):
    return write(tmp_path, model__prism=PRISM_MODEL)


def test_names_come_from_variables_labels_and_commands(model):
    mdp = load(model, constants={"N": 3}, reward="time")
    assert mdp.state_labels[mdp.start] == "x=0 {home,init}"
    assert "x=3 {goal}" in mdp.state_labels
    assert set(mdp.action_labels) == {"slow", "fast", "stay"}
    assert load(model, constants="N=3", reward="time", start="goal").start == mdp.find_state("x=3 {goal}")
    assert load(model, constants="N=3", reward="time", start="x=3 {goal}").start == mdp.find_state("x=3 {goal}")


def test_cost_rules_add_up(model):
    def cost(**options):
        mdp = load(model, constants="N=3", **options)
        state, fast = mdp.start, mdp.action_labels.index("fast")
        return {mdp.state_name(o.next_state)[:3]: (o.cost, o.done) for o in mdp.outcomes(state, fast)}

    assert cost(reward="time") == {"x=2": (1.0, False), "x=0": (1.0, False)}
    assert cost(reward="energy") == {"x=2": (5.0, False), "x=0": (5.0, False)}
    assert cost(step_cost=0.5) == {"x=2": (0.5, False), "x=0": (0.5, False)}
    assert cost(reward="energy", step_cost=0.5, label_costs="home:10", until="home") == {
        "x=2": (5.5, False), "x=0": (15.5, True),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "constants without a value: N; say constants='N=...'"),
        ({"constants": "N=3,M=2"}, "no undefined constant 'M'"),
        ({"constants": "N=3,p=0.1"}, "no undefined constant 'p'"),
        ({"constants": "N=import"}, "is not name=value"),
        ({"constants": "N=nan"}, "is not name=value"),
        ({"constants": "N=1 2"}, "is not name=value"),
        ({"constants": "N=3"}, "several reward structures; say reward= one of 'energy', 'time'"),
        ({"constants": "N=3", "reward": "x"}, "no reward structure 'x'"),
        ({"constants": "N=3", "label_costs": {"x": 1}}, "no state label 'x'"),
        ({"constants": "N=3", "label_costs": "goal:cheap"}, "cost of label 'goal'"),
        ({"constants": "N=3", "reward": "time", "start": "nowhere"}, "neither a state"),
        ({"constants": "N=3", "reward": "time", "sense": "loss"}, "sense must be one of"),
        ({"constants": "N=3", "labels": "x.lab"}, "belong to .tra files"),
    ],
)
def test_wrong_options(model, options, said):
    with pytest.raises(OptionError, match=said):
        load(model, **options)


def test_wrong_models_are_named_with_file_and_line(tmp_path, capfd):
    path = write(tmp_path, model__prism=PRISM_MODEL.replace("endmodule", "endmodul"))
    with pytest.raises(FormatError, match=r"model.prism, line \d+: Storm cannot build it"):
        load(path)
    path = write(tmp_path, model__prism="ctmc\nmodule m\n x:[0..1];\n <> x=0 -> 2:(x'=1);\nendmodule\n")
    with pytest.raises(FormatError, match="it is a CTMC; expected one of DTMC"):
        load(path)
    path = write(tmp_path, model__prism="dtmc\nmodule m\n x:int init 0;\n [] true -> (x'=x+1);\nendmodule\n")
    with pytest.raises(FormatError, match="more than max_states=1000 states"):
        load(path, max_states=1000)
    path = write(
        tmp_path,
        model__prism="mdp\nmodule m\n x:[0..1];\n [] true -> (x'=1-x);\nendmodule\ninit true endinit\n",
    )
    with pytest.raises(FormatError, match=r"has 2 initial states .*say start="):
        load(path, step_cost=1)
    for extension in ("jani", "drn"):
        with pytest.raises(FormatError, match="Storm cannot build it"):
            load(write(tmp_path, **{f"model__{extension}": "{nonsense"}))
    endless = "@type: MDP\n@parameters\n\n@reward_models\n\n@nr_states\n9999999999999999\n@model\nstate 0 init\n"
    with pytest.raises(FormatError, match="Storm cannot build it"):
        load(write(tmp_path, model__drn=endless))
    for zero in ("0", " 0.0"):  # Storm itself would not come back
        text = f"mdp\n// 1/0 in a comment\nmodule m\n x:[0..1];\n [] true -> 1/{zero}:(x'=1-x);\nendmodule\n"
        with pytest.raises(FormatError, match="line 5: it divides by 0"):
            load(write(tmp_path, model__prism=text))
    printed = capfd.readouterr()
    assert printed.out == ""


def test_a_progress_line_appears_on_demand_only(model, capfd):
    load(model, constants="N=3", reward="time", progress=True)
    assert "transitions of model.prism ..." in capfd.readouterr().err
    load(model, constants="N=3", reward="time")
    assert capfd.readouterr().err == ""


TIGER = """pomdp
observables hear, begun endobservables
module tiger
  side : [0..1] init 0;
  hear : [0..2] init 0;
  begun : bool init false;
  [begin] !begun -> 0.5 : (begun'=true) & (side'=0) + 0.5 : (begun'=true) & (side'=1);
  [listen] begun & side=0 -> 0.85 : (hear'=1) + 0.15 : (hear'=2);
  [listen] begun & side=1 -> 0.85 : (hear'=2) + 0.15 : (hear'=1);
  [left] begun -> 0.5 : (hear'=0) & (side'=0) + 0.5 : (hear'=0) & (side'=1);
  [right] begun -> 0.5 : (hear'=0) & (side'=0) + 0.5 : (hear'=0) & (side'=1);
endmodule
rewards "cost"
  [listen] true : 1;
  [left] side=0 : 100;
  [left] side=1 : -10;
  [right] side=0 : -10;
  [right] side=1 : 100;
endrewards
"""


def test_a_partially_observable_model_is_planned_by_what_is_observed(tmp_path):
    path = tmp_path / "tiger.prism"
    path.write_text(TIGER, encoding="utf-8")
    pomdp = load(path, horizon=6)
    assert isinstance(pomdp, PomdpTable)
    assert set(pomdp.table.action_labels) == {"begin", "listen", "left", "right"}
    for beta in (0.0, 0.05):
        want = solve(domains.make("tiger", horizon=5, discount=1.0), beta).value
        assert solve(pomdp, beta).value == pytest.approx(want, rel=1e-9)
    assert solve(load(path, horizon=6, observe="state"), 0.0).value == pytest.approx(-50.0)
    ending = load(shipped("pomdp/maze_2.prism"), goal="goal", horizon=4)
    assert isinstance(ending, PomdpTable)
    assert ending.check().ok


def test_a_partially_observable_model_is_read_as_its_mdp_where_the_user_says_so():
    for name in ("pomdp/maze_2.prism", "pomdp/maze.drn"):
        assert isinstance(load(shipped(name), horizon=STEPS), PomdpTable)
        with pytest.raises(OptionError, match="observe must be one of"):
            load(shipped(name), observe="all")
    prism = load(shipped("pomdp/maze_2.prism"), horizon=STEPS, observe="state")
    drn = load(f"{shipped('pomdp/maze.drn')}?observe=state", horizon=STEPS, step_cost=1.0)
    assert prism.num_states == drn.num_states == 15
    assert all(any(note.startswith("as if seen: ") for note in mdp.notes) for mdp in (prism, drn))
    assert set(drn.action_labels) == {"choice", "north", "south", "east", "west", "done"}


def jani(rewards):
    """One edge with two destinations, and a reward on each."""
    destinations = [
        {"location": "l", "probability": {"exp": 0.5, "comment": str(i)},
         "assignments": [{"ref": "s", "value": i + 1}, {"ref": "r", "value": reward, "comment": str(i)}]}
        for i, reward in enumerate(rewards)
    ]  # fmt: skip
    guard = {"left": "s", "right": 0}
    edges = [
        {"location": "l", "guard": {"exp": {"op": "=", **guard}}, "destinations": destinations},
        {"location": "l", "guard": {"exp": {"op": ">", **guard}}, "destinations": [{"location": "l"}]},
    ]
    kind = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 2}
    content = {
        "jani-version": 1, "name": "t", "type": "mdp", "features": [], "properties": [],
        "variables": [
            {"name": "s", "type": kind, "initial-value": 0},
            {"name": "r", "type": "real", "transient": True, "initial-value": 0},
        ],
        "automata": [{"name": "a", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": edges}],
        "system": {"elements": [{"automaton": "a"}]},
    }  # fmt: skip
    return json.dumps(content)


def test_rewards_that_storm_would_average_are_refused(tmp_path):
    mdp = load(write(tmp_path, model__jani=jani([10, 10])))
    assert [o.cost for o in mdp.outcomes(mdp.start, 0)] == [10.0, 10.0]
    path = write(tmp_path, model__jani=jani([10, 0]))
    with pytest.raises(OptionError, match=r"reward 'r' differs between destinations.*average_rewards=true"):
        load(path)
    assert (load(path, step_cost=1.0).losses == 1.0).all()
    averaged = load(f"{path}?average_rewards=true")
    assert [o.cost for o in averaged.outcomes(averaged.start, 0)] == [5.0, 5.0]
    assert any("exact at beta = 0 only" in note for note in averaged.notes)


def test_rewards_with_an_initial_value_count_where_the_user_says(tmp_path):
    """From x to y or z one half each, at 5; y and z loop, z at 0. Each location has the initial value, 2."""
    loops = [{"location": name, "destinations": [{"location": name, "assignments": given}]} for name, given in
             (("y", []), ("z", [{"ref": "c", "value": 0}]))]  # fmt: skip
    five = [{"ref": "c", "value": 5}]
    half = [{"location": name, "probability": {"exp": 0.5}, "assignments": five} for name in "yz"]
    content = {
        "jani-version": 1, "name": "b", "type": "mdp", "properties": [],
        "variables": [{"name": "c", "type": "real", "initial-value": 2, "transient": True}],
        "automata": [{
            "name": "A", "locations": [{"name": name} for name in "xyz"], "initial-locations": ["x"],
            "edges": [{"location": "x", "destinations": half}, *loops],
        }],
        "system": {"elements": [{"automaton": "A"}]},
    }  # fmt: skip
    path = write(tmp_path, model__jani=json.dumps(content))
    with pytest.raises(OptionError, match=r"initial value that is not 0.*say accumulate=steps, exit or steps,exit"):
        load(path)
    for accumulate, costs in (("steps", [5, 2, 0]), ("exit", [2, 2, 2]), ("steps,exit", [7, 4, 2])):
        mdp = load(path, accumulate=accumulate)
        assert [mdp.outcomes(state, 0)[0].cost for state in range(3)] == costs
    content["variables"][0]["initial-value"] = 0
    mdp = load(write(tmp_path, model__jani=json.dumps(content)))
    assert [mdp.outcomes(state, 0)[0].cost for state in range(3)] == [5, 0, 0]
    with pytest.raises(OptionError, match="accumulate must be one of"):
        load(path, accumulate="time")


def test_drn_of_another_tool_run(tmp_path, model):
    source = storm.instantiate_constants(storm.parse_prism_program(str(model)), "N=3")[0]
    storm.developer.export_sparse_model_as_drn(
        storm.build_model(source),
        str(tmp_path / "model.drn"),
        storm.developer.DirectEncodingExporterOptions(),
    )
    drn, prism = load(tmp_path / "model.drn", reward="energy"), load(model, constants="N=3", reward="energy")
    assert np.array_equal(drn.next_states, prism.next_states)
    assert np.array_equal(np.sort(drn.losses), np.sort(prism.losses))


def explicit(tmp_path, dialect, **options):
    storms = {
        "model__tra": STORM_TRA,
        "model__lab": STORM_LAB,
        "model__srew": STORM_SREW,
        "model__trew": STORM_TREW,
    }
    prisms = {
        "model__tra": PRISM_TRA,
        "model__lab": PRISM_LAB,
        "model__srew": PRISM_SREW,
        "model__trew": PRISM_TREW,
    }
    files = {**(storms if dialect == "storm" else prisms), **options}
    return write(tmp_path, **files)


@pytest.mark.parametrize("dialect", ["storm", "prism"])
def test_both_dialects_of_explicit_files(tmp_path, dialect):
    mdp = load(explicit(tmp_path, dialect), horizon=4)
    assert (mdp.num_states, mdp.num_rows, mdp.num_outcomes) == (3, 4, 5)
    assert mdp.state_labels == ("0 {init}", "1", "2 {goal}")
    if dialect == "prism":
        assert set(mdp.action_labels) == {"toss", "leap", "walk", "stay"}
    costs = {o.next_state: o.cost for a in mdp.actions(0) for o in mdp.outcomes(0, int(a))}
    assert costs == {0: 1.0, 1: 4.0, 2: 11.0}
    assert mdp.outcomes(1, int(mdp.actions(1)[0]))[0].cost == 2.5


def test_explicit_files_of_the_wheel():
    mdp = load(
        shipped("tra/two_dice.tra"), labels="../lab/two_dice.lab", horizon=STEPS,
        transition_rewards="../rew/two_dice.flip.trans.rew",
    )  # fmt: skip
    prism = load(shipped("mdp/two_dice.nm"), horizon=STEPS)
    assert (mdp.num_states, mdp.num_outcomes) == (169, 436)
    expected = backward_induction(prism, 0.0).value
    assert backward_induction(mdp, 0.0).value == pytest.approx(expected, abs=1e-8)
    die = load(shipped("dtmc/die.tra"), step_cost=1.0)
    assert (die.num_states, die.num_outcomes) == (13, 20)


WRONG = [
    ("storm", {"model__tra": "smg\n0 0 0 1\n"}, "model.tra, line 1: 'smg' opens no transition file"),
    ("storm", {"model__tra": "mdp\n0 0 0\n"}, "model.tra, line 2: 3 fields; expected 4"),
    ("storm", {"model__tra": "mdp\n0 0 x 1\n"}, "model.tra, line 2: 'x' is no number"),
    ("storm", {"model__tra": "mdp\n0 0 0 nan\n"}, "model.tra, line 2: 'nan' is not a finite number"),
    (
        "storm",
        {"model__tra": "mdp\n0 0 1000000000000 1\n"},
        "model.tra, line 2: '1000000000000' is no number",
    ),
    (
        "storm",
        {"model__tra": "mdp\n0 0 0 0.5\n0 0 1 0.4\n1 0 1 1\n"},
        "model.tra, line 2: the probabilities of state 0,",
    ),
    ("prism", {"model__tra": "2 2\n0 0 0.5\n0 1 0.4\n1 1 1\n"}, "model.tra, line 2: the probabilities of state 0 sum"),
    ("storm", {"model__tra": "mdp\n0 0 0 1\n0 2 0 1\n"}, "model.tra, line 3: state 0 has choice 2, but no choice 1"),
    ("storm", {"model__tra": "mdp\n"}, "model.tra, line 1: no transitions follow"),
    ("storm", {"model__lab": "#DECLARATION\ninit\n0 init\n"}, "model.lab, line 3: #DECLARATION has no #END"),
    ("storm", {"model__lab": STORM_LAB + "1 bad\n"}, "model.lab, line 6: the label 'bad' is not declared"),
    ("storm", {"model__lab": STORM_LAB + "9 goal\n"}, "model.lab, line 6: '9' is no number"),
    ("storm", {"model__trew": "0 0 2 1\n"}, "model.trew, line 1: a reward for a .* transition that"),
    ("prism", {"model__lab": '0="init\n'}, "model.lab, line 1: .*declares no label"),
    ("prism", {"model__lab": '0="init"\n0 0\n'}, "model.lab, line 2: '0' names no state"),
    ("prism", {"model__lab": '0="init"\n0: 7\n'}, "model.lab, line 2: the label '7' is not declared"),
    ("prism", {"model__srew": "3 1\n7 1\n"}, "model.srew, line 2: a reward for a state"),
]


@pytest.mark.parametrize(("dialect", "files", "said"), WRONG)
def test_wrong_explicit_files_are_named_with_file_and_line(tmp_path, dialect, files, said):
    with pytest.raises(FormatError, match=said):
        load(explicit(tmp_path, dialect, **files))


def test_without_an_initial_state_one_must_be_named(tmp_path):
    path = explicit(tmp_path, "storm", model__lab=STORM_LAB.replace("init", "first"))
    with pytest.raises(FormatError, match=r"has 0 initial states \(none\); say start="):
        load(path)
    assert load(path, start="first").start == 0


def test_states_without_transitions_loop_as_in_the_other_languages(tmp_path):
    path = write(tmp_path, model__tra="mdp\n0 0 1 1\n", model__lab="#DECLARATION\ninit\n#END\n0 init\n")
    mdp = load(path, step_cost=1.0)
    assert [(o.next_state, o.done) for o in mdp.outcomes(1, int(mdp.actions(1)[0]))] == [(1, False)]
    assert any("1 states without transitions loop" in note for note in mdp.notes)


def test_labels_are_needed(tmp_path):
    path = write(tmp_path, model__tra=STORM_TRA)
    with pytest.raises(FormatError, match="its labels are needed"):
        load(path)
    with pytest.raises(FormatError, match="there is no such file"):
        load(path, labels="x.lab")


def test_storm_models_round_trip(tmp_path, model):
    from tailwise.formats import save

    mdp = load(model, constants="N=5", reward="energy", label_costs={"goal": -2}, until="goal")
    for extension in (".npz", ".csv"):
        assert load(save(mdp, tmp_path / f"saved{extension}")).equals(mdp)


GOALS = [  # file, constants, expression
    ("mdp/two_dice.nm", "", "s1=7 & s2=7 & d1+d2=7"),
    ("mdp/two_dice.nm", "", '"seven" & d1=1'),
    ("mdp/coin2.nm", "K=3", "counter=12 | counter=0"),
    ("mdp/firewire.nm", "delay=3,fast=0.5", "s1=7 | s2=8"),
    ("mdp/wlan0-2-2.nm", "", "c1=1"),
    ("dtmc/die.pm", "", "s=7 & d>4"),
    ("dtmc/die.jani", "", "s=7 & d=6"),
    ("mdp/slipgrid.nm", "", "deadlock"),
]


@pytest.mark.parametrize(("name", "constants", "goal"), GOALS)
@pytest.mark.parametrize("steps", [3, 20])
def test_goals_are_expressions(name, constants, goal, steps):
    """Reaching is a reward of 1, missing a cost of 1: Storm's largest step-bounded probability, and its rest."""
    path = shipped(name)
    is_jani = path.suffix == ".jani"
    source = storm.parse_jani_model(str(path))[0] if is_jani else storm.parse_prism_program(str(path))
    if constants:
        source = storm.instantiate_constants(source, constants)[0]
    text = f'"{goal}"' if goal == "deadlock" else goal
    formula = storm.parse_property(f"P{'max' if '/mdp/' in str(path) else ''}=? [F<={steps} ({text})]", source)
    options = storm.BuilderOptions([formula.get_raw_formula()] * 2)
    options.set_build_all_labels()
    limits = storm.developer.ExplicitModelBuilderOptions[float]()
    described = storm.developer.SymbolicModelDescription(source)
    model = storm.developer.make_explicit_model_builder[float](described, options, None, limits).build()
    expected = storm.model_checking(model, formula).get_value(model.initial_states[0])
    common = {"constants": constants, "goal": goal, "horizon": steps}
    for options in ({"sense": "reward", "goal_cost": 1.0}, {"miss_cost": 1.0}):
        mdp = load(path, **common, **options)
        assert mdp.num_states == model.nr_states
        value = backward_induction(mdp, 0.0).value
        assert (value if "sense" in options else 1.0 - value) == pytest.approx(expected, abs=1e-8)


def test_a_goal_alone_costs_what_missing_it_costs(model):
    """Nothing else costs anything in a model without rewards; a reward structure is counted until the goal."""
    bare = model.with_name("bare.prism")
    bare.write_text(model.read_text().partition("rewards")[0])
    mdp = load(bare, constants="N=3", goal="x=3", horizon=2)
    assert any("missing the goal within the horizon costs 1" in note for note in mdp.notes)
    assert backward_induction(mdp, 0.0).value == pytest.approx(0.5)  # fast, then slow
    assert load(f"{bare}?goal=x=3&constants=N=3&horizon=2").equals(mdp)
    walk = load(model, constants="N=3", reward="time", goal="x=3", horizon=50)
    assert backward_induction(walk, 0.0).value == pytest.approx(3.0)  # slow three times
    with pytest.raises(OptionError, match="goal='x=' is no expression of the model"):
        load(model, constants="N=3", goal="x=")
    with pytest.raises(OptionError, match="the start state is a goal state already"):
        load(model, constants="N=3", goal="x=0", reward="time")
    mdp = load(model, constants="N=3", goal="x=0 & x=1", horizon=2, miss_cost=1)
    assert any("holds in none of the 4 states" in note for note in mdp.notes)


TYPES = {
    "no type": ("", "names no model type: read as an MDP"),
    "constants first": ("// dtmc\nconst int M = 1;\nmdp\n", "its model type, mdp, is read as if it stood first"),
    "old word": ("nondeterministic\n", "its model type, nondeterministic"),
    "formula first": ("formula f = 1;\nglobal g : [0..3] init 0;\nmdp ", "its model type, mdp"),
}


@pytest.mark.parametrize("case", TYPES)
def test_the_model_type_may_be_missing_or_elsewhere(tmp_path, model, case):
    front, note = TYPES[case]
    path = write(tmp_path, other__nm=front + PRISM_MODEL.removeprefix("mdp\n"))
    mdp = load(path, constants="N=3", reward="time")
    assert any(note in text for text in mdp.notes)
    expected = load(model, constants="N=3", reward="time")
    assert np.array_equal(mdp.next_states, expected.next_states)
    assert np.array_equal(mdp.losses, expected.losses)


def test_lines_are_those_of_the_file_when_the_type_is_put_in_front(tmp_path):
    path = write(tmp_path, other__nm="const int N = 2;\nmodule m\n x:[0..N];\n [] x<N -> (x'=x+);\nendmodule\n")
    with pytest.raises(FormatError, match=r"other.nm, line 4: Storm cannot build it"):
        load(path)


def test_what_leaves_its_bounds_or_is_not_declared_is_an_error(tmp_path):
    """2 in [0..1] was read as 0: one bit."""
    program = "mdp\nmodule m\n x:[0..1] init 0;\n [] x=0 -> (x'=2);\n [] x=1 -> true;\nendmodule\n"
    with pytest.raises(FormatError, match=r"model.nm: Storm cannot build it: .*\bx\b"):
        load(write(tmp_path, model__nm=program))
    with pytest.raises(FormatError, match=r"model.nm, line 4: \(y'=...\) assigns to 'y', which no module declares"):
        load(write(tmp_path, model__nm=program.replace("x'=2", "y'=1")))
    assert load(write(tmp_path, model__nm=program.replace("x'=2", "x'=1"))).num_states == 2
    sums = program.replace("(x'=2)", " + ".join(["1/13 : (x'=1)"] * 12 + ["1/13 : (x'=0)"]))  # not 1 to the last bit
    assert load(write(tmp_path, model__nm=sums)).num_states == 2
    with pytest.raises(FormatError, match=r"model.nm: .*bounds"):
        load(write(tmp_path, model__nm=sums.replace("x'=0)", "x'=2)")))


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [("const int N;\n", "", "N"), ("const double p = 0.5;\n", "", "p"), ("x<N ->", "!done & x<N ->", "done")],
)
def test_a_missing_line_is_named(tmp_path, old, new, name):
    path = write(tmp_path, model__nm=PRISM_MODEL.replace(old, new, 1))
    with pytest.raises(
        FormatError, match=rf"model.nm, line \d: nothing declares '{name}'; .*add the line 'const int {name};'"
    ):
        load(path, constants="N=3")
    path = write(tmp_path, model__nm=PRISM_MODEL.replace("x<N ->", "x<N N ->", 1))
    with pytest.raises(FormatError, match=r"model.nm, line 6: Storm cannot build it"):
        load(path, constants="N=3")


def variable_rewards(path, assign):
    """Two destinations of one half each that leave s at 1 and 2; ``assign(i)`` says what else they assign."""
    content = json.loads(jani([10, 10]))
    kind = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 20}
    content["variables"].append({"name": "x", "type": kind, "initial-value": 1})
    for i, destination in enumerate(content["automata"][0]["edges"][0]["destinations"]):
        destination["assignments"] = [{"ref": "s", "value": i + 1}, *assign(i)]
    path.write_text(json.dumps(content))
    return path


def test_rewards_that_differ_by_what_was_assigned_before_are_refused(tmp_path):
    """r := x says the same at both destinations, but x was assigned there, and earlier: 0 or 10, not 5 twice."""
    path = tmp_path / "model.jani"

    def assigned(first, second, order=(0, 1)):
        return lambda i: [
            {"ref": "r", "value": "x", "index": order[1]},
            {"ref": "x", "value": (first, second)[i], "index": order[0]},
        ]

    with pytest.raises(OptionError, match="reward 'r' differs between destinations"):
        load(variable_rewards(path, assigned(0, 10)))
    averaged = load(path, average_rewards=True)
    assert [o.cost for o in averaged.outcomes(averaged.start, 0)] == [5.0, 5.0]
    for order, cost in (((0, 1), 10.0), ((0, 0), 1.0), ((1, 0), 1.0)):  # after, at once, before
        mdp = load(variable_rewards(path, assigned(10, 10, order)))
        assert [o.cost for o in mdp.outcomes(mdp.start, 0)] == [cost, cost]
    mdp = load(variable_rewards(path, assigned(0, 10, (1, 0))))  # x is read before it differs
    assert [o.cost for o in mdp.outcomes(mdp.start, 0)] == [1.0, 1.0]


def test_rewards_that_another_automaton_makes_random_are_refused(tmp_path):
    content = json.loads(variable_rewards(tmp_path / "model.jani", lambda i: [{"ref": "r", "value": 1}]).read_text())
    edges = content["automata"][0]["edges"]
    for edge in edges:
        edge["action"] = "go"
    reads = [{"ref": "s", "value": 1}, {"ref": "r", "value": "x", "index": 1}]
    edges[0]["destinations"] = [{"location": "l", "assignments": reads}]
    tosses = [
        {"location": "l", "probability": {"exp": 0.5}, "assignments": [{"ref": "x", "value": x}]} for x in (0, 10)
    ]
    other = [{"location": "l", "action": "go", "destinations": tosses}]
    content["actions"] = [{"name": "go"}]
    content["automata"].append({"name": "b", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": other})
    sync = [{"synchronise": ["go", "go"], "result": "go"}]
    content["system"] = {"elements": [{"automaton": "a"}, {"automaton": "b"}], "syncs": sync}
    (tmp_path / "model.jani").write_text(json.dumps(content))
    with pytest.raises(OptionError, match="reward 'r' differs between destinations"):
        load(tmp_path / "model.jani")
    assert load(tmp_path / "model.jani", goal="s=1", miss_cost=1).num_states == 3  # the reward is not used


def test_truth_values_are_in_the_names_of_states():
    mdp = load(shipped("dtmc/leader-3-5.pm"), reward="num_rounds")
    assert any(name.startswith("u1,u2,u3,c=1") for name in mdp.state_labels)
    assert any(name.startswith("!u1,") for name in mdp.state_labels)


def test_a_umb_archive_that_storm_wrote_is_the_model(tmp_path, model):
    source = storm.instantiate_constants(storm.parse_prism_program(str(model)), "N=3")[0]
    options = storm.BuilderOptions()
    options.set_build_all_labels()
    options.set_build_all_reward_models()
    options.set_build_state_valuations()
    options.set_build_choice_labels()
    limits = storm.developer.ExplicitModelBuilderOptions[float]()
    described = storm.developer.SymbolicModelDescription(source)
    built = storm.developer.make_explicit_model_builder[float](described, options, None, limits).build()
    __import__("stormpy.io").io.export_to_umb(built, str(tmp_path / "model.umb"))
    for reward in ("time", "energy"):
        assert load(tmp_path / "model.umb", reward=reward).equals(load(model, constants="N=3", reward=reward))
