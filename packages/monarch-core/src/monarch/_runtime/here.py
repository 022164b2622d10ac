"""The runtime of this operating system process: there is one, and it starts when first needed."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monarch._runtime.process import Process

_process: Process | None = None
_inherited: list[Process] = []
_lock = threading.RLock()


def get() -> Process:
    """Return the runtime, started as a client if this process is no actor process."""
    return _process if _process is not None else _start_client()


def running() -> Process | None:
    """Return the runtime if it has started."""
    return _process


def put(process: Process | None) -> None:
    """Make `process` the runtime of this process, or forget it."""
    global _process
    _process = process


def _start_client() -> Process:
    from monarch._runtime.client import start_client

    with _lock:
        return _process if _process is not None else start_client()


def _after_fork() -> None:
    """A fork inherits nothing: its copies of sockets and locks belong to the parent."""
    global _lock
    _lock = threading.RLock()
    if _process is not None:
        # Kept for ever: its sockets would otherwise close descriptors whose numbers are used again.
        _inherited.append(_process)
        _process.abandon()
        put(None)


os.register_at_fork(after_in_child=_after_fork)
