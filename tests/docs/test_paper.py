"""The draft of the paper has no number that its script does not compute."""

import importlib.util
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "paper"
TEXT = (FOLDER / "paper.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def numbers():
    spec = importlib.util.spec_from_file_location("paper_numbers", FOLDER / "paper_numbers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_number_is_what_the_script_computes(numbers):
    computed = numbers.compute()
    for name, said in numbers.MARK.findall(TEXT):
        assert said == computed[name], name


def test_no_number_stands_unmarked(numbers):
    body = TEXT.split("---\n", 2)[2]
    rest = re.sub(r"@[a-z]+\d*", "", numbers.MARK.sub("", body))
    assert re.findall(r"\d+", rest) == []


def test_every_source_is_in_the_bibliography():
    entries = re.findall(r"^@\w+\{(\w+),", (FOLDER / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"@([a-z]+\d*)", TEXT)) == set(entries)
