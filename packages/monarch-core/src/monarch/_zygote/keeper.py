"""The main program of the keeper: one thread, the parent of all processes of one program."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace

from monarch._zygote import linux, trial
from monarch._zygote.child import become, resolve
from monarch._zygote.request import Message, Preload, Signal, Start, Started, receive

_PATIENCE = 10.0  # seconds for what was killed to end; more only where the kernel holds it
_LOOK = 0.1  # seconds between two looks at what is left


class Keeper:
    """Starts, watches and reaps the processes of the client, and ends all of them with it.

    `control` is a socket to the client and `client` its pidfd. `may_fork` says whether processes
    may be forked from this interpreter, `how` why so or why not.
    """

    def __init__(self, control: socket.socket, client: int, may_fork: bool, how: str) -> None:
        self._control, self._client = control, client
        self._may_fork, self._how = may_fork, how
        self._channels: dict[int, int] = {}
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._own = {control.fileno(), client, self._woken, wake}
        linux.adopt_orphans()
        linux.be_called("monarch-zygote" if may_fork else "monarch-keeper")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # whoever means the client means us after it
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def run(self) -> None:
        """Work until the client is gone or hangs up, then end every process that is left."""
        try:
            gc.freeze()  # in a fork, a collection would write to every page, and so copy it
            self._serve()
        except Exception:
            _tell(self._control.fileno(), traceback.format_exc().encode())
            raise
        finally:
            self._end_all()

    def _serve(self) -> None:
        poll = select.poll()
        for descriptor in (self._woken, self._client, self._control):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._woken in ready:
                self._reap()
            if self._client in ready:
                return
            if self._control.fileno() in ready:
                received = receive(self._control)
                if received is None:
                    return
                self._act(*received)

    def _act(self, message: Message, descriptors: Sequence[int]) -> None:
        match message:
            case Start():
                self._start(message, descriptors)
            case Preload():
                self._preload(message)
            case Signal():
                self._signal(message)

    def _start(self, start: Start, descriptors: Sequence[int]) -> None:
        channel, *others = descriptors
        if not self._may_fork:
            start = replace(start, entry=None)
        born, birth = os.pipe()
        self._own |= {*descriptors, born, birth}
        keeper, pid = os.getpid(), None
        try:
            pid = linux.fork()
            if pid == 0:
                become(start, keeper, birth, others, self._own)
        except OSError as error:
            os.write(birth, str(error).encode())
        os.close(birth)
        failure = _read_all(born, _PATIENCE)  # it ends when the process executes or calls what it is for
        wanted = _tell(channel, pickle.dumps(Started(pid, self._how, failure)))
        closed = {born, *others}
        if pid is not None and (failure or not wanted):
            os.kill(pid, signal.SIGKILL)
        if pid is None or failure:
            closed.add(channel)
        else:
            self._channels[pid] = channel
        self._own -= {*closed, birth}
        for descriptor in closed:
            os.close(descriptor)

    def _preload(self, preload: Preload) -> None:
        if not self._may_fork:
            return
        if load(preload) and (why := trial.failure()):
            self._may_fork, self._how = False, f"executed, because {why}"
        gc.freeze()

    def _signal(self, message: Signal) -> None:
        if message.pid not in self._channels:  # it has been reaped, and its number may be another's
            return
        if message.number == signal.SIGKILL:
            # The processes it adopts meanwhile come to us, and we end them when we see its end.
            linux.kill_all(linux.with_descendants([message.pid], linux.families()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(message.pid, message.number)

    # ---- ends

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)
        ended = False
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                self._bury(found.si_pid)
                ended = True
        if ended:
            # Processes adopt their own orphans, so those that come to us are left by one that is gone.
            children = linux.families()
            strays = [child for child in children.get(os.getpid(), ()) if child not in self._channels]
            linux.kill_all(linux.with_descendants(strays, children))

    def _bury(self, pid: int) -> None:
        channel = self._channels.pop(pid, None)
        if channel is not None:
            # While it is not reaped its group cannot be another's: end what it left behind.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if channel is not None:
            _tell(channel, str(os.waitstatus_to_exitcode(status)).encode())
            self._own.discard(channel)
            os.close(channel)

    def _end_all(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
                _, *others = linux.with_descendants([os.getpid()], linux.families())
                linux.kill_all(others)
                if _readable(self._woken, _LOOK):
                    os.read(self._woken, 4096)


def load(preload: Preload) -> bool:
    """Import what is missing, and whether there was anything; what cannot be imported is left out."""
    sys.path[:] = preload.path
    missing = [name for name in preload.names if name not in sys.modules]
    for name in missing:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if preload.warm_up:
        with contextlib.suppress(Exception):  # each process will meet with it, and say so
            resolve(preload.warm_up)()
    return bool(missing)


def _read_all(descriptor: int, seconds: float) -> str:
    content, deadline = b"", time.monotonic() + seconds
    while _readable(descriptor, deadline - time.monotonic()):
        more = os.read(descriptor, 4096)
        if not more:
            return content.decode(errors="replace")
        content += more
    return f"it did not begin in {seconds} s"


def _readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()  # `select` takes only numbers below 1024
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0, seconds) * 1000))


def _tell(channel: int, content: bytes) -> bool:
    """Write, and say whether there is anybody to read it."""
    try:
        os.write(channel, content)
    except OSError:
        return False
    return True
