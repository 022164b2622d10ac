"""The `local` launcher: processes on this host, each in a session of its own, that end with this one."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator

from monarch import config
from monarch.__about__ import __version__
from monarch._zygote import birth, linux
from monarch._zygote.link import KeeperGone, Link
from monarch._zygote.request import Signal, Start
from monarch.abc import Exit, LaunchSpec
from monarch.errors import SpawnError
from monarch.hookspecs import PluginInfo, hookimpl

MONARCH_API = (1, 0)


class LocalProcess:
    """A child of our keeper, which tells its end through a socket."""

    def __init__(self, pid: int, channel: int, keeper: Link) -> None:
        self.pid = pid
        self._channel, self._keeper = channel, keeper
        self._exit: Exit | None = None

    def fileno(self) -> int:
        """Return our end of the socket."""
        return self._channel

    def exit(self) -> Exit | None:
        """Return how it ended; None while it runs."""
        if self._exit is None:
            try:
                code = os.read(self._channel, 64)
            except BlockingIOError:
                return None
            self._exit = self._ended(code)
            os.close(self._channel)
        return self._exit

    def _ended(self, code: bytes) -> Exit:
        if not code:  # its keeper was killed, and it with it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            return Exit(self.pid)
        number = int(code)
        return Exit(self.pid, signal=-number) if number < 0 else Exit(self.pid, exit_code=number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to it and to what it started."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._exit is None:
            with contextlib.suppress(SpawnError):  # without a keeper it ends by itself
                self._keeper.send(Signal(self.pid, number))


class LocalLauncher:
    """Starts processes through the keeper of this process, which all launchers share."""

    def __init__(self) -> None:
        self._waiting: set[socket.socket] = set()
        self._closed = False

    def start(self, spec: LaunchSpec) -> LocalProcess:
        """Start one process (see `monarch.abc.Launcher`)."""
        program = spec.executable or spec.argv[0]
        start = Start(
            argv=list(spec.argv),
            env=dict(spec.env),
            descriptors=list(spec.descriptors),
            cpus=spec.cpus,
            memory_nodes=spec.memory_nodes,
            executable=program,
            entry=spec.entry if config.get("proc_start_method") == "fork" else None,
            umask=linux.umask(),
            limits=linux.limits(),
        )
        try:
            with _descriptors(spec) as descriptors:
                return self._start(start, descriptors)
        except (OSError, SpawnError) as error:
            raise SpawnError(f"cannot start {program!r}: {error}") from error

    def _start(self, start: Start, descriptors: list[int]) -> LocalProcess:
        keeper = birth.link()
        seconds = config.get("proc_start_timeout")
        try:
            pid, channel = keeper.start(start, descriptors, seconds, self._waiting)
        except KeeperGone:
            if self._closed:
                raise SpawnError("its launcher was closed") from None
            birth.lost(keeper)  # somebody killed it: once more, by another
            keeper = birth.link()
            pid, channel = keeper.start(start, descriptors, seconds, self._waiting)
        return LocalProcess(pid, channel, keeper)

    def close(self) -> None:
        """Give up what is being started. The keeper serves the next launcher, and ends with this process."""
        self._closed = True
        for answer in list(self._waiting):
            with contextlib.suppress(OSError):
                answer.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _descriptors(spec: LaunchSpec) -> Iterator[list[int]]:
    """Return the working directory, standard output, standard error, and those of `spec`."""
    opened = [os.open(".", os.O_PATH | os.O_DIRECTORY)]
    try:
        outputs = []
        for given, ours in ((spec.stdout, 1), (spec.stderr, 2)):
            outputs.append(_open_or_null(ours, opened) if given is None else given)
        yield [opened[0], *outputs, *spec.descriptors]
    finally:
        for number in opened:
            os.close(number)


def _open_or_null(number: int, opened: list[int]) -> int:
    try:
        os.fstat(number)
    except OSError:  # this process has closed it
        number = os.open(os.devnull, os.O_RDWR)
        opened.append(number)
    return number


@hookimpl
def monarch_plugin_info() -> PluginInfo:
    """Say what this module offers."""
    return PluginInfo("monarch-core", __version__, ("launcher:local",))


@hookimpl
def monarch_make_launcher(scheme: str) -> LocalLauncher | None:
    """Offer the scheme `local`."""
    return LocalLauncher() if scheme == "local" else None
