"""The conversation between a session and a terminal: one JSON pair `[kind, text]` for each line.

The session says OUT, then PROMPT and waits for a LINE, and says END when it lets the program run on. A
terminal that goes away without a word has detached.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket

from monarch._transport.credentials import user_of_peer

OUT, PROMPT, END, LINE = "out", "prompt", "end", "line"

CONTINUED, DETACHED, STOPPED = "continued", "detached", "stopped"
"""Why it ended: the program goes on, the terminal was sent away, or the actor is to stop."""

_NOTICE_SECONDS = 1.0


class Link:
    """One end of the conversation."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._file = sock.makefile("rb")

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def send(self, kind: str, text: str) -> None:
        """Send one message.

        Raises:
            OSError: if the other end is gone.
        """
        self._socket.sendall(json.dumps([kind, text]).encode() + b"\n")

    def receive(self, timeout: float | None = None) -> tuple[str, str] | None:
        """Return the next message, None at the end of the conversation.

        Raises:
            TimeoutError: if `timeout` seconds pass without one.
        """
        self._socket.settimeout(timeout)
        try:
            line = self._file.readline()
        except ConnectionError:
            return None
        finally:
            self._socket.settimeout(None)
        try:
            kind, text = json.loads(line)
        except ValueError:  # the end, or somebody who does not speak this language
            return None
        return str(kind), str(text)

    def cut(self) -> None:
        """Hear no more: whoever waits in `receive`, on any thread, gets None."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)

    def leave(self) -> None:
        """Detach, and wait until the session has noticed; one that runs notices when it stops next."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while self.receive(_NOTICE_SECONDS):
                pass
        self.close()

    def close(self) -> None:
        """Let go of the socket."""
        self._file.close()
        self._socket.close()


def is_same_user(sock: socket.socket) -> bool:
    """Whether the other end runs as our user."""
    return user_of_peer(sock) == os.geteuid()
