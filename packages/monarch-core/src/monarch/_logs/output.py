"""The agent's side of the collector: starts it, gives it the pipes of processes, and shows its view."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from monarch import config
from monarch._logs.frames import BARRIER, Unpacker
from monarch._logs.screen import Screen
from monarch.errors import SpawnError

_log = logging.getLogger(__name__)

WINDOW = 3.0
"""Seconds in which similar lines are folded."""

_ANSWER_SECONDS = 0.05  # for the last errors of a process; whoever waits for its death waits for this
_SEND_SECONDS = 1.0
_CELL_SECONDS = 1.0
_END_SECONDS = 1.0
_CHUNK = 1 << 16
_LONGEST_NAME = 100
_STATE = "~/.local/state"
_HERE = Path(__file__).parent

# The package's own __init__ is left out: it imports more than the collector needs.
_START = f"""
import sys, types
package = sys.modules["monarch"] = types.ModuleType("monarch")
package.__path__ = [{str(_HERE.parent)!r}]
from monarch._logs.collector import main
main()
"""


@dataclass(frozen=True)
class OutputOptions:
    """What becomes of the output of a process, besides the files."""

    shown: bool
    tail: int
    window: float = WINDOW

    @classmethod
    def configured(cls) -> OutputOptions:
        """Return what the settings of this program say now."""
        return cls(config.get("enable_log_forwarding"), config.get("tail_log_lines"))


@dataclass(frozen=True)
class Pipes:
    """The descriptors for output and errors of one process: those to read and those to write."""

    read: tuple[int, int]
    write: tuple[int, int]

    @property
    def inodes(self) -> tuple[int, int]:
        """What they are known by in the process that writes."""
        return os.fstat(self.write[0]).st_ino, os.fstat(self.write[1]).st_ino

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave them to those who have copies."""
        for descriptor in (*self.read, *self.write):
            os.close(descriptor)


