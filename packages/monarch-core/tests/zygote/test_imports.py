"""The watch for long imports, which stands before every import of a program."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import pytest

from monarch._zygote import imports


@pytest.fixture
def ended(monkeypatch, tmp_path):
    """The modules whose import was noticed, where every import is a long one."""
    monkeypatch.setattr(imports, "_LONG", 0)
    monkeypatch.syspath_prepend(tmp_path)
    noticed, others = [], [finder for finder in sys.meta_path if not isinstance(finder, imports._Watch)]
    monkeypatch.setattr(sys, "meta_path", [imports._Watch(noticed.extend), *others])
    yield noticed
    for name in [name for name in sys.modules if name.startswith("watched")]:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    def _write(name, text=""):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    return _write


def test_an_import_is_noticed_when_the_module_is_complete(ended, write, monkeypatch):
    write("watched.py", "VALUE = 1")
    seen = []
    monkeypatch.setattr(sys.meta_path[0], "_ended", lambda names: seen.append(sys.modules["watched"].VALUE))
    importlib.import_module("watched")
    assert seen == [1]


def test_imports_within_an_import_are_part_of_it(ended, write):
    write("watched_outer.py", "import watched_inner")
    write("watched_inner.py")
    importlib.import_module("watched_outer")
    assert ended == ["watched_outer"]


def test_a_submodule_is_part_of_its_package(ended, write):
    write("watched_package/__init__.py")
    write("watched_package/part.py")
    importlib.import_module("watched_package.part")
    assert ended == ["watched_package"]


def test_short_imports_add_up(ended, write, monkeypatch):
    seconds = iter([0, 3, 10, 13])
    monkeypatch.setattr(imports, "_LONG", 5)
    monkeypatch.setattr(imports.time, "perf_counter", lambda: next(seconds))
    for name in ("watched_1", "watched_2"):
        write(f"{name}.py")
        importlib.import_module(name)
    assert ended == ["watched_2"]


def test_an_import_that_fails_fails_as_ever_and_is_not_noticed(ended, write):
    write("watched.py", "1 / 0")
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("watched")
    assert ended == []
    assert "watched" not in sys.modules


def test_a_module_that_does_not_exist_is_not_found(ended):
    with pytest.raises(ModuleNotFoundError, match="watched_absent"):
        importlib.import_module("watched_absent")


def test_looking_for_a_module_does_not_change_how_it_is_loaded(ended, write):
    write("watched.py", "VALUE = 1")
    spec = importlib.util.find_spec("watched")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.VALUE == 1
    assert "exec_module" not in vars(spec.loader)


def test_finders_that_ask_all_finders_get_an_answer(ended, write):
    class Asking:
        def find_spec(self, name, path=None, target=None):
            found = [finder.find_spec(name, path) for finder in sys.meta_path if finder is not self]
            return next(filter(None, found), None)

    write("watched.py")
    sys.meta_path.insert(0, Asking())
    importlib.import_module("watched")
    assert ended == ["watched"]


def test_a_loader_without_a_place_for_ours_is_left_alone(ended):
    importlib.reload(importlib.import_module("sys"))
    assert ended == []
