"""What the client is to show, while it waits to be taken.

The client may be slow, or stopped altogether: then lines are left out here, and counted. Nothing
before this waits for the client.
"""

from __future__ import annotations

import socket
from collections import deque

from monarch._logs.frames import BARRIER, ERR, pack

_MOST = 4 << 20  # bytes
_PIECE = 1 << 16


class View:
    """A queue of frames in front of a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.setblocking(False)
        self.files = ""
        """The folder that has what is left out here."""
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._left_out = 0
        self.closed = False

    @property
    def waits(self) -> bool:
        """Whether there is something that the socket has not taken."""
        return bool(self._waiting)

    def close(self) -> None:
        """Show nothing more: the client is gone."""
        self.closed = True
        self._waiting.clear()

    def line(self, stream: int, text: str, count: int) -> None:
        """Show text that stands for `count` lines."""
        if self._size > _MOST or (self._left_out and self._size > _MOST // 2):
            self._left_out += count
            return
        self._tell_left_out()
        self._put(pack(stream, 0, text))

    def state(self, kind: int, number: int, text: str) -> None:
        """Show the state of an unfinished line; there will be others, so this one may be left out."""
        if self._size <= _MOST or not text:
            self._put(pack(kind, number, text))

    def note(self, text: str) -> None:
        """Say something of our own."""
        self._put(pack(ERR, 0, f"[monarch] {text}"))

    def barrier(self, number: int) -> None:
        """Say that everything before has been sent."""
        self._tell_left_out()
        self._put(pack(BARRIER, number, ""))

    def _tell_left_out(self) -> None:
        count, self._left_out = self._left_out, 0
        if count:
            where = f"; the files in {self.files} have them" if self.files else ""
            self.note(f"{count} lines not shown: they came faster than they could be written{where}")

    def _put(self, frame: bytes) -> None:
        if not self.closed:
            self._waiting.append(frame)
            self._size += len(frame)

    def pump(self) -> None:
        """Send what the socket takes."""
        while self._waiting:
            piece = self._waiting.popleft()
            while self._waiting and len(piece) < _PIECE:
                piece += self._waiting.popleft()
            try:
                sent = self.socket.send(piece)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.close()
                return
            self._size -= sent
            if sent < len(piece):
                self._waiting.appendleft(piece[sent:])
                return
        if self._left_out:
            self._tell_left_out()
            self.pump()
