"""The reference pages hold everything: each exported name on the API page, each command on its own."""

import importlib
import importlib.util
import inspect
from pathlib import Path

import pytest

import tailwise

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("layer", tailwise._LAYERS)
def test_the_api_page_shows_every_exported_name(layer):
    """mkdocstrings shows the documented classes and functions in ``__all__`` by itself, but for two kinds.

    Those named like the submodule that they come from need a line of their own, and constants a word in the text.
    """
    module = importlib.import_module(f"tailwise.{layer}")
    assert f"::: tailwise.{layer}\n" in PAGE, f"docs/api.md needs a line '::: tailwise.{layer}'"
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            assert f"`tailwise.{layer}.{name}`" in PAGE, f"docs/api.md should say what `tailwise.{layer}.{name}` is"
            continue
        assert value.__doc__, f"tailwise.{layer}.{name} has no docstring"
        if importlib.util.find_spec(f"tailwise.{layer}.{name}") is not None:
            line = f"::: tailwise.{layer}.{name}.{name}\n"
            assert line in PAGE, f"docs/api.md needs the line '{line.strip()}', since a module has the same name"


def test_the_short_names_are_exported_by_their_layers():
    """What ``tailwise`` re-exports is on the API page under its layer."""
    for name, layer in tailwise._HOMES.items():
        assert name in importlib.import_module(f"tailwise.{layer}").__all__


def test_the_command_line_page_has_every_command():
    source = ROOT / "docs" / "hooks" / "command_line.py"
    spec = importlib.util.spec_from_file_location("command_line", source)
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = hook.on_page_markdown((ROOT / "docs" / "command-line.md").read_text(encoding="utf-8"))
    from tailwise.cli import app

    assert hook.MARK not in page
    for command in app._COMMANDS:
        assert f"## `tailwise {command}" in page
    assert "--beta" in page


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in navigation, f"{page.name} is not in the navigation of mkdocs.yml"
