"""What ``import tailwise`` brings, and does not bring."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tailwise
from tailwise import errors


def test_every_public_name_loads():
    for name in tailwise.__all__:
        assert getattr(tailwise, name) is not None
    assert set(tailwise.__all__) <= set(dir(tailwise))
    with pytest.raises(AttributeError, match="nonsense"):
        tailwise.nonsense  # noqa: B018


def test_type_checkers_see_every_name_as_exported():
    """``X as X``: what strict ones take for exported."""
    (block,) = (
        node
        for node in ast.parse(Path(tailwise.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {alias.name: node.module.removeprefix("tailwise.") for node in block.body for alias in node.names}
    assert seen == tailwise._homes()
    assert all(alias.name == alias.asname for node in block.body for alias in node.names)
    assert set(tailwise.__all__) == {*seen, *tailwise._LAYERS, "__version__"}


def test_import_is_light():
    heavy = ("numba", "scipy", "numpy", "rich", "gymnasium")
    code = f"import sys, tailwise; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


def test_a_plan_of_a_built_in_problem_loads_only_what_it_needs():
    rooms = ("formats.kinds.document", "logs", "exact.endless", "exact.belief_policy", "search.views", "bonuses")
    others = ("numba", *(f"tailwise.{room}" for room in rooms))
    code = (
        "import sys; sys.argv = ['tailwise', 'plan', 'grid-mdp', '--beta', '0.1', '--json']\n"
        "from tailwise.__main__ import main\n"
        "try: main()\n"
        f"finally: print([m for m in {others} if m in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "[]"
    assert '"action"' in found.stdout


def test_missing_extras_are_named():
    with pytest.raises(errors.MissingExtraError, match=r"tailwise\[gym\]") as caught:
        errors.require("no_such_module_at_all", "gym", "the environment 'X'")
    assert isinstance(caught.value, ImportError)


def test_the_error_tree_subclasses_builtins():
    for name, builtin in (
        ("ModelError", ValueError), ("OptionError", ValueError), ("StateError", LookupError),
        ("SimulatorError", RuntimeError), ("UnknownNameError", LookupError), ("FormatError", ValueError),
        ("ConditionError", ValueError), ("RunError", RuntimeError),
    ):  # fmt: skip
        assert issubclass(getattr(errors, name), (errors.TailwiseError,))
        assert issubclass(getattr(errors, name), builtin)
