"""Finds out whether processes forked from this one can work, before anything depends on it.

A thread pool of the parent does not exist in a forked child, and OpenMP waits for it for ever.
"""

from __future__ import annotations

import os
import select
import signal
import sys

from monarch._zygote import linux

_SECONDS = 1.0
_MANY = 1 << 16  # elements; libraries work on fewer with one thread
_WIDE = 128

# What libraries that cannot be forked call their threads.
_THREADS = ("grpc", "event_engine", "lifeguard")
_ACCELERATORS = ("torch.cuda", "torch.xpu", "torch.mtia")


def obstacle() -> str:
    """Return why this process must not be forked to run Python code, or "" if it may."""
    if len(sys._current_frames()) > 1:
        return "there are several threads"
    for name in _ACCELERATORS:
        backend = sys.modules.get(name)
        if backend is not None and getattr(backend, "is_initialized", bool)():
            return f"{name} is initialised"
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/comm") as file:
            if file.read().startswith(_THREADS):
                return "there are threads of gRPC"
    return ""


def failure() -> str:
    """Return why processes must not be forked from this one, or "" where a child has worked."""
    if (why := obstacle()) or not ({"torch", "numpy"} & set(sys.modules)):
        return why
    parent = os.getpid()
    child = linux.fork()
    if child == 0:
        try:
            linux.die_with(parent)
            _work_in_parallel()
        except BaseException:
            os._exit(1)
        os._exit(0)
    ended = os.pidfd_open(child)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    in_time = bool(poll.poll(_SECONDS * 1000))
    os.close(ended)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not in_time:
        return f"a parallel operation in a forked process did not end in {_SECONDS} s"
    return "" if status == 0 else "a parallel operation in a forked process failed"


def _work_in_parallel() -> None:
    if (torch := sys.modules.get("torch")) is not None:
        torch.ones(_MANY).exp_().sum()
        torch.ones(_WIDE, _WIDE) @ torch.ones(_WIDE, _WIDE)
    elif (numpy := sys.modules.get("numpy")) is not None:
        numpy.ones((_WIDE, _WIDE)) @ numpy.ones((_WIDE, _WIDE))
