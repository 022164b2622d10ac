"""What the tests of the core share: a way to wait, processes to run on, and an ear for failures."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import monarch.actor
from monarch.actor import MeshFailure, ProcMesh, this_host

_heard: list[MeshFailure] = []


@pytest.fixture(scope="session")
def until() -> Callable[..., Any]:
    """Wait for a condition and return what it returned; a failure after so many seconds."""

    def _until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, f"not within {seconds} s"
            time.sleep(0.002)
        return found

    return _until


@pytest.fixture(scope="module")
def procs() -> Iterator[ProcMesh]:
    """Three processes, for all tests of a module."""
    mesh = this_host().spawn_procs({"gpus": 3})
    yield mesh
    mesh.stop().get(timeout=30)


@pytest.fixture
def script(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program of its own, as a user would, and return how it ended."""

    def run(text: str, *, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "program.py"
        path.write_text(text)
        return subprocess.run(
            [sys.executable, path],
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def _hook() -> Iterator[None]:
    before = monarch.actor.unhandled_fault_hook
    monarch.actor.unhandled_fault_hook = _heard.append
    yield
    monarch.actor.unhandled_fault_hook = before


@pytest.fixture
def failures(_hook: None, until) -> Iterator[list[MeshFailure]]:
    """The failures that no actor handled. A test that expects one takes it out; others are none."""
    _heard.clear()
    yield _heard
    until(lambda: not any(thread.name == "monarch-fault-hook" for thread in threading.enumerate()))
    assert _heard == []
