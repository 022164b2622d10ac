"""The `local` launcher: child processes of this one, each in a session of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator

from monarch.__about__ import __version__
from monarch.abc import Exit, LaunchSpec
from monarch.errors import SpawnError
from monarch.hookspecs import PluginInfo, hookimpl

MONARCH_API = (1, 0)

_SET_MEMPOLICY = 238  # system call number on x86_64
_MPOL_DEFAULT, _MPOL_BIND = 0, 2


# It reads "+ group" and "- group", and when the writer is gone it kills the groups that are left.
_KEEPER = """
trap '' HUP INT TERM
groups=
while read -r sign group; do
    left=
    for other in $groups; do [ "$other" = "-$group" ] || left="$left $other"; done
    groups=$left
    [ "$sign" = "+" ] && groups="$groups -$group"
done
for group in $groups; do kill -s KILL -- "$group" 2>/dev/null; done
"""


class _Keeper:
    """A shell that outlives us by a moment, and ends what our processes left behind.

    A child dies with its parent by a signal of the kernel; what the child had started does not.
    """

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER], stdin=subprocess.PIPE, start_new_session=True
        )
        os.register_at_fork(after_in_child=self._leave)

    def tell(self, sign: str, group: int) -> None:
        """Add a process group with "+", or take it off with "-"."""
        assert self._shell.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # without a keeper we are as well off as others
            self._shell.stdin.write(f"{sign} {group}\n".encode())
            self._shell.stdin.flush()

    def _leave(self) -> None:
        """In a fork: the shell waits for the end of the parent, not of its copies."""
        assert self._shell.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            os.close(self._shell.stdin.fileno())

    def close(self) -> None:
        """Let it go."""
        assert self._shell.stdin is not None
        with contextlib.suppress(OSError):
            self._shell.stdin.close()
        self._shell.wait()


class LocalProcess:
    """A child process, watched by a pidfd."""

    def __init__(self, child: subprocess.Popen[bytes], keeper: _Keeper) -> None:
        self._child, self._keeper = child, keeper
        self.pid = child.pid
        self._pidfd = os.pidfd_open(child.pid)
        self._exit: Exit | None = None

    def fileno(self) -> int:
        """Return the pidfd."""
        return self._pidfd

    def exit(self) -> Exit | None:
        """Return how it ended, and reap it; None while it runs."""
        if self._exit is None:
            if os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            # While it is not reaped its group cannot be another's: end what it left behind.
            self._send(signal.SIGKILL)
            code = self._child.wait()
            self._keeper.tell("-", self.pid)
            os.close(self._pidfd)
            self._exit = Exit(self.pid, signal=-code) if code < 0 else Exit(self.pid, exit_code=code)
        return self._exit

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to it and to what it started in its session's process group."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._exit is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


class LocalLauncher:
    """Starts child processes of the process that uses it, from a thread that outlives them."""

    def __init__(self) -> None:
        self._keeper: _Keeper | None = None

    def start(self, spec: LaunchSpec) -> LocalProcess:
        """Start one process (see `monarch.abc.Launcher`)."""
        self._keeper = self._keeper or _Keeper()
        try:
            with _bound_to(spec.cpus, spec.memory_nodes):
                child = subprocess.Popen(
                    spec.argv,
                    executable=spec.executable,
                    env=spec.env,
                    stdin=subprocess.DEVNULL,
                    stdout=spec.stdout,
                    stderr=spec.stderr,
                    pass_fds=tuple(spec.descriptors),
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            raise SpawnError(f"cannot start {spec.executable or spec.argv[0]!r}: {error}") from error
        self._keeper.tell("+", child.pid)
        return LocalProcess(child, self._keeper)

    def close(self) -> None:
        """End the launcher's own helper (see `monarch.abc.Launcher`)."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None


@contextlib.contextmanager
def _bound_to(cpus: frozenset[int], nodes: frozenset[int]) -> Iterator[None]:
    """Restrict the calling thread, which a new process inherits, and lift it again."""
    before = os.sched_getaffinity(0)
    try:
        if cpus:
            _set_affinity(cpus)
        if nodes:
            _set_memory_policy(_MPOL_BIND, nodes)
        yield
    finally:
        if cpus:
            os.sched_setaffinity(0, before)
        if nodes:
            _set_memory_policy(_MPOL_DEFAULT, frozenset())


def _set_affinity(cpus: frozenset[int]) -> None:
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        there = sorted(os.sched_getaffinity(0))
        raise OSError(f"cannot bind to processors {sorted(cpus)}, this process may use {there}") from error


def _set_memory_policy(mode: int, nodes: frozenset[int]) -> None:
    if os.uname().machine != "x86_64":
        raise OSError(f"binding memory is not supported on {os.uname().machine}")
    mask = ctypes.c_ulong(sum(1 << node for node in nodes))
    bits = 8 * ctypes.sizeof(mask)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_SET_MEMPOLICY, mode, ctypes.byref(mask) if nodes else None, bits if nodes else 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot bind memory to nodes {sorted(nodes)}: {os.strerror(number)}")


@hookimpl
def monarch_plugin_info() -> PluginInfo:
    """Say what this module offers."""
    return PluginInfo("monarch-core", __version__, ("launcher:local",))


@hookimpl
def monarch_make_launcher(scheme: str) -> LocalLauncher | None:
    """Offer the scheme `local`."""
    return LocalLauncher() if scheme == "local" else None
