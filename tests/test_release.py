"""The files that describe the package say the same."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("release_check", ROOT / "tools" / "release_check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_versions_and_requirements_agree(check):
    assert check.metadata_faults() == []


def test_what_disagrees_is_found(check, monkeypatch):
    monkeypatch.setattr(check, "version", lambda: "9.9.9")
    assert len(check.metadata_faults()) == len(check.COPIES)


def test_every_extra_for_users_is_tried_alone(check):
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(check.EXTRAS) == set(extras) - {"all", "docs", "test", "dev", "release", "peers"}
    (everything,) = extras["all"]
    assert set(check.EXTRAS) == set(everything.partition("[")[2].rstrip("]").split(","))
