"""The program's end of its keeper."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import select
import signal
import socket
import struct
from collections.abc import Sequence
from typing import NoReturn

from monarch._zygote import linux
from monarch._zygote.request import Message, Start, Started, send
from monarch.errors import SpawnError

_log = logging.getLogger("monarch")
_LONGEST = 1 << 16
_PATIENCE = 10  # seconds for a keeper to take a request while many wait


class KeeperGone(SpawnError):
    """The keeper has ended, and with it every process that it had started."""


class Link:
    """A socket to a keeper, the process `pid`."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.standing = linux.standing()
        self.used = False
        """Whether it has started processes, which end with it."""
        self._control = control
        control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _PATIENCE, 0))

    def start(
        self, start: Start, descriptors: Sequence[int], seconds: float, waiting: set[socket.socket]
    ) -> tuple[int, int]:
        """Start a process, within `seconds`.

        `descriptors` are its working directory, standard output and standard error, then those that
        `start` names. Return its number, and a descriptor on which its exit code will arrive. The
        socket that the answer comes by is in `waiting` meanwhile: shutting it down gives up, and the
        keeper then ends what it has started.

        Raises:
            KeeperGone: if the keeper has ended, or the start was given up.
            SpawnError: if the keeper is too busy.
            OSError: if the process could not be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        waiting.add(ours)
        try:
            with theirs:
                self.send(start, [theirs.fileno(), *descriptors])
            started = self._answer(ours, seconds)
            if started.pid is None or started.error:
                raise OSError(started.error)
            if not self.used:
                self.used = True
                _log.info("processes are %s (keeper: pid %d)", started.how, self.pid)
            ours.setblocking(False)
            return started.pid, ours.detach()
        finally:
            waiting.discard(ours)
            ours.close()

    def _answer(self, ours: socket.socket, seconds: float) -> Started:
        ours.settimeout(seconds)
        try:
            answer = ours.recv(_LONGEST)
        except TimeoutError:
            raise SpawnError(f"its keeper (pid {self.pid}) did not start it in {seconds} s") from None
        if not answer:
            self._raise_gone()
        started: Started = pickle.loads(answer)
        return started

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Ask the keeper for something.

        Raises:
            KeeperGone: if it has ended.
            SpawnError: if it is too busy.
        """
        try:
            send(self._control, message, descriptors)
        except BlockingIOError:
            raise SpawnError(f"the keeper of processes (pid {self.pid}) takes no more requests") from None
        except (BrokenPipeError, ConnectionResetError):
            self._raise_gone()

    def _raise_gone(self) -> NoReturn:
        try:
            why = self._control.recv(_LONGEST, socket.MSG_DONTWAIT).decode()
        except OSError:
            why = ""
        raise KeeperGone(f"the keeper of processes (pid {self.pid}) has ended\n{why}".rstrip())

    def end(self) -> None:
        """End a keeper that has started nothing yet."""
        self.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def leave(self, seconds: float) -> None:
        """Hang up, and wait for it to end: nothing of a program is left when it has ended."""
        self.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            ended = os.pidfd_open(self.pid)
            try:
                poll = select.poll()  # `select` takes only numbers below 1024
                poll.register(ended, select.POLLIN)
                poll.poll(seconds * 1000)
            finally:
                os.close(ended)
            os.waitpid(self.pid, os.WNOHANG)

    def close(self) -> None:
        """Hang up: it ends, and all that it started."""
        self._control.close()
