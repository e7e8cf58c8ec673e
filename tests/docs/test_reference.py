"""The reference pages hold everything: each exported name on the API page, each command on its own."""

import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import tailwise
from tailwise.cli import app

ROOT = Path(__file__).resolve().parents[2]


def loaded(hook):
    """Return a hook of the documentation's build as a module."""
    spec = importlib.util.spec_from_file_location(hook, ROOT / "docs" / "hooks" / f"{hook}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(page, hook):
    """Return the page's text as the hook fills it when the documentation is built."""
    module = loaded(hook)
    text = module.on_page_markdown((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert module.MARK not in text
    return text


@pytest.mark.parametrize("layer", tailwise._LAYERS)
def test_the_page_of_a_layer_shows_every_exported_name(layer):
    """A layer's line shows the documented members of ``__all__``, but those that a submodule of the same name hides."""
    page = loaded("api_page").reference(layer)
    assert f"::: tailwise.{layer}\n" in f"{page}\n"
    assert f"({layer}.md): " in built("api/index.md", "api_page")
    assert f": api/{layer}.md\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    module = importlib.import_module(f"tailwise.{layer}")
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.ismodule(value):
            assert f"::: tailwise.{layer}.{name}\n" in f"{page}\n"
            continue
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            assert f"`{name}`" in page
            continue
        assert value.__doc__, f"tailwise.{layer}.{name} has no docstring"
        if importlib.util.find_spec(f"tailwise.{layer}.{name}") is not None:
            assert f"::: tailwise.{layer}.{name}.{name}\n" in f"{page}\n"


def test_roles_of_docstrings_are_not_shown():
    shown = loaded("api_page").on_page_content
    assert shown("by :meth:<code>Objective.within</code>.") == "by <code>Objective.within</code>."
    assert shown(":class:<code>~tailwise.risk.ERM</code>") == "<code>ERM</code>"


def test_the_short_names_are_exported_by_their_layers():
    """What ``tailwise`` re-exports is on the API page under its layer."""
    for name, layer in tailwise._homes().items():
        assert name in importlib.import_module(f"tailwise.{layer}").__all__


def test_the_command_line_page_has_every_command_with_two_examples():
    hook = loaded("command_line")
    hook.run = lambda line: []  # the build runs them
    page = hook.reference()
    for command in app._COMMANDS:
        assert f"## `tailwise {command}" in page
        examples = [line for line in page.splitlines() if re.match(rf"\$ .*tailwise {command}\b(?! \[)", line)]
        assert len(examples) >= 2
    assert "--beta" in page


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in navigation, f"{page.name} is not in the navigation of mkdocs.yml"