class _Connection:
    """A running collector."""

    def __init__(self, private_descriptors: list[int]) -> None:
        self.control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.view, view = socket.socketpair()
        self._private = private_descriptors
        with control, view:
            self._program = subprocess.Popen(
                [
                    sys.executable,
                    *("-I", "-S", "-c", _START),
                    *(str(control.fileno()), str(view.fileno())),
                    *(_folder(), str(os.getpid())),
                ],
                pass_fds=(control.fileno(), view.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        self._private += (self.control.fileno(), self.view.fileno())
        self.screen = Screen()
        self._reached = 0
        self._moved = threading.Condition()
        self._reader = threading.Thread(target=self._show, name="monarch-output", daemon=True)
        self._reader.start()

    def _show(self) -> None:
        unpacker = Unpacker()
        while True:
            try:
                data = self.view.recv(_CHUNK)
            except OSError:
                data = b""
            frames = unpacker.feed(data)
            self.screen.show([frame for frame in frames if frame.kind != BARRIER])
            with self._moved:
                self._reached = max([self._reached, *(f.number for f in frames if f.kind == BARRIER)])
                if not data:
                    self._reached = sys.maxsize
                self._moved.notify_all()
            if not data:
                if not self.screen.given_up.is_set():
                    _log.warning("the log collector ended; what running processes write is lost")
                return

    def wait_shown(self, number: int, seconds: float) -> None:
        """Wait until everything before barrier `number` is on the screen, or for so long nothing moves."""
        with self._moved:
            while self._reached < number and self._moved.wait(seconds):
                pass

    def close(self) -> None:
        """End it, and the thread that shows its view."""
        self.screen.given_up.set()
        try:
            self.control.send(json.dumps({"do": "end"}).encode(), socket.MSG_DONTWAIT)
        except OSError:
            pass  # it has ended itself
        try:
            self._program.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
        self._reader.join(_END_SECONDS)
        for sock in (self.control, self.view):
            self._private.remove(sock.fileno())
            sock.close()

    @property
    def lost(self) -> bool:
        """Whether it has ended by itself."""
        return self._program.poll() is not None


def _folder() -> str:
    name = config.get("log_folder")
    if (state := os.environ.get("XDG_STATE_HOME")) and name.startswith(f"{_STATE}/"):
        name = state + name.removeprefix(_STATE)
    return os.path.abspath(os.path.expanduser(name)) if name else ""


class Output:
    """What becomes of the output of the processes of this host."""

    def __init__(self, private_descriptors: list[int]) -> None:
        self._private = private_descriptors
        self._connection: _Connection | None = None
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._closed = False

    def pipes(self) -> Pipes:
        """Return pipes for a process that will be started.

        Raises:
            SpawnError: after `close`.
        """
        with self._lock:
            if self._closed:
                raise SpawnError("its client has ended")
            if self._connection is not None and self._connection.lost:
                self._let_go()
            if self._connection is None:
                self._connection = _Connection(self._private)
                self._hear_of_cells(True)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        return Pipes((out, err), (out_end, err_end))

    def attach(self, key: str, mesh: str, rank: int, pid: int, pipes: Pipes, options: OutputOptions) -> None:
        """Collect what a process writes, from now on known as `key`."""
        request = {"do": "attach", "key": key, "mesh": mesh[:_LONGEST_NAME], "rank": rank, "pid": pid}
        self._send({**request, **asdict(options)}, pipes.read)

    def set_options(self, key: str, options: OutputOptions) -> None:
        """Change what becomes of the output of a process from now on."""
        self._send({"do": "options", "key": key, **asdict(options)})

    def ended(self, key: str) -> str:
        """Return the last lines that a process, which has ended, wrote to its standard error."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        with self._lock:
            connection, number = self._connection, next(self._numbers)
            request = {"do": "ended", "key": key, "number": number}
            if connection is None or not self._post(request, seconds=_ANSWER_SECONDS):
                return ""
            try:
                while (left := deadline - time.monotonic()) > 0:
                    connection.control.settimeout(left)
                    answer = connection.control.recv(_CHUNK)
                    if not answer:
                        break
                    answered, text = json.loads(answer)
                    if answered == number:
                        return str(text)
            except OSError:
                pass  # it is late, or gone
            return ""

    def forget(self, key: str) -> None:
        """Say that a process has ended of which nobody asks for the last lines."""
        self._send({"do": "ended", "key": key, "number": 0})

    def flush(self, seconds: float) -> None:
        """Show everything that has been written so far; give up if for so long nothing moves."""
        connection, number = self._connection, next(self._numbers)
        if connection is not None and self._send({"do": "flush", "number": number}):
            connection.wait_shown(number, seconds)

    def close(self, seconds: float) -> None:
        """Show what is left, and end the collector."""
        self.flush(seconds)
        with self._lock:
            self._closed = True
            self._let_go()

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._hear_of_cells(False)
            connection.close()

    # ---- to the collector

    def _send(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> bool:
        with self._lock:
            return self._post(request, descriptors)

    def _post(
        self, request: dict[str, Any], descriptors: Sequence[int] = (), seconds: float = _SEND_SECONDS
    ) -> bool:
        connection = self._connection
        if connection is None:
            return False
        try:
            connection.control.settimeout(seconds)
            socket.send_fds(connection.control, [json.dumps(request).encode()], descriptors)
            return True
        except OSError:
            return False  # it has ended, and the next process gets another; or it is stopped

    # ---- notebooks

    def _hear_of_cells(self, wanted: bool) -> None:
        """Show what a cell of a notebook made actors write before the next cell runs."""
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        if shell is None:
            return
        if wanted:
            shell.events.register("post_run_cell", self._after_cell)
        elif self._after_cell in shell.events.callbacks["post_run_cell"]:
            shell.events.unregister("post_run_cell", self._after_cell)

    def _after_cell(self, result: object) -> None:
        self.flush(_CELL_SECONDS)
