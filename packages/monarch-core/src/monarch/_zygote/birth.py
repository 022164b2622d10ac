"""When the keeper of this program is forked, and how it is found."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NoReturn

from monarch import config
from monarch._zygote import clean, linux, trial
from monarch._zygote.detach import forget_the_program, leave_session_and_files
from monarch._zygote.imports import ignore_imports, watch_imports
from monarch._zygote.keeper import Keeper, load
from monarch._zygote.link import Link
from monarch._zygote.request import Preload

_END_SECONDS = 1.0


class _Here:
    """What this process knows of its keeper. `why` says why there is no zygote of its own."""

    def __init__(self, warm_up: str, why: str) -> None:
        self.lock = threading.Lock()
        self.link: Link | None = None
        self.warm_up, self.why = warm_up, why
        self.may_fork = False
        self.imported_more = False
        """Whether there are imports that the keeper may not have."""


_here = _Here("", "monarch.actor was not imported")


def arm(module: str, warm_up: str) -> None:
    """Fork a zygote now, while `module` is being imported, and again after every long import.

    A keeper calls the function `warm_up`, given as "module:function", before it forks others.
    """
    _here.warm_up = warm_up
    _here.may_fork = config.get("proc_start_method") == "fork"
    if _here.may_fork:
        _fork_zygote([module])
        watch_imports(_fork_zygote)


def link() -> Link:
    """Return the keeper of this process, started if there is none; it has imported what we have."""
    with _here.lock:
        current = _here.link
        if current is not None and not current.used and current.standing != linux.standing():
            _replace(None)
            current, _here.why = None, "its user, groups, namespaces or cgroup have changed"
        if current is None:
            current = _here.link = _start_clean()
        elif _here.imported_more:
            current.send(_preload())
        _here.imported_more = False
        return current


def lost(gone: Link) -> None:
    """Say that a keeper has ended: the next one will be another."""
    with _here.lock:
        if _here.link is gone:
            gone.close()
            _here.link, _here.why = None, "its first keeper has ended"


def _replace(new: Link | None) -> None:
    if _here.link is not None:
        _here.link.end()
    _here.link = new


def _preload() -> Preload:
    return Preload(clean.installed(), list(sys.path), _here.warm_up)


@contextmanager
def _line() -> Iterator[tuple[socket.socket, socket.socket, int]]:
    """Both ends of a line to a keeper, and a pidfd of this process. Its end and the pidfd are closed."""
    client = linux.above_standard(os.pidfd_open(os.getpid()))
    ours, theirs = (
        socket.socket(fileno=linux.above_standard(each.detach()))
        for each in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    )
    try:
        with theirs:
            yield ours, theirs, client
    except BaseException:
        ours.close()
        raise
    finally:
        os.close(client)


def _fork_zygote(imported: Collection[str]) -> None:
    """Fork a zygote in place of the one before, if this process may be forked now."""
    _here.imported_more = True
    if not _here.may_fork or (_here.link is not None and _here.link.used):
        return
    if why := trial.obstacle():
        _here.why = f"{why} when {' and '.join(imported)} is imported"
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    try:
        with _line() as (ours, theirs, client):
            pid = linux.fork()
            if pid == 0:
                _be_zygote(theirs, client, imported)
    except OSError as error:  # whoever only imports is not to hear of it
        _here.why = f"forking it failed: {error}"
    else:
        _replace(Link(pid, ours))
        _here.imported_more = False


def _be_zygote(control: socket.socket, client: int, imported: Collection[str]) -> NoReturn:
    try:
        leave_session_and_files({control.fileno(), client})
        ignore_imports()
        forget_the_program(imported)
        load(Preload([], sys.path, _here.warm_up))
        if why := trial.failure():
            clean.become(clean.Birth(control.fileno(), client, _preload(), True, why))
        Keeper(control, client, True, "forked from the program as it was at its last long import").run()
    finally:
        os._exit(1)


def _start_clean() -> Link:
    fork = config.get("proc_start_method") == "fork"
    why = _here.why if fork else "proc_start_method is 'exec'"
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    with _line() as (ours, theirs, client):
        birth = clean.Birth(theirs.fileno(), client, _preload(), fork, why).to_descriptor()
        kept = [(os.POSIX_SPAWN_DUP2, number, number) for number in (theirs.fileno(), client, birth)]
        try:
            pid = os.posix_spawn(
                sys.executable, clean.command(birth), os.environ, file_actions=[*null, *kept]
            )
        finally:
            os.close(birth)
    return Link(pid, ours)


def _forget() -> None:
    """In a fork of the program: the keeper is not its own."""
    global _here
    if _here.link is not None:
        _here.link.close()
    _here = _Here(_here.warm_up, "it was forked itself")


def _hang_up() -> None:
    if _here.link is not None:
        _here.link.leave(_END_SECONDS)
        _here.link = None


os.register_at_fork(after_in_child=_forget)
atexit.register(_hang_up)  # registered before any client starts, and so run after it has ended
