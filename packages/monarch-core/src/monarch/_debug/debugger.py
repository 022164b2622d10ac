"""The debugger that stops an actor at a breakpoint: pdb, with a terminal that is elsewhere.

It begins at `breakpoint()` and ends when the endpoint returns, or by `continue` where it has no
breakpoints of its own. It traces one thread, and frames of the runtime are none of its business.
"""

from __future__ import annotations

import contextlib
import ctypes
import dis
import inspect
import pdb
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from monarch._debug import source
from monarch._debug.terminal import Terminal

# What calls the code of actors. Stepping does not stop there, and the stack is shown up to there.
_CALLERS = ("monarch", "threading", "asyncio", "concurrent")

_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def outermost(frame: FrameType) -> FrameType:
    """Return the frame that the runtime called and that led to `frame`."""
    while frame.f_back is not None and not _is_of_runtime(frame.f_back):
        frame = frame.f_back
    return frame


def _is_of_runtime(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _CALLERS


class Debugger(pdb.Pdb):
    """One session of one thread."""

    def __init__(self, terminal: Terminal, on_end: Callable[[], None]) -> None:
        streams: Any = terminal  # text streams, though not of the class that pdb's types ask for
        super().__init__(
            stdin=streams,
            stdout=streams,
            skip=[pattern for name in _CALLERS for pattern in (name, f"{name}.*")],
            nosigint=True,
            readrc=False,
        )
        self.breaks = {}  # pdb begins with those of every debugger of the process
        self._terminal, self._on_end = terminal, on_end
        terminal.greeting = self._place
        self._previous = sys.gettrace()
        self._raising = self._runs_free = self._is_over = False

    # ---- from breakpoint() to the end

    def stop_in(self, frame: FrameType, header: str | None = None) -> None:
        """Stop in `frame` as soon as it goes on. Nothing may be called between this and that."""
        sys.settrace(None)  # where a step led here, what follows would be stepped through
        if header is not None:
            self.message(header)
        self.reset()
        self.botframe = outermost(frame)
        above: FrameType | None = frame
        while above is not None and above is not self.botframe.f_back:
            above.f_trace = self.trace_dispatch
            above = above.f_back
        frame.f_trace = self._first
        # The rest of the line of breakpoint(): without it, the next line would be the first event.
        frame.f_trace_opcodes = True
        sys.settrace(self.trace_dispatch)

    def _first(self, frame: FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes = False
        return self.trace_dispatch(frame, "line" if event == "opcode" else event, arg)

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Act on one event, and end with the frame that the runtime called."""
        if self._is_over:  # a coroutine that another session of its loop left behind
            frame.f_trace = None
            return None
        was_raising = self._raising
        if frame is self.botframe:
            # StopIteration is how an await that had to wait hands over its value.
            self._raising = event == "exception" and arg[0] is not StopIteration
        try:
            local = super().trace_dispatch(frame, event, arg)
        except BaseException:
            self._end(frame)
            raise
        returned = event == "return" and frame is self.botframe and (was_raising or not _is_suspended(frame))
        if returned or self._runs_free:
            self._end(frame)
            return None
        return local

    def _end(self, frame: FrameType | None) -> None:
        self._is_over = True
        while frame is not None:
            frame.f_trace = None
            frame = None if frame is self.botframe else frame.f_back
        self._forget_breaks()
        sys.settrace(self._previous)
        self._on_end()

    def interaction(self, frame: FrameType, *args: Any) -> None:  # type: ignore[override]
        """Show where it stands, to others as well, and do what is typed."""
        waiting = self._terminal.waiting
        waiting.file, waiting.line, waiting.function = (
            frame.f_code.co_filename,
            frame.f_lineno,
            frame.f_code.co_name,
        )
        source.load(frame, self.botframe)
        waiting.source, waiting.around = source.around(frame)
        self._terminal.publish()
        super().interaction(frame, *args)

    def set_continue(self) -> None:
        """Let the program run, up to a breakpoint of this session if it has any."""
        super().set_continue()
        self._runs_free = not self.breaks

    def _place(self) -> str:
        return f"> {self.format_stack_entry(self.stack[self.curindex], pdb.line_prefix)}\n"

    def _forget_breaks(self) -> None:
        # Only those set here: the table of breakpoints is one for all debuggers of the process.
        for file, lines in list(self.get_all_breaks().items()):
            for line in list(lines):
                self.clear_break(file, line)

    # ---- commands that differ from pdb

    def default(self, line: str) -> None:
        """Run a statement; what it assigns holds at once, and not only when the actor goes on."""
        super().default(line)
        if sys.version_info < (3, 13):  # later ones write through
            # Else the next look at the variables of the frame, as by `where`, would undo it.
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.curframe), ctypes.c_int(0))

    def do_detach(self, arg: str) -> None:
        """detach
        Leave the session; it waits here for the next who attaches."""
        self._terminal.dismiss()

    def do_quit(self, arg: str) -> bool | None:
        """q(uit) | exit
        Forget the breakpoints of this session and continue. The actor lives on."""
        self._forget_breaks()
        return self.do_continue("")

    do_q = do_exit = do_quit

    def do_run(self, arg: str) -> None:
        """run | restart
        Not possible for an actor."""
        self.error("an actor cannot be restarted from here; call the endpoint again")

    do_restart = do_run

    def do_interact(self, arg: str) -> None:
        """interact
        Start an interactive interpreter with the names of this frame; `exit()` leaves it."""
        with self._as_standard_streams(), contextlib.suppress(SystemExit):
            super().do_interact(arg)

    @contextlib.contextmanager
    def _as_standard_streams(self) -> Iterator[None]:
        before = sys.stdin
        sys.stdin = self._terminal
        try:
            with contextlib.redirect_stdout(self._terminal), contextlib.redirect_stderr(self._terminal):
                yield
        finally:
            sys.stdin = before


def _is_suspended(frame: FrameType) -> bool:
    """Whether a frame that reports a return will go on: it awaits or yields something."""
    code = frame.f_code
    instruction = dis.opname[code.co_code[frame.f_lasti]]
    return bool(code.co_flags & _SUSPENDABLE) and not instruction.startswith("RETURN_")
