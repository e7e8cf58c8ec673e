"""``--ray``: what the commands do beside the work, without a cluster."""

import json

import pytest
from typer.testing import CliRunner

from tailwise import scale
from tailwise.cli.app import app
from tailwise.errors import OptionError


def run(*words):
    return CliRunner().invoke(app, [*words], catch_exceptions=False)


def test_what_ray_prints_is_not_on_standard_output(monkeypatch):
    def noisy(search, iterations, seconds, *, trees, address, workers, until, progress):
        print("(raylet) A worker died")
        assert (trees, address, workers) == (3, "head:6379", 5)
        return search.plan(iterations, threads=trees)

    monkeypatch.setattr(scale, "plan", noisy)
    words = ["plan", "mdp-4", "--beta", "0.5", "-n", "60", "--threads", "3", "--ray", "head:6379", "--workers", "5"]
    done = run(*words, "--json")
    assert json.loads(done.stdout)["trees"] == 3
    assert "raylet" not in done.stdout
    assert "raylet" in done.stderr


def test_what_does_not_go_together_is_said(tmp_path):
    with pytest.raises(OptionError, match="give --ray"):
        run("evaluate", "mdp-4", "--beta", "0.5", "--workers", "2")
    with pytest.raises(OptionError, match="leave one of them out"):
        run("plan", "mdp-4", "--beta", "0.5", "--ray", "local", "--checkpoint", str(tmp_path / "x"))
