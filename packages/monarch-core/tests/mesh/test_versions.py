"""Processes that have another version than the program that spawns them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

import monarch
from monarch.__about__ import __version__
from monarch._runtime.greeting import greeting, refusal
from monarch.actor import Actor, default_bootstrap_cmd, endpoint
from monarch.errors import SupervisionError

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Hello(Actor):
    @endpoint
    def version(self):
        from monarch.__about__ import __version__

        return __version__


@pytest.fixture
def with_version(tmp_path):
    """The command that starts a process with a copy of this package that claims another version."""

    def _with_version(version):
        source = Path(monarch.__file__).parent
        copy = tmp_path / "monarch"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / "__about__.py").write_text(f'__version__ = "{version}"\n')
        path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        return default_bootstrap_cmd().with_env({"PYTHONPATH": path})

    return _with_version


def patch_release(version):
    major, minor, *_ = version.split(".")
    return f"{major}.{minor}.999"


def test_another_version_is_refused_with_both_versions(crew, with_version):
    mesh = crew(bootstrap_command=with_version("99.1.0"))
    for future in (mesh.initialized, mesh.spawn("hello", Hello).version.call_one()):
        with pytest.raises(SupervisionError) as caught:
            future.get(20)
        assert "monarch-core 99.1.0" in str(caught.value)
        assert f"monarch-core {__version__}" in str(caught.value)


def test_the_refusal_says_what_to_install(crew, with_version):
    with pytest.raises(SupervisionError, match="install the same version of monarch-core on both sides"):
        crew(bootstrap_command=with_version("99.1.0")).initialized.get(20)


def test_the_refusal_comes_in_seconds(crew, with_version):
    command = with_version("99.1.0")
    start = time.monotonic()
    assert crew(bootstrap_command=command).initialized.exception(60) is not None
    assert time.monotonic() - start < 10


def test_a_refused_process_ends(crew, with_version, failures, alive, until):
    mesh = crew(bootstrap_command=with_version("99.1.0"))
    mesh.initialized.exception(20)
    until(lambda: failures)
    assert not alive(failures[0].pid)


def test_a_patch_release_works_with_its_minor_version(crew, with_version):
    version = patch_release(__version__)
    assert (
        crew(bootstrap_command=with_version(version)).spawn("hello", Hello).version.call_one().get(20)
        == version
    )


def hello_of(version, python):
    hello = greeting("ipc:///nowhere")
    hello.version, hello.python = version, python
    return hello


@pytest.mark.parametrize(
    ("version", "python", "remedy"),
    [
        pytest.param(__version__, PYTHON, "", id="equal"),
        pytest.param(patch_release(__version__), PYTHON, "", id="patch"),
        pytest.param("99.1.0", PYTHON, "same version of monarch-core", id="core"),
        pytest.param(__version__, "3.9", "same minor version of Python", id="python"),
    ],
)
def test_what_differs_is_what_is_to_be_made_equal(version, python, remedy):
    reason = refusal(hello_of(version, python))
    assert remedy in reason
    assert bool(reason) == bool(remedy)


def test_another_python_is_refused_with_both_versions():
    reason = refusal(hello_of(__version__, "3.9"))
    assert f"on Python {PYTHON}" in reason
    assert "on Python 3.9" in reason
