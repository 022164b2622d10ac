"""Nothing public is without a word of documentation."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import monarch.testing
from monarch import hookspecs
from monarch.testing import abilities

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "reference"
HOOKS = [getattr(hookspecs, name) for name in vars(hookspecs) if name.startswith("monarch_")]


def public_modules() -> list[str]:
    """Return the modules that users and plugin authors import: no part of the name is private."""
    found = []
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        parts = path.relative_to(ROOT / "packages").with_suffix("").parts[2:]
        name = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in name) and "wire" not in name:
            found.append(".".join(name))
    return found


def undocumented(module) -> list[str]:
    """Return the public classes, functions and methods of `module` that have no docstring."""
    missing = [] if module.__doc__ else [module.__name__]
    for name in getattr(module, "__all__", ()):
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue
        if not thing.__doc__:
            missing.append(name)
        if inspect.isclass(thing) and thing.__module__.startswith("monarch"):
            missing += [f"{name}.{method}" for method in undocumented_methods(thing)]
    return missing


def undocumented_methods(cls: type) -> list[str]:
    """Return the public methods and properties written in `cls` that neither they nor a base document."""
    kinds = (staticmethod, classmethod, property)
    return [
        name
        for name, member in vars(cls).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, kinds))
        and not inspect.getdoc(getattr(cls, name))
    ]


@pytest.mark.parametrize("name", public_modules())
def test_every_public_name_has_a_docstring(name):
    assert undocumented(importlib.import_module(name)) == []


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_every_hook_is_documented_with_its_arguments(hook):
    heading = f"### {hook.__name__}({', '.join(inspect.signature(hook).parameters)})"
    assert heading in (DOCS / "hooks.md").read_text().splitlines()


def test_the_page_of_hooks_describes_no_hook_that_is_gone():
    lines = (DOCS / "hooks.md").read_text().splitlines()
    documented = {
        line.removeprefix("### ").partition("(")[0] for line in lines if line.startswith("### monarch_")
    }
    assert documented == {hook.__name__ for hook in HOOKS}


def test_the_page_of_the_kit_lists_its_suites_and_their_abilities_and_no_others():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", (DOCS / "testing.md").read_text(), re.MULTILINE)
    known = {**abilities.TRANSPORT, **abilities.LAUNCHER}
    assert {name: meaning for name, meaning in rows if name in known} == known
    settings = {name for name in vars(abilities.Suite) if not name.startswith("_")} - {"known_abilities"}
    assert {name for name, _ in rows} == {*known, *monarch.testing.__all__, *settings}
