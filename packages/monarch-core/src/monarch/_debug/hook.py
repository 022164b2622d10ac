"""What `breakpoint()` does in an actor process: it opens a session, says so, and waits.

Python's own hook would ask for a line of the standard input, which an actor does not have.
"""

from __future__ import annotations

import itertools
import linecache
import os
import pdb
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from monarch._debug import source
from monarch._debug import waiting as records
from monarch._debug.debugger import Debugger, outermost
from monarch._debug.terminal import Terminal
from monarch._debug.waiting import Waiting
from monarch._runtime import here
from monarch._runtime.client import folder_of
from monarch._runtime.context import Instance, current
from monarch._runtime.process import Process


class _Sessions:
    """Those of this process. Once it ends there are no new ones."""

    def __init__(self) -> None:
        self._open: set[Terminal] = set()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._of_thread = threading.local()
        self.has_ended = False

    def of_this_thread(self) -> Debugger | None:
        """Return the debugger of the calling thread, if it has one."""
        return getattr(self._of_thread, "debugger", None)

    def stop(self, frame: FrameType) -> Debugger | None:
        """Return the debugger that stops in `frame`: that of the thread, else a new one."""
        if (ongoing := self.of_this_thread()) is not None:
            return ongoing
        process = here.get()
        waiting = _describe(process, frame, next(self._numbers))
        with self._lock:
            if self.has_ended:
                return None
            terminal = Terminal(Path(folder_of(process.address), records.FOLDER), waiting)
            self._open.add(terminal)
        terminal.publish()
        print(
            f"rank {waiting.rank} of {waiting.actor!r} waits at {waiting.place()}: "
            f"attach with `monarch debug attach {waiting.id}`",
            file=sys.stderr,
            flush=True,
        )
        debugger = self._of_thread.debugger = Debugger(terminal, lambda: self._ended(terminal))
        return debugger

    def _ended(self, terminal: Terminal) -> None:
        self._of_thread.debugger = None
        with self._lock:
            self._open.discard(terminal)
        terminal.end()

    def end_all(self) -> None:
        """Have every endpoint that waits raise `MeshClosed`, and none wait from now on."""
        with self._lock:
            self.has_ended = True
            left = list(self._open)
        for terminal in left:
            terminal.cut()


_sessions = _Sessions()


def install(source_of: Callable[[str], list[str]]) -> None:
    """Make `breakpoint()` and `pdb.set_trace()` open a session, in this process.

    `source_of` returns the lines of a file that only the client has.
    """
    source.ask = source_of
    # Python 3.13 keeps the text of its option -c there: how this process was started, no code of the user.
    linecache.cache.pop("<string>", None)
    sys.breakpointhook = _on_breakpoint
    pdb.set_trace = _set_trace


def end_all() -> None:
    """End every session of this process: it is about to end."""
    _sessions.end_all()


def _on_breakpoint(*args: Any, **options: Any) -> Any:
    # Python's own hook knows what the variable may say: nothing at all, or somebody else's debugger.
    # It is not looked at where a step led here: that would be a step into the code that looks.
    if _sessions.of_this_thread() is None and os.environ.get("PYTHONBREAKPOINT"):
        return sys.__breakpointhook__(*args, **options)
    return _set_trace(*args, **options)


def _set_trace(*, header: str | None = None) -> None:
    """Stop in the caller; `header` is what a terminal shows first."""
    frame = sys._getframe(1)
    while frame.f_globals is globals() and frame.f_back is not None:
        frame = frame.f_back
    debugger = _sessions.stop(frame)
    if debugger is not None:
        debugger.stop_in(frame, header)


def _describe(process: Process, frame: FrameType, number: int) -> Waiting:
    who = _who(process)
    pid = os.getpid()
    text, around = source.around(frame)
    handling = who._cell.handling if who._cell is not None else None
    return Waiting(
        id=f"{pid}.{number}",
        actor=who.name,
        rank=who.rank.rank,
        coordinates=dict(who.rank),
        class_name=who.class_name,
        endpoint=handling[0] if handling else outermost(frame).f_code.co_name,
        function=frame.f_code.co_name,
        file=frame.f_code.co_filename,
        line=frame.f_lineno,
        source=text,
        around=around,
        host=socket.gethostname(),
        pid=pid,
        started=records.start_of(pid) or 0,
        since=time.time(),
    )


def _who(process: Process) -> Instance:
    """Return the actor that runs; for a thread of its own making, the only actor there is."""
    context = current.get()
    if context is not None:
        return context.actor_instance
    cells = process.cells()
    if len(cells) == 1:
        return cells[0].identity
    assert process.client is not None
    return process.client
