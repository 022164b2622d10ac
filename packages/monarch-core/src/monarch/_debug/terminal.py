"""The terminal of a debugger that has none: it listens on a Unix socket and waits for one to attach.

For the debugger it is a pair of text streams. Reading blocks until somebody is attached and has typed a
line; whoever goes away is waited for again, at the same place.
"""

from __future__ import annotations

import io
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from monarch._debug import waiting as records
from monarch._debug.link import (
    CONTINUED,
    DETACHED,
    END,
    LINE,
    OUT,
    PROMPT,
    STOPPED,
    Link,
    is_same_user,
)
from monarch._debug.waiting import ATTACHED, WAITING, Waiting
from monarch.errors import MeshClosed

_ENOUGH = 1 << 16  # characters of output that are sent without waiting for more


class Terminal(io.TextIOBase):
    """A terminal that may be far away, or not there yet."""

    encoding = "utf-8"

    def __init__(self, folder: Path, waiting: Waiting) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.waiting, self._folder = waiting, folder
        self.greeting: Callable[[], str] = str
        """What somebody sees first who attaches again."""
        self._written = ""
        self._link: Link | None = None
        self._is_cut = False
        self._lock = threading.Lock()
        path = str(records.socket_of(folder, waiting))
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._listener.bind(path)
        os.chmod(path, 0o600)
        self._listener.listen(1)

    # ---- streams

    def write(self, text: str) -> int:
        """Take output; it travels with the next prompt, or before if it is much."""
        self._written += text
        if len(self._written) > _ENOUGH and self._link is not None:
            self._send(OUT, self._written)
            self._written = ""
        return len(text)

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
        """Return the next line typed, however long it takes and whoever types it.

        Raises:
            MeshClosed: if the actor is stopped meanwhile.
        """
        text, newline, prompt = self._written.rpartition("\n")
        text, self._written = text + newline, ""
        while True:
            if self._link is None:
                self._wait_attached()
            if (not text or self._send(OUT, text)) and self._send(PROMPT, prompt):
                assert self._link is not None
                message = self._link.receive()
                if message is not None and message[0] == LINE:
                    return message[1] + "\n"
            if self._is_cut:
                raise self._closed()
            self._wait_again()
            text = self.greeting()

    def close(self) -> None:
        """Stay open: `exit()` of an interactive console closes its input."""

    # ---- who is there

    def publish(self) -> None:
        """Show others the state and the place of the session."""
        records.publish(self._folder, self.waiting)

    def dismiss(self) -> None:
        """Send the one who is attached away, and wait for the next."""
        self._send(OUT, self._written)
        self._written = ""
        self._send(END, DETACHED)
        self._wait_again()

    def end(self) -> None:
        """The session is over: let go of everything."""
        with self._lock:
            why = STOPPED if self._is_cut else CONTINUED
            self._is_cut = True
        self._listener.close()
        records.withdraw(self._folder, self.waiting)
        self._send(OUT, self._written)
        self._send(END, why)
        self._hang_up()

    def cut(self) -> None:
        """Have the session end from another thread, whatever it waits for."""
        with self._lock:
            if self._is_cut:
                return
            self._is_cut = True
            self._listener.shutdown(socket.SHUT_RDWR)
            if self._link is not None:
                self._link.cut()

    def _closed(self) -> MeshClosed:
        waiting = self.waiting
        return MeshClosed(
            f"actor {waiting.actor!r} rank {waiting.rank} was stopped while it waited at the breakpoint "
            f"{waiting.place()}",
            waiting.endpoint,
        )

    def _wait_attached(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if not self._is_cut:
                    raise
                raise self._closed() from None
            if is_same_user(sock):
                break
            sock.close()
        with self._lock:
            self._link = Link(sock)
            if self._is_cut:
                self._link.cut()
        self.waiting.state = ATTACHED
        self.publish()

    def _send(self, kind: str, text: str) -> bool:
        """Send, if somebody is there to read it."""
        try:
            if self._link is not None:
                self._link.send(kind, text)
        except OSError:
            return False
        return self._link is not None

    def _wait_again(self) -> None:
        """Be there for the next; whoever leaves sees the connection close, and knows that it is so."""
        self.waiting.state = WAITING
        self.publish()
        self._hang_up()

    def _hang_up(self) -> None:
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close()
