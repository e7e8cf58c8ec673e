"""The map of the house is true: rooms, files, and what the ways through it really run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tailwise

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = Path(tailwise.__file__).parent

WALK = """
import json, sys
import tailwise
from tailwise import CVaR, GymnasiumSimulator, Simulator, domains, load, make_planner, solve

class Walk(Simulator):
    start, horizon, discount, sense = 5, 10, 1.0, "cost"
    def actions(self, state):
        return [0, 1]
    def step(self, state, action, rng):
        return min(9, max(0, state + int(rng.integers(0, 3)) - action - 1)), 0.5 * state + 2.0 * action, False

def table():
    return str(make_planner(domains.make("grid-mdp"), 0.1).plan())
def simulator():
    return str(make_planner(Walk(), 0.1, seed=0).plan(iterations=200))
def gymnasium():
    return str(make_planner(GymnasiumSimulator("CartPole-v1", horizon=6), 0.1, seed=0).plan(iterations=10))
def file():
    rows = ("0,0,0,.5,1", "0,0,1,.5,2", "0,1,1,1,1.2", "1,0,0,1,0")
    open("m.csv", "w").write("\\n".join(("idstatefrom,idaction,idstateto,probability,reward", *rows)))
    return str(solve(load("m.csv", horizon=5, discount=0.9), CVaR(0.9)))
def report():
    make_planner(domains.make("grid-mdp"), 0.1).plan().report("r.html")

seen = set()
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(sys.argv[2]):
        seen.add(code.co_filename[len(sys.argv[2]) + 1:])
way = globals()[sys.argv[1]]
sys.setprofile(note)
way()
sys.setprofile(None)
print(json.dumps(sorted(seen)))
"""


def files_of(way):
    """Return the files that the page names on a way."""
    text = PAGE.split(f"<!-- way: {way} -->")[1].split("\n#")[0]
    return re.findall(r"`([\w/]+\.py)`", text)


def test_every_room_is_on_the_page_and_every_file_that_it_names_exists():
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    listed = set(re.findall(r"`(\w+)`", PAGE.split("## Rooms")[1].split("## Ways")[0]))
    assert rooms - listed == set()
    for name in re.findall(r"`([\w/]+\.py)`", PAGE):
        assert (SOURCE / name).is_file(), name


@pytest.mark.parametrize("way", ["table", "simulator", "gymnasium", "file", "report"])
def test_a_way_runs_through_the_files_that_are_named(way, tmp_path):
    named = files_of(way)
    assert 0 < len(named) <= 15
    if way == "gymnasium":
        pytest.importorskip("gymnasium")
    interpreted = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(SOURCE.parent)}
    command = [sys.executable, "-W", "ignore", "-c", WALK, way, str(SOURCE)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=interpreted)
    assert done.returncode == 0, done.stderr
    ran = done.stdout
    missed = [name for name in named if f'"{name}"' not in ran]
    assert missed == []
