"""Which modules of the program a keeper in its own interpreter imports."""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec

import pytest

from monarch._zygote import clean


@pytest.fixture
def installed_at(monkeypatch, tmp_path):
    """Whether a module that lies at a path below the folder of installed packages counts as installed."""
    folder = tmp_path / "site-packages"
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])

    def _installed_at(name, origin):
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None, origin=origin.format(folder)) if origin else None
        monkeypatch.setitem(sys.modules, name, module)
        return name in clean.installed()

    return _installed_at


@pytest.mark.parametrize(
    ("name", "origin", "counts"),
    [
        pytest.param("thing", "{}/thing/__init__.py", True, id="package"),
        pytest.param("thing", "{}/thing.so", True, id="extension"),
        pytest.param("thing.part", "{}/thing/part.py", True, id="submodule"),
        pytest.param("_thing", "{}/_thing.py", False, id="private"),
        pytest.param("thing", "{}-of-mine/thing.py", False, id="elsewhere"),
        pytest.param("thing", "built-in", False, id="built-in"),
        pytest.param("thing", None, False, id="without-a-place"),
    ],
)
def test_packages_count_and_what_belongs_to_the_program_does_not(installed_at, name, origin, counts):
    assert installed_at(name, origin) == counts


def test_the_main_module_does_not_count():
    assert "__main__" not in clean.installed()
