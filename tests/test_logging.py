"""What the logger "tailwise" is told."""

import logging
import subprocess
import sys

import tailwise
from tailwise import ErmMcts, domains


def test_files_and_checkpoints_are_told(tmp_path, caplog):
    mdp = domains.make("mdp-4")
    with caplog.at_level(logging.INFO, "tailwise"):
        tailwise.save(mdp, tmp_path / "model.npz")
        tailwise.load(tmp_path / "model.npz")
        ErmMcts(mdp, 0.5, seed=0).plan(iterations=10, checkpoint=tmp_path / "search.tailwise")
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith(f"read {tmp_path / 'model.npz'} as npz in") for line in said)
    assert f"wrote {tmp_path / 'search.tailwise'}" in said
    assert all(record.name.startswith("tailwise.") for record in caplog.records)


def test_nobody_hears_who_did_not_ask():
    code = "import tailwise, logging; logging.getLogger('tailwise.x').warning('unheard')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout + found.stderr == ""
