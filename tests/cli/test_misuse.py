"""Misuses of every command: each ends in one message before the work begins, and never in a traceback."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailwise import domains, load_plan, save
from tailwise.cli.app import app
from tailwise.errors import TailwiseError
from tailwise.search import anytime_search

LINES = """
plan nope --beta 1
plan mdp-4
plan mdp-4 --beta nan
plan mdp-4 --beta 1 --cvar 0.5
plan mdp-4 --cvar 2
plan mdp-4 --within 3
plan mdp-4 --exceed 1 --within 2
plan mdp-4 --beta 1 --planner os:path
plan mdp-4 --beta 1 -n 1.5
plan mdp-4 --beta 1 -t nan -p uct
plan mdp-4 --beta 1 --until gap:x
plan mdp-4 --beta 1 --threads 0 -p uct
plan mdp-4 --beta 1 --state nowhere
plan mdp-4 --beta 1 --step 99
plan mdp-4 --beta 1 --horizon 1e30
plan mdp-4 --beta 1 --report dir
plan mdp-4 --beta 1 --save no/x
plan mdp-4 --beta 1 --checkpoint dir -p uct
plan mdp-4 --beta 1 --checkpoint bad.csv -p uct
plan mdp-4 --beta 1 --max-memory 1
plan mdp-4 --beta 1 --workers 3
plan mdp-4 --beta 1 --bonus nan -p uct
plan mdp-4 --beta 1 --step-name ""
plan bad.csv --beta 1
plan empty.csv --beta 1
plan bin.npz --beta 1
plan dir --beta 1
plan https://x.y/z.csv --beta 1
plan "mdp-4?x=1" --beta 1
solve mdp-4 --beta 1 --policy x.foo
solve mdp-4 --cvar 0.5 --step 3
solve mdp-4 --beta 1 --criterion nope
solve mdp-4 --beta 1 --criterion average
solve rock-sample --cvar 0.9
evaluate mdp-4 --beta 1 -e 0
evaluate mdp-4 --beta 1 --resamples 3
evaluate mdp-4 --beta 1 --returns dir
evaluate mdp-4 --beta 1 --bonus 3
compare mdp-4 --beta 1 -e 0
compare mdp-4 --beta 1 -n 1,,2
plan mdp-4 --beta 1 -p mine:NoPlan
plan mdp-4 --beta 1 -p mine:Fails
plan mdp-4 --cvar 0.9 -p uct
plan mdp-4 --beta 1 --until stable:1.5 -p uct
plan mdp-4 --beta 1 --save x.html --report x.html
plan mdp-4 --beta 1 --report x.txt
plan "mdp-4?horizon=3&horizon=4" --beta 1
plan model.py --beta 1
solve mdp-4 --beta 1 -e 5
solve mdp-4 --beta 1 --seed 3
frontier mdp-4 --exceed nan
beta --state s1 --disaster 3
evaluate mdp-4 --beta 1 --ray local --threads 2
evaluate mdp-4 --beta 1 --resamples 1000000000
compare mdp-4 --beta 1 -p exact --bonus 3
bandit figures --out bad.csv/new
bandit run stationary --beta 1 -n 1e15
bandit run stationary --beta 1 -r 1000000000 -n 1e6
bandit run stationary --beta 1 -a ucb1 --constant 3
bandit figures --out bad.csv
whatif mdp-4 --beta 1 --set cost=3 --spread 0.5
run twice.toml
run study.toml --processes 100000
compare mdp-4 --beta 1 -p exact,auto
compare mdp-4 --beta 1 -p exact -p uct
plan mdp-4 --beta 1 --beta 2
bandit run stationary --beta 1 --seed 1 --seed=1
domains --json --json
compare mdp-4 --cvar 0.5 -p erm-mcts
compare mdp-4 --cvar 0.5 --integrate
frontier mdp-4 --report no/x.html
frontier mdp-4 --horizon 0
beta nope
run nope.toml
run bad.csv
run dir
whatif mdp-4 --beta 1
whatif mdp-4 --beta 1 --set "cost[zz]=1"
whatif mdp-4 --beta 1 --set "p[s0,risky,s3]=2"
whatif mdp-4 --beta 1 --set "__import__('os')=1"
whatif mdp-4 --beta 1 --scenarios bin.npz
whatif mdp-4 --beta 1 --vary "cost[s1]" --spread 2
explore mdp-4 --beta 1 --port -1
serve mdp-4 --beta 1 -n 0
learn nope.csv --out x.npz
learn bad.csv --out x.npz
learn bad.csv --out no/x.npz
learn bad.csv --out x.foo
info bin.npz
convert mdp-4 no/x.csv
convert mdp-4 x.foo
convert mdp-4 dir
planners nope
reproduce mdp-4 --out x --seeds 1
theory schedule --horizon 3 --beta 1 --eta 2
nope
""".strip().splitlines()


@pytest.mark.parametrize("line", LINES)
def test_a_misuse_is_one_message_before_the_work(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(anytime_search, "run_anytime", lambda *_, **__: pytest.fail("work was begun"))
    (tmp_path / "dir").mkdir()
    (tmp_path / "bad.csv").write_text("x,y\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "bin.npz").write_bytes(b"\0\1\2")
    (tmp_path / "mine.py").write_text("class NoPlan:\n    pass\n\ndef Fails(*_, **__):\n    raise KeyError(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    study = "models = 'mdp-4'\nplanners = 'uct'\nobjectives = {beta = 1.0}\niterations = 9\nseeds = "
    (tmp_path / "study.toml").write_text(study + "2")
    (tmp_path / "twice.toml").write_text(study + "[3, 3]")
    before = sorted(tmp_path.iterdir())
    found = CliRunner().invoke(app, shlex.split(line))
    assert isinstance(found.exception, TailwiseError) or found.exit_code == 2, found.output
    assert str(found.exception)
    assert sorted(tmp_path.iterdir()) == before


def test_a_negative_number_of_episodes_is_no_unknown_option():
    found = CliRunner().invoke(app, ["evaluate", "mdp-4", "--beta", "1", "--episodes", "-3"])
    assert "--episodes must be from 1 to" in str(found.exception)


@pytest.mark.parametrize(
    "line",
    [
        'learn "npz:m.npz" --out ./m.npz --force',
        "learn log.csv --prior m.npz --out ./m.npz --force",
        "plan m.npz --beta 1 --save m.npz",
        'plan "m.npz?horizon=2" --beta 1 --save m.npz',
        "plan mdp-4 --beta 1 --save x.html --report x.html",
    ],
)
def test_one_file_for_two_things_is_refused(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = save(domains.make("mdp-4"), "m.npz").read_bytes()
    found = CliRunner().invoke(app, shlex.split(line))
    assert found.exit_code == 2
    assert "name one file" in found.output
    assert Path("m.npz").read_bytes() == before


def test_a_domain_and_a_file_may_have_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, shlex.split("plan mdp-4 --beta 1 --save mdp-4")).exit_code == 0
    assert load_plan("mdp-4").label


def test_a_file_that_hides_a_domain_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mdp-4").write_text("x")
    found = CliRunner().invoke(app, shlex.split("plan mdp-4 --beta 1"))
    assert isinstance(found.exception, TailwiseError)
    assert "write domain:mdp-4 for it" in str(found.exception)
    assert CliRunner().invoke(app, shlex.split("plan domain:mdp-4 --beta 1")).exit_code == 0


@pytest.mark.parametrize("command", ["plan", "evaluate -e 2", "evaluate -e 2 -p exact"])
@pytest.mark.parametrize("limits", ["", "--iterations 1e30", "--seconds 9 --iterations 5"])
def test_limits_that_an_exact_plan_has_no_use_for_are_named(command, limits):
    found = CliRunner().invoke(app, shlex.split(f"{command} mdp-4 --beta 1 {limits}"))
    assert found.exit_code == 0
    named = [option for option in ("--iterations", "--seconds") if option in limits]
    assert ("has no use for " + " or ".join(named) in found.output) == bool(limits)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("learn log.csv --out m.npz --prior wrost", "is none of auto, pooled, worst, seen, and no model"),
        ("plan learned:nope --beta 1", "nope: there is no such file"),
        ("plan nowhere.csv", "nowhere.csv: there is no such file"),
        ("evaluate nope", "no domain is called 'nope'"),
        ("whatif nowhere.csv", "nowhere.csv: there is no such file"),
        ("plan log.csv --log", "--beta is missing"),
    ],
)
def test_a_name_that_is_none_is_told_from_a_file(line, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("episode,step,state,action,cost\n0,0,a,x,1\n0,1,b,x,1\n1,0,a,x,1\n1,1,b,x,2\n")
    found = CliRunner().invoke(app, shlex.split(line))
    assert message in str(found.exception)
