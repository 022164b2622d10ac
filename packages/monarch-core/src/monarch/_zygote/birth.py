"""The keeper of this program: when it is forked, and what it is asked to do."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Collection, Sequence
from typing import NoReturn

from monarch import config
from monarch._zygote import clean, linux, trial
from monarch._zygote.detach import forget_the_program, leave_session_and_files
from monarch._zygote.imports import ignore_imports, watch_imports
from monarch._zygote.keeper import Keeper, load
from monarch._zygote.request import Message, Preload, Start, Started, send
from monarch.errors import SpawnError

_log = logging.getLogger("monarch")


class KeeperGone(SpawnError):
    """The keeper has ended, and with it every process that it had started."""


class Link:
    """The client's end of a keeper."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.standing = linux.standing()
        self.used = False
        self._control = control

    def start(self, start: Start, descriptors: Sequence[int], seconds: float) -> tuple[int, socket.socket]:
        """Return the number of a new process, and the socket on which its exit code will arrive."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self.send(start, [theirs.fileno(), *descriptors])
            ours.settimeout(seconds)
            started: Started = pickle.loads(ours.recv(1 << 16) or self._raise_gone())
            if started.error:
                raise OSError(started.error)
        except TimeoutError:
            ours.close()
            raise SpawnError(f"its keeper (pid {self.pid}) did not start it in {seconds} s") from None
        except BaseException:
            ours.close()
            raise
        if not self.used:
            self.used = True
            _log.info("processes are %s (keeper: pid %d)", started.how, self.pid)
        ours.setblocking(False)
        return started.pid, ours

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Ask the keeper for something.

        Raises:
            KeeperGone: if it has ended.
        """
        try:
            send(self._control, message, descriptors)
        except (BrokenPipeError, ConnectionResetError):
            self._raise_gone()

    def _raise_gone(self) -> NoReturn:
        try:
            why = self._control.recv(1 << 16, socket.MSG_DONTWAIT).decode()
        except OSError:
            why = ""
        raise KeeperGone(f"the keeper of processes (pid {self.pid}) has ended\n{why}".rstrip())

    def end(self) -> None:
        """End a keeper that has started nothing yet."""
        self._control.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def abandon(self) -> None:
        """Let go of it in a fork of the client, to which it does not belong."""
        self._control.close()


class _Here:
    """What this process knows of its keeper."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.link: Link | None = None
        self.warm_up = ""
        self.may_fork = False
        self.why = "monarch.actor was not imported"
        self.imported_more = False


_here = _Here()


def arm(module: str, warm_up: str) -> None:
    """Fork a zygote now, while `module` is being imported, and again after every long import.

    The zygote calls the function `warm_up`, given as "module:function", before it forks others.
    """
    _here.warm_up = warm_up
    if config.get("proc_start_method") != "fork":
        return
    _here.may_fork = True
    _fork_zygote([module])
    watch_imports(_fork_zygote)


def link() -> Link:
    """Return the keeper of this process, started if there is none; it has imported what we have."""
    with _here.lock:
        current = _here.link
        if current is not None and not current.used and current.standing != linux.standing():
            current.end()
            current = None
            _here.why = "its user, group, namespaces or cgroup have changed"
        if current is None:
            current = _here.link = _start_clean()
        elif _here.imported_more:
            current.send(Preload(clean.installed(), list(sys.path)))
        _here.imported_more = False
        return current


def lost(gone: Link) -> None:
    """Say that a keeper has ended, so that the next one is another."""
    with _here.lock:
        if _here.link is gone:
            gone.abandon()
            _here.link = None
            _here.why = "the keeper before it has ended"


def _fork_zygote(imported: Collection[str]) -> None:
    why = trial.obstacle() if _here.may_fork else "it was forked itself"
    if why:
        _here.why = why
        _here.imported_more = True
        return
    if _here.link is not None:
        _here.link.end()
        _here.link = None
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    client = os.pidfd_open(os.getpid())
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = linux.fork()
    if pid == 0:
        _be_zygote(theirs, client, imported)
    theirs.close()
    os.close(client)
    _here.link = Link(pid, ours)


def _be_zygote(control: socket.socket, client: int, imported: Collection[str]) -> NoReturn:
    try:
        leave_session_and_files({control.fileno(), client})
        ignore_imports()
        forget_the_program(imported)
        load(Preload([], sys.path, _here.warm_up))
        if why := trial.failure():
            preload = Preload(clean.installed(), list(sys.path), _here.warm_up)
            clean.become(clean.Birth(control.fileno(), client, preload, True, why))
        Keeper(control, client, True, "forked from the program as it was at its last long import").run()
    finally:
        os._exit(1)


def _start_clean() -> Link:
    fork = config.get("proc_start_method") == "fork"
    client = os.pidfd_open(os.getpid())
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    preload = Preload(clean.installed(), list(sys.path), _here.warm_up)
    why = _here.why if fork else "proc_start_method is 'exec'"
    birth = clean.Birth(theirs.fileno(), client, preload, fork, why).to_descriptor()
    passed = [(os.POSIX_SPAWN_DUP2, number, number) for number in (theirs.fileno(), client, birth)]
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    try:
        pid = os.posix_spawn(sys.executable, clean.command(birth), os.environ, file_actions=[*null, *passed])
    finally:
        theirs.close()
        os.close(client)
        os.close(birth)
    return Link(pid, ours)


def _forget() -> None:
    global _here
    before, _here = _here, _Here()
    if before.link is not None:
        before.link.abandon()
    _here.warm_up, _here.why = before.warm_up, "it was forked itself"


os.register_at_fork(after_in_child=_forget)
