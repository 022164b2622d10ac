"""Standard output and error of an actor process: what an actor writes carries its mark.

Everything else that users do with `sys.stdout` works as ever, as it is a text stream on the same
descriptor. Where a process has one actor, one mark in front of everything does, and holds for what
is written past Python, too; where it has several, each piece of text has its own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import TextIO

from monarch._logs.marks import REST, mark
from monarch._runtime.context import Instance, current
from monarch._runtime.process import Process

_Base = type(sys.__stdout__)  # io.TextIOWrapper, which type stubs make generic


class ActorStream(_Base):  # type: ignore[misc, valid-type]
    """A text stream that says which actor writes."""

    sole: Instance | None = None
    """The actor that is named already."""

    def write(self, text: str) -> int:
        """Write text, of whoever is running."""
        context = current.get()
        who = None if context is None else context.actor_instance
        try:
            if who is None or who is self.sole or who._cell is None:
                super().write(text)
            else:
                super().write(mark(who.name, who.rank.rank) + text + REST)
        except BrokenPipeError:
            self._discard()
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        try:
            super().flush()
        except BrokenPipeError:
            self._discard()

    def name_sole(self, sole: Instance | None) -> None:
        """Say who wrote what is not marked, from here on."""
        if sole is self.sole:
            return
        self.sole = sole
        try:
            super().write(REST if sole is None else mark(sole.name, sole.rank.rank))
            super().flush()
        except BrokenPipeError:
            self._discard()
        except (OSError, ValueError):
            pass  # the program has closed it

    def _discard(self) -> None:
        """The collector is gone: its actors outlive it, and write to nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def install(process: Process, pipes: Sequence[int]) -> None:
    """Mark what actors of this process write, where its output is still the collector's pipe.

    `pipes` are the numbers of the inodes of standard output and error; a bootstrap command may have
    led either elsewhere, where nobody would take the marks out.
    """
    streams = [_marked(sys.stdout, pipes[0]), _marked(sys.stderr, pipes[1])]
    sys.stdout, sys.stderr = streams
    marked = [stream for stream in streams if isinstance(stream, ActorStream)]
    lock = threading.Lock()

    def tell() -> None:
        with lock:
            cells = process.cells()
            sole = cells[0].identity if len(cells) == 1 else None
            for stream in marked:
                stream.name_sole(sole)

    process.on_actors = tell


def _marked(stream: TextIO, inode: int) -> TextIO:
    try:
        if os.fstat(stream.fileno()).st_ino != inode:
            return stream
    except (AttributeError, OSError, ValueError):  # it is closed
        return stream
    # The collector reads UTF-8, whatever the locale. The original goes on to work for whoever holds it;
    # both write through one buffer.
    stream.reconfigure(encoding="utf-8", errors=stream.errors, line_buffering=True)  # type: ignore[attr-defined]
    marked: TextIO = ActorStream(
        stream.buffer,
        encoding="utf-8",
        errors=stream.errors,
        newline="\n",
        line_buffering=True,
        write_through=stream.write_through,  # type: ignore[attr-defined]
    )
    return marked
