"""Cassandra's .pomdp files, in all their dialects: loaded as hidden states, or refused with line and reason."""

import numpy as np
import pytest

from tailwise import PomdpTable, load, solve
from tailwise.errors import FormatError, OptionError

TIGER = """# the tiger
discount: 0.95
values: reward
states: tiger-left tiger-right
actions: listen open-left open-right
observations: hear-left hear-right

T:listen
identity
T:open-left
uniform
T:open-right
uniform

O:listen
0.85 0.15
0.15 0.85
O:open-left
uniform
O:open-right
uniform

R:listen : * : * : * -1
R:open-left : tiger-left : * : * -100
R:open-left : tiger-right : * : * 10
R:open-right : tiger-left : * : * 10
R:open-right : tiger-right : * : * -100
"""
DIALECTS = {
    "as it is": lambda text: text,
    "costs": lambda text: text.replace("values: reward", "values: cost")
    .replace("* -1\n", "* 1\n").replace("* 10\n", "* X\n").replace("* -100", "* 100").replace("* X", "* -10"),
    "numbers for names": lambda text: text.replace("states: tiger-left tiger-right", "states: 2")
    .replace("actions: listen open-left open-right", "actions: 3")
    .replace("observations: hear-left hear-right", "observations: 2")
    .replace("tiger-left", "0").replace("tiger-right", "1")
    .replace("listen", "0").replace("open-left", "1").replace("open-right", "2"),
    "rows": lambda text: text.replace(
        "T:listen\nidentity", "T: listen : tiger-left\n1 0\nT: listen : tiger-right\n0 1"),
    "single probabilities": lambda text: text.replace(
        "O:listen\n0.85 0.15\n0.15 0.85",
        "O : listen : tiger-left : hear-left 0.85\nO : listen : tiger-left : hear-right 0.15\n"
        "O : listen : tiger-right : hear-left 1.5e-1\nO: listen : tiger-right : hear-right .85"),
    "stars, the later line counts": lambda text: text
    .replace("T:listen\nidentity", "T: * : * : * 0.5\nT:listen\nidentity")
    .replace("T:open-left\nuniform\nT:open-right\nuniform\n", ""),
    "rewards in rows": lambda text: text.replace("R:listen : * : * : * -1", "R: listen : * : *\n-1 -1"),
    "rewards in matrices": lambda text: text.replace("R:listen : * : * : * -1", "R: listen : *\n-1 -1\n-1 -1"),
    "rewards without observation": lambda text: text.replace("R:listen : * : * : * -1", "R: listen : * : * -1"),
    "rewards by observation": lambda text: text.replace(
        "R:listen : * : * : * -1", "R: listen : * : * : hear-left -1\nR: listen : * : * : hear-right -1"),
    "start: probabilities": lambda text: text.replace("\nT:listen", "\nstart: 0.5 0.5\nT:listen"),
    "start: uniform": lambda text: text.replace("\nT:listen", "\nstart: uniform\nT:listen"),
    "start include": lambda text: text.replace("\nT:listen", "\nstart include: tiger-left tiger-right\nT:listen"),
    "reset": lambda text: text.replace("\nT:listen", "\nstart: uniform\nT:listen")
    .replace("T:open-left\nuniform", "T: open-left : *\nreset"),
    "Windows and comments": lambda text: text.replace("\n", " # said\r\n"),
    "heads in another order": lambda text: text.replace("discount: 0.95\nvalues: reward\n", "")
    .replace("\nT:listen", "\nvalues: reward\ndiscount : 0.95\nT:listen"),
}  # fmt: skip


def write(folder, text):
    path = folder / "model.pomdp"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects(tmp_path, name):
    text = DIALECTS[name](TIGER)
    assert name == "as it is" or text != TIGER
    model = load(write(tmp_path, text), horizon=5)
    assert isinstance(model, PomdpTable)
    sign = 1.0 if model.sense == "cost" else -1.0
    assert sign * solve(model, 0.1).value == pytest.approx(4.52438125, abs=1e-9)
    assert model.observation_labels[0] in ("hear-left", "0")


def test_the_known_value_of_the_tiger(tmp_path):
    """Without a horizon, and risk-neutral, it is 19.3714 (Cassandra's page, and every solver since)."""
    model = load(write(tmp_path, TIGER), horizon=90)
    left = 0.95**90 * 19.3714
    assert solve(model, 0.0).value == pytest.approx(19.3714 - left, abs=0.02)
    assert any("start" in note for note in model.notes)


def test_starts(tmp_path):
    for said, belief in (("start: tiger-right", [0, 1]), ("start: 1", [0, 1]), ("start exclude: tiger-right", [1, 0])):
        model = load(write(tmp_path, TIGER.replace("\nT:listen", f"\n{said}\nT:listen")), horizon=2)
        assert model.start_belief.tolist() == belief
    assert load(write(tmp_path, TIGER), start="tiger-left", horizon=2).start_belief.tolist() == [1.0, 0.0]


def test_rewards_that_differ_by_observation(tmp_path):
    text = TIGER.replace(
        "R:listen : * : * : * -1", "R: listen : * : * : hear-left -1\nR: listen : * : * : hear-right -3"
    )
    model = load(write(tmp_path, text), horizon=1)
    assert solve(model, 0.0).value == pytest.approx(-2.0)
    with pytest.raises(FormatError, match="depends on the observation"):
        load(write(tmp_path, text), observe="state")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0.85 0.15\n0.15", "0.85 0.25\n0.15", "line 15: the observations of action listen, state tiger-left"),
        ("T:open-left\nuniform\n", "", "no line gives the transitions of action open-left, state tiger-left"),
        ("O:open-left\nuniform\n", "", "no line gives the observations of action open-left"),
        ("0.85 0.15\n0.15 0.85", "0.85 0.15", "line 15: expected 2 x 2 numbers"),
        ("T:listen\nidentity", "T:listen\nidentical", "line 8: expected 2 x 2 numbers"),
        ("R:open-left : tiger-left", "R:open-left : tiger-up", "line 24: 'tiger-up' is none of the states"),
        ("values: reward", "values: money", "'values:' must be cost or reward"),
        ("\nT:listen", "\nstart: 0.5 0.6\nT:listen", "line 8: the start must be a state, uniform, or 2 probabilities"),
        ("\nT:listen", "\nstart: 0.5\nT:listen", "'0.5' is none of the states"),
        ("* -1\n", "* minus\n", "line 23: expected one number"),
        ("0.85 0.15\n0.15 0.85", "1.85 -0.85\n0.15 0.85", "must sum to 1"),
        ("discount: 0.95", "discount: 1.95", "discount"),
        ("states: tiger-left tiger-right\n", "", "no line 'states:'"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused_with_line_and_reason(tmp_path, old, new, said):
    assert old in TIGER
    with pytest.raises((FormatError, OptionError), match=said):
        load(write(tmp_path, TIGER.replace(old, new, 1)), horizon=3)


def test_observe_takes_one_word(tmp_path):
    with pytest.raises(OptionError, match="observe must be one of 'state'"):
        load(write(tmp_path, TIGER), observe="all")
    seen = load(write(tmp_path, TIGER), observe="state", start="tiger-left", horizon=2)
    assert "as if seen" in seen.notes[0]
    assert np.isfinite(seen.losses).all()
