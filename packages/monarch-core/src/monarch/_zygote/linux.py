"""What the kernel offers and Python has no function for."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import resource
import signal
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_SET_MEMPOLICY = 238  # system call number on x86_64
_MPOL_BIND = 2
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Be killed when the process `parent`, which forked this one, ends; at once if it has ended."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def be_called(name: str) -> None:
    """Set the name that `ps` and `top` show."""
    _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def bind(cpus: Collection[int], nodes: Collection[int]) -> None:
    """Restrict this thread to processors and NUMA nodes; empty means no restriction."""
    if cpus:
        try:
            os.sched_setaffinity(0, cpus)
        except OSError as error:
            there = sorted(os.sched_getaffinity(0))
            raise OSError(
                f"cannot bind to processors {sorted(cpus)}, this process may use {there}"
            ) from error
    if nodes:
        _bind_memory(nodes)


def _bind_memory(nodes: Collection[int]) -> None:
    if os.uname().machine != "x86_64":
        raise OSError(f"binding memory is not supported on {os.uname().machine}")
    mask = ctypes.c_ulong(sum(1 << node for node in nodes))
    if _libc.syscall(_SET_MEMPOLICY, _MPOL_BIND, ctypes.byref(mask), 8 * ctypes.sizeof(mask)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot bind memory to nodes {sorted(nodes)}: {os.strerror(number)}")


def umask() -> int:
    """Return the mask of this process without changing it for a moment, as `os.umask` would."""
    found = re.search(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 8) if found else 0o022


def limits() -> dict[int, tuple[int, int]]:
    """Return the resource limits of this process."""
    return {which: resource.getrlimit(which) for which in _LIMITS}


def set_limits(wanted: Mapping[int, tuple[int, int]]) -> None:
    """Set the resource limits that are different."""
    for which, limit in wanted.items():
        if resource.getrlimit(which) != limit:
            resource.setrlimit(which, limit)


def standing() -> tuple[object, ...]:
    """Return what a child inherits and no later call can give it: users, groups, namespaces, cgroup."""
    namespaces = []
    for name in sorted(os.listdir("/proc/self/ns")):
        with contextlib.suppress(OSError):
            namespaces.append(os.readlink(f"/proc/self/ns/{name}"))
    with contextlib.suppress(OSError):
        namespaces.append(Path("/proc/self/cgroup").read_text())
    return os.getresuid(), os.getresgid(), os.getgroups(), namespaces


def descriptors() -> list[int]:
    """Return the open descriptors of this process above 2."""
    return [number for number in map(int, os.listdir("/proc/self/fd")) if number > 2]


def above_standard(number: int) -> int:
    """Give a descriptor another number if it has one of the standard streams, which were closed."""
    if number > 2:
        return number
    moved: int = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(number)
    return moved


def families() -> dict[int, list[int]]:
    """Return the children of every process that has any."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            # The name of the program, in brackets, may hold anything.
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    return children


def with_descendants(roots: Iterable[int], children: Mapping[int, Sequence[int]]) -> list[int]:
    """Return processes and all below them."""
    found = list(roots)
    for process in found:
        found += children.get(process, ())
    return found


def kill_all(processes: Iterable[int]) -> None:
    """Send SIGKILL to each that is left."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def fork() -> int:
    """Fork. Python 3.12 and later warn of threads; whoever calls this knows which there are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
