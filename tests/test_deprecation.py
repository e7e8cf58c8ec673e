"""Old names warn at the user's line, and go when they said they would."""

import ast
import re
from pathlib import Path

import pytest

import tailwise
from tailwise._lazy import warn_deprecated


def _old_name() -> int:
    warn_deprecated("_old_name", instead="_new_name", since="0.1", removed_in="0.2")
    return 7


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def _overdue(source: str, version: str) -> list[str]:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "warn_deprecated"]
    said = [{word.arg: ast.literal_eval(word.value) for word in call.keywords} for call in named]
    return [words["removed_in"] for words in said if _version(words["removed_in"]) <= _version(version)]


def test_the_warning_names_the_way_out_at_the_line_of_the_caller():
    with pytest.warns(DeprecationWarning, match=r"since tailwise 0\.1 and goes with 0\.2; use _new_name") as caught:
        assert _old_name() == 7
    assert Path(caught[0].filename) == Path(__file__)
    assert "_old_name() == 7" in Path(__file__).read_text(encoding="utf-8").splitlines()[caught[0].lineno - 1]


def test_no_old_name_outlives_its_version():
    here = Path(__file__).read_text(encoding="utf-8")
    assert _overdue(here, "0.1.9") == []
    assert _overdue(here, "0.2.0") == ["0.2"]
    for path in Path(tailwise.__file__).parent.rglob("*.py"):
        assert _overdue(path.read_text(encoding="utf-8"), tailwise.__version__) == [], path
