"""Keeps Ctrl-C out of the few lines that must not be cut in two.

The main thread reads and writes sockets itself. A KeyboardInterrupt between taking bytes from
the kernel and storing them would lose a message, and a program that survives its Ctrl-C (a
notebook) would wait for it for ever. So the interrupt is held back until those lines are done.
The handler is swapped for their duration only, since asyncio and others look at it.
"""

from __future__ import annotations

# `signal.signal` wraps handlers in enums on every call, which takes four times as long.
import _signal  # type: ignore[import-not-found]  # the C module behind it has no types
import signal
import threading
from types import FrameType
from typing import Any

_main = threading.main_thread().ident


class _Held:
    """The handler that stands in, and what came in meanwhile."""

    def __init__(self) -> None:
        self.original: Any = None
        self.depth = 0
        self.pending = False
        self.exposed = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.exposed:
            self.original(number, frame)
        else:
            self.pending = True


_held = _Held()


def hold() -> bool:
    """Hold interrupts back on this thread; True if there is something to `let_go` of afterwards."""
    if threading.get_ident() != _main:
        return False
    if _held.depth == 0:
        original = _signal.getsignal(signal.SIGINT)
        if not callable(original):
            return False
        if original is not _held:
            _held.original = original
        _signal.signal(signal.SIGINT, _held)
    _held.depth += 1
    return True


def let_go() -> None:
    """End the innermost `hold`; an interrupt that came meanwhile is raised now."""
    _held.depth -= 1
    if _held.depth:
        return
    pending, _held.pending = _held.pending, False
    _signal.signal(signal.SIGINT, _held.original)
    if pending:
        _held.original(int(signal.SIGINT), None)


def expose(exposed: bool) -> None:
    """Let interrupts through inside a `hold`, where a wait in the kernel may be cut short, or no longer."""
    _held.exposed = exposed
