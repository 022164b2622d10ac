"""The proof that a process may be forked, on which every forked process depends."""

from __future__ import annotations

import os
import sys
import threading
import types
from pathlib import Path

import pytest

from monarch._zygote import trial


@pytest.fixture
def alone(monkeypatch):
    """Make this process look as if it had one thread."""
    monkeypatch.setattr(trial.sys, "_current_frames", lambda: {1: None})


@pytest.fixture
def tried(monkeypatch):
    """Return the outcome of a trial in which the child does the given work."""
    monkeypatch.setattr(trial, "obstacle", str)
    monkeypatch.setitem(sys.modules, "numpy", types.ModuleType("numpy"))

    def _tried(work):
        monkeypatch.setattr(trial, "_work_in_parallel", work)
        return trial.failure()

    return _tried


def test_a_process_with_one_thread_may_be_forked(alone):
    assert trial.obstacle() == ""


def test_a_process_with_several_threads_may_not():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    assert trial.obstacle() == "there are several threads"
    stop.set()
    thread.join()


def test_a_process_with_an_initialised_accelerator_may_not(alone, monkeypatch):
    backend = types.SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "torch.cuda", backend)
    assert trial.obstacle() == "torch.cuda is initialised"


def test_a_process_with_threads_of_grpc_may_not(alone, monkeypatch):
    monkeypatch.setattr(trial, "_THREADS", (Path("/proc/self/comm").read_text().strip(),))
    assert trial.obstacle() == "there are threads of gRPC"


def test_work_that_ends_proves_that_forks_work(tried):
    assert tried(lambda: None) == ""


def test_work_that_hangs_proves_that_they_do_not(tried, monkeypatch):
    monkeypatch.setattr(trial, "_SECONDS", 0.05)
    assert tried(threading.Event().wait) == "a parallel operation in a forked process did not end in 0.05 s"


@pytest.mark.parametrize("end", [lambda: 1 / 0, lambda: os.kill(os.getpid(), 9)], ids=["raises", "dies"])
def test_work_that_fails_proves_that_they_do_not(tried, end):
    assert tried(end) == "a parallel operation in a forked process failed"


def test_nothing_has_to_be_proved_where_nothing_works_in_parallel(monkeypatch):
    monkeypatch.setattr(trial, "obstacle", str)
    for name in ("torch", "numpy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(trial.linux, "fork", lambda: pytest.fail("it forked"))
    assert trial.failure() == ""
