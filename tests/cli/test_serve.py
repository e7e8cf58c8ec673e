"""``tailwise serve``: a line of JSON for a line of JSON, whatever comes in."""

import io
import json

import pytest
from typer.testing import CliRunner

from tailwise import Simulator, domains
from tailwise.cli.app import app
from tailwise.cli.serve import Served, answer_all
from tailwise.errors import OptionError
from tailwise.planners import make_planner

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # uint64, interpreted


def answers(lines, *options, model="mdp-4"):
    """Serve some lines, and return what came back."""
    text = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines) + b"\n"
    found = CliRunner().invoke(app, ["serve", model, "--beta", "0.5", *options], input=text, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_an_episode_by_labels_and_by_ids():
    mdp = domains.make("mdp-4", horizon=7)
    expected = make_planner(mdp, 0.5).plan()
    first, moved, second, back, info = answers(
        [
            {"id": 1, "op": "plan"},
            {"id": "two", "op": "advance", "action": "safe", "state": "s1"},
            {"id": 3, "op": "plan", "iterations": 50},
            {"id": 4, "op": "reset", "state": 2, "step": 5},
            {"id": 5, "op": "info"},
        ],
        "--horizon",
        "7",
    )
    assert first["id"] == 1
    assert (first["result"]["label"], first["result"]["action"]) == ("safe", expected.action)
    assert first["result"]["value"] == expected.value
    assert first["result"]["state_label"] == "s0"
    assert moved == {"id": "two", "result": {"step": 1, "state": 1, "state_label": "s1"}}
    assert second["result"]["step"] == 1
    assert back["result"] == {"step": 5, "state": 2, "state_label": "s2"}
    assert info["result"]["horizon"] == mdp.horizon


def test_searches_go_on_from_what_they_know():
    request = {"op": "plan", "iterations": 40}
    options = ("--planner", "uct", "--seed", "3")
    one, two, _ = answers([request, request, {"op": "quit"}, {"op": "plan"}], *options)  # nothing after "quit"
    search = make_planner(domains.make("mdp-4"), 0.5, kind="uct", seed=3)
    plans = [search.plan(iterations=40), search.plan(iterations=40)]
    assert [row["visits"] for row in two["result"]["rows"]] == [row.visits for row in plans[1].rows]
    assert one["result"]["value"] == plans[0].value


WRONG = {
    b"{": "no JSON",
    b"\xff\xfe": "no JSON",
    b"[1]": "a JSON object such as",
    b"[" * 100_000: "nested at most",
    b'{"op": ' + b"[" * 40 + b"]" * 40 + b"}": "nested at most",
    b'{"id": [], "op": "plan"}': "id must be",
    b'{"op": "plan", "seconds": NaN}': "NaN is no number",
    b'{"op": "plan", "seconds": 1e999}': "seconds must be",
    b'{"op": "plan", "iterations": "ten"}': "iterations must be",
    b'{"op": "plan", "iterations": -1}': "iterations must be at least 1",
    b'{"op": "plan", "treads": 2}': "does not know 'treads'",
    b'{"op": "fly"}': "must be one of plan",
    b'{"op": ["plan"]}': "must be one of plan",
    b"{}": "must be one of plan",
    b'{"op": "advance", "action": "safe"}': "advance needs the action",
    b'{"op": "advance", "action": "fly", "state": "s1"}': "fly",
    b'{"op": "advance", "action": "safe", "state": "nowhere"}': "nowhere",
    b'{"op": "advance", "action": {"a": 1}, "state": 1}': "not allowed",
    b'{"op": "advance", "action": 0, "state": {"a": 1}}': "state",
    b'{"op": "advance", "action": 0, "state": 1.5}': "state",
    b'{"op": "reset", "state": 99}': "99",
    b'{"op": "reset", "step": 1000}': "step must be",
    b'{"op": "reset", "step": null}': "step must be",
    b'{"id": 7, "op": "' + b"x" * 3_000_000 + b'"}': "at most 1,048,576 bytes",
}


def test_errors_are_answers_and_never_the_end():
    found = answers([*WRONG, b"", {"id": 9, "op": "info"}])
    assert len(found) == len(WRONG) + 1
    for line, one, said in zip(WRONG, found, WRONG.values(), strict=False):
        assert said in one["error"]["message"], line[:60]
        assert one["error"]["type"] != "InternalError", one
    assert found[-1]["result"]["step"] == 0


class Walk(Simulator):
    """Prints, and fails beyond 2."""

    horizon, start = 5, (0, 0)

    def actions(self, state):
        print("a word on standard output")
        return ["left", "right"]

    def step(self, state, action, rng):
        if state[0] > 2:
            raise RuntimeError("fell off")
        return (state[0] + 1, 0), 1.0, False


def test_states_that_are_tuples_and_models_that_fail():
    requests = [
        {"op": "advance", "action": "left", "state": [2, 0]},
        {"op": "plan", "iterations": 5},
        {"op": "reset", "state": [0, 0], "step": 4},
        {"op": "plan"},
    ]
    lines, out = io.BytesIO(b"\n".join(json.dumps(one).encode() for one in requests)), io.StringIO()
    search = make_planner(Walk(), 0.5, kind="uct", seed=0)
    answer_all(Served(Walk(), search, {"iterations": 5}, {}), lines, out)
    moved, failed, again, plan = map(json.loads, out.getvalue().splitlines())
    assert moved["result"]["state"] == [2, 0]
    assert "fell off" in failed["error"]["message"]
    assert again["result"]["step"] == 4
    assert plan["result"]["iterations"] == 5


def test_what_cannot_be_served_is_said_at_once():
    with pytest.raises(OptionError, match="seconds must be"):
        CliRunner().invoke(app, ["serve", "gym:no-such", "--beta", "1", "--seconds", "0"], catch_exceptions=False)
