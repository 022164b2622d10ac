"""What is told about a failure, and who is told: the owner of the mesh, then the owner's owner."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import textwrap
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_log = logging.getLogger("monarch")

_EXIT_FUNCTIONS_SECONDS = 5.0


@dataclass(frozen=True)
class MeshFailure:
    """One rank of a mesh failed: for good, unless it is `restarting`.

    `rank` counts in the mesh as it was spawned and `coordinates` are its labels there. At most
    one of `exit_code` and `signal` is set, and only if the process ended. `endpoint` names what
    ran, if anything did, and `traceback` is that of what it raised; `process` is set if the whole
    process ended, and `stderr` has its last lines. `observed` is True if a pending call raised the
    failure already. `restarting` says that a restart policy brings the rank back: its owner is told,
    and need not do anything. `mesh` is the mesh, where its owner is told.
    """

    mesh_name: str
    rank: int
    class_name: str
    cause: str
    coordinates: Mapping[str, int] = field(default_factory=dict)
    host: str = field(default_factory=socket.gethostname)
    endpoint: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    pid: int | None = None
    process: str = ""
    stderr: str = ""
    observed: bool = False
    restarting: bool = False
    traceback: str = field(default="", repr=False)
    because: MeshFailure | None = None
    mesh: Any = field(default=None, compare=False, repr=False)

    def report(self) -> str:
        """Return the failure as text for people: what, where, and why, one fact a line."""
        lines = [str(self), f"  class: {self.class_name}", f"  host: {self.host}"]
        facts = (
            ("endpoint", self.endpoint),
            ("exit code", self.exit_code),
            ("signal", self.signal),
            ("pid", self.pid),
        )
        lines += [f"  {name}: {value}" for name, value in facts if value is not None]
        if self.stderr:
            lines.append("  stderr:\n" + textwrap.indent(self.stderr, "    "))
        if self.traceback:
            lines.append(textwrap.indent(self.traceback.rstrip(), "  "))
        if self.because is not None:
            lines.append("  because: " + self.because.report().replace("\n", "\n  "))
        return "\n".join(lines)

    def __str__(self) -> str:
        what = "failed and is restarted" if self.restarting else "failed"
        return f"mesh {self.mesh_name!r} {what}: crashed_ranks=[{self.rank}]: {self.cause}"


def default_fault_hook(failure: MeshFailure) -> None:
    """End the program with exit code 1, unless a call of this program raised the failure already.

    Whoever works in an interactive interpreter or a notebook is told, and keeps what is there.
    """
    if failure.observed:
        _log.warning("%s (already raised by a call)", failure)
    elif hasattr(sys, "ps1"):
        _print(failure, "unhandled failure")
    else:
        _print(failure, "unhandled failure, the program ends")
        sys.exit(1)


_printing = threading.Lock()
_printed: tuple[str, str] | None = None


def _print(failure: MeshFailure, what: str) -> None:
    """Print a failure in full, or in one line if another rank has just failed in the same way."""
    global _printed
    way = (failure.mesh_name, failure.traceback)
    with _printing:
        text = str(failure) if failure.traceback and way == _printed else f"{what}:\n{failure.report()}"
        _printed = way
        print(f"monarch: {text}", file=sys.stderr, flush=True)


root_hook: Callable[[MeshFailure], object] = default_fault_hook
"""Called at the root for what no owner handled; `monarch.actor` puts the user's hook behind it."""


def _nothing() -> None:
    pass


before_exit: Callable[[], object] = _nothing
"""Ends what this client started; set when the client starts."""


def at_root(failure: MeshFailure) -> None:
    """Run the root's hook on a thread of its own: it may take its time, and it may end the program.

    What a restart policy mends is no affair of the hook; it is logged.
    """
    if failure.restarting:
        _log.warning("%s", failure)
        return
    threading.Thread(target=_run_hook, args=(failure,), name="monarch-fault-hook", daemon=True).start()


def _run_hook(failure: MeshFailure) -> None:
    try:
        root_hook(failure)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else (0 if ending.code is None else 1)
        _end_program(code)
    except BaseException:
        _log.exception("unhandled_fault_hook raised")


_ends = threading.Lock()


def _end_program(code: int) -> None:
    """End the program as its main thread would, which may be in any blocking call and cannot be asked to."""
    if not _ends.acquire(blocking=False):
        return  # another failure ends it already, and may not be cut short
    before_exit()
    overdue = threading.Timer(_EXIT_FUNCTIONS_SECONDS, os._exit, (code,))
    overdue.daemon = True
    overdue.start()
    atexit._run_exitfuncs()  # those of the program; there is no public way to run them
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
