"""The interface of launchers: they start and end operating system processes on one host.

`monarch.testing.LauncherSuite` tests what is promised here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class LaunchSpec:
    """One process to start.

    `argv` and the complete environment `env` are given to the new process as they are;
    `descriptors` stay open in it under the same numbers, and no others do. `cpus` are the processors
    it may run on, `memory_nodes` the NUMA nodes its memory comes from; empty means no restriction.

    `stdout` and `stderr` are descriptors that become its standard output and error; None leaves
    those of the launcher's process. Standard input is empty.

    `entry` is "module:function" where `argv` does no more than to call that function in the
    interpreter of the launcher's own process: a launcher may then fork an interpreter that has its
    modules loaded already, with the same `env`, instead of executing `argv`.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    descriptors: Sequence[int] = ()
    cpus: frozenset[int] = frozenset()
    memory_nodes: frozenset[int] = frozenset()
    executable: str | None = None
    stdout: int | None = None
    stderr: int | None = None
    entry: str | None = None


@dataclass(frozen=True)
class Exit:
    """How a process ended: exactly one of `exit_code` and `signal` is set, or neither if nobody saw it.

    `pid` is None if it was never started.
    """

    pid: int | None
    exit_code: int | None = None
    signal: int | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was killed by signal {self.signal}"
        if self.exit_code is not None:
            return f"exited with code {self.exit_code}"
        return "is gone"


class Process(Protocol):
    """A started process, the first of a session of its own."""

    pid: int

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the process has ended."""

    def exit(self) -> Exit | None:
        """Return how it ended and reap it, or None while it runs. Any number of times."""

    def terminate(self) -> None:
        """Ask it to end. No error if it has ended."""

    def kill(self) -> None:
        """End it at once, with the processes it started in its process group. No error if it has ended."""


class Launcher(Protocol):
    """Starts processes on this host."""

    def start(self, spec: LaunchSpec) -> Process:
        """Start one process and return without waiting for it. Safe from any thread, which may end before it.

        Raises:
            SpawnError: if it cannot be started; the message names the program.
        """

    def close(self) -> None:
        """End what the launcher itself needs; its processes have ended, or been killed. Idempotent.

        A `start` in progress on another thread raises `SpawnError`.
        """
