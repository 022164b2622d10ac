"""Tells a process that the kernel killed for want of memory from one that somebody killed.

Both end by SIGKILL. The kernel counts its own kills for each control group, and processes of a host
are in the group of their agent unless they were moved.
"""

from __future__ import annotations

from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


class KernelKills:
    """The kills for want of memory in the control group of this process, from now on."""

    def __init__(self) -> None:
        self._file = _counter()
        self._known = self._count()

    def explain(self) -> bool:
        """Whether the kernel killed one that has not been asked about; it is, from now on."""
        if self._count() <= self._known:
            return False
        self._known += 1
        return True

    def _count(self) -> int:
        if self._file is None:
            return 0
        try:
            fields = (line.split() for line in self._file.read_text().splitlines())
            return next((int(number) for name, number in fields if name == "oom_kill"), 0)
        except (OSError, ValueError):
            return 0


def _counter() -> Path | None:
    """Return the file with the count of kills; None where there is none to read."""
    try:
        entries = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return None
    for _, controllers, group in entries:
        if "memory" in controllers.split(","):  # version 1
            return _GROUPS / "memory" / group.lstrip("/") / "memory.oom_control"
    for _, controllers, group in entries:
        if not controllers:  # version 2
            return _GROUPS / group.lstrip("/") / "memory.events"
    return None
