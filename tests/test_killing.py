"""SIGKILL at random moments: runs and checkpointed searches go on, and end in the bytes of one never disturbed."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(sys.platform == "win32", reason="it forks"),
]


def kill(work, times, folder):
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, str(script), work, str(times), str(folder)], capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    words = done.stdout.split()
    assert int(words[0]) >= times
    assert int(words[2]) >= 1


@pytest.mark.parametrize("work", ["run", "search", "simulator"])
def test_eight_kills(work, tmp_path):
    kill(work, 8, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("work", ["run", "report", "search", "simulator"])
def test_fifty_kills(work, tmp_path):
    kill(work, 50, tmp_path)
