"""No module needs itself: not through others, not inside a function, not for types alone."""

import ast
import graphlib
from pathlib import Path

import tailwise

ROOT = Path(tailwise.__file__).parent


def modules():
    for path in ROOT.rglob("*.py"):
        name = ".".join(("tailwise", *path.relative_to(ROOT).with_suffix("").parts))
        yield name.removesuffix(".__init__"), ast.parse(path.read_text())


def needed(tree, known):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def circle(trees):
    graph = {name: (set(needed(tree, trees)) & trees.keys()) - {name} for name, tree in trees.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def test_there_is_no_circle_of_imports():
    trees = dict(modules())
    assert len(trees) > 100
    trees["tailwise"] = ast.parse("")  # it names the public API for type checkers, and imports at first use
    assert circle(trees) == []


def test_a_circle_would_be_found():
    late = "def f():\n    from one.two import three"
    assert circle({"one.two": ast.parse("import other"), "other": ast.parse(late)})
