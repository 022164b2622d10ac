"""Looks behind a backend, at what the kernel says, so that it cannot be its own witness."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

_T = TypeVar("_T")


def settles(look: Callable[[], _T], wanted: _T, seconds: float) -> _T:
    """Return what `look` sees as soon as it is `wanted`, or else what it sees when the time is over."""
    deadline = time.monotonic() + seconds
    while (seen := look()) != wanted and time.monotonic() < deadline:
        time.sleep(0.002)
    return seen


def promptly(call: Callable[[], _T], seconds: float, what: str) -> _T:
    """Return what `call` returns; the test fails if it blocks for so long."""
    outcome: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # raised again on the thread of the test
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        pytest.fail(f"{what} blocks")
    if errors:
        raise errors[0]
    return outcome[0]


def descriptors(pid: int | None = None) -> set[int]:
    """Return the open descriptors of a process, this one if none is named."""
    if pid is None:
        gc.collect()
    folder = Path(f"/proc/{pid or 'self'}/fd")
    return {int(path.name) for path in folder.iterdir() if path.is_symlink()}


def open_files() -> set[tuple[int, str]]:
    """Return the open descriptors of this process, each with what it refers to."""
    found = set()
    for number in descriptors():
        with contextlib.suppress(FileNotFoundError):
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


def resident_bytes() -> int:
    """Return how much memory this process has, mappings included."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def words_of(pid: int, file: str) -> list[str]:
    """Return the zero-terminated words of a file of a process: `cmdline` or `environ`."""
    return Path(f"/proc/{pid}/{file}").read_text().split("\0")[:-1]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def environment_for_children() -> dict[str, str]:
    """Return an environment in which a child process imports what this process can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
