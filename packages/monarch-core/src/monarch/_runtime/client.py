"""Starts and ends the runtime of a client: the program that owns everything it spawns."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import threading
from collections.abc import Callable

from monarch import config
from monarch._runtime import here, supervision
from monarch._runtime.context import Instance
from monarch._runtime.folders import make_folder
from monarch._runtime.ids import new_id
from monarch._runtime.process import Process
from monarch.plugins import transport_for
from monarch.shape import Extent, Point

_EXIT_BUDGET = 1.0  # seconds at the end of the program for actors to clean up


def new_address(folder: str, label: str) -> str:
    """Return the address of a new process in a runtime folder."""
    return f"ipc://{folder}/{label}-{new_id().hex()}"


def folder_of(address: str) -> str:
    """Return the runtime folder that holds an address."""
    return os.path.dirname(address.removeprefix("ipc://"))


def start_client() -> Process:
    """Make this process a client, with a runtime folder that only its user can open."""
    folder, lock = make_folder()
    address = new_address(folder, "client")
    try:
        listener = transport_for("ipc").listen(address)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        raise
    process = Process(address, listener, root=address, agent=address)
    process.client = instance_of(process, "client")
    process.private_descriptors.append(lock)
    here.put(process)
    threading.Thread(target=process.reactor.stand_by, name="monarch-stand-by", daemon=True).start()
    supervision.before_exit = lambda: end_client(_EXIT_BUDGET)
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)
    _end_with_multiprocessing()
    return process


def _end_with_multiprocessing() -> None:
    """Processes of `multiprocessing` end without exit functions, and have their own in place of them."""
    if "multiprocessing.process" in sys.modules and sys.modules["multiprocessing.process"].parent_process():
        from multiprocessing.util import Finalize

        Finalize(None, _at_exit, exitpriority=0)


def instance_of(process: Process, name: str) -> Instance:
    """Return who acts on threads that belong to no actor."""
    nowhere = Point(0, Extent([], []))
    return Instance(
        process=process.address, uid=new_id(), name=name, class_name="Client", rank=nowhere, creator=None
    )


before_end: list[Callable[[float], None]] = []
"""What has to end with the client, given the seconds that it has; `monarch._mesh` adds its hosts."""


def end_client(seconds: float) -> None:
    """End everything the client started, within about `seconds`, and let it start afresh. Idempotent."""
    process = here.running()
    if process is None or process.root != process.address or process.ending:
        return
    process.ending = True
    for end in before_end:
        end(seconds)
    process.close()
    here.put(None)
    process.has_ended.set()
    shutil.rmtree(folder_of(process.address), ignore_errors=True)
    for descriptor in process.private_descriptors:
        os.close(descriptor)


def wait_for_end() -> None:
    """Wait until a client that is ending has ended, so that what comes next is the work of a new one."""
    process = here.running()
    if process is not None and process.ending and process.root == process.address:
        process.has_ended.wait(config.get("process_exit_timeout"))


program_ends = False
"""Whether the interpreter is on its way out."""


def _at_exit() -> None:
    global program_ends
    program_ends = True
    end_client(_EXIT_BUDGET)


def _before_threads_are_joined() -> None:
    """After an unhandled Ctrl-C, let go the threads that wait for actors: Python would wait for them."""
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        _at_exit()


# Private, but all there is that runs before threads are joined; `concurrent.futures` uses it, too.
threading._register_atexit(_before_threads_are_joined)  # type: ignore[attr-defined]
