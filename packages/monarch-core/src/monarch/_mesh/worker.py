"""The main program of an actor process.

Its agent gives it, by inherited descriptors, the socket it listens on, a lifeline that closes
when the agent is gone, and a sealed parcel with what it has to do before any actor. The one
environment variable that says which is removed before any code of the user runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from importlib import import_module

from monarch import config
from monarch._debug import hook
from monarch._logs import records, streams
from monarch._mesh.boot import Boot, Parcel, SetUp
from monarch._mesh.controller import source_of
from monarch._runtime import here
from monarch._runtime.client import instance_of
from monarch._runtime.pickling import loads
from monarch._runtime.process import Process
from monarch._runtime.tracebacks import format_from_user
from monarch.errors import SpawnError
from monarch.plugins import transport_for


def warm_up() -> None:
    """Import whatever every actor process imports, in a process that they are forked from."""
    import_module("cloudpickle")
    transport_for("ipc")


def main() -> None:
    """Live as an actor process until told to stop, or until the agent is gone."""
    boot = Boot.from_env(os.environ)
    process = Process(
        boot.address,
        transport_for(boot.address.partition(":")[0]).adopt(boot.address, boot.listener),
        root=boot.root,
        agent=boot.agent,
        incarnation=boot.incarnation,
    )
    process.client = instance_of(process, "proc")
    process.fates.introduce((boot.root,), boot.root)
    process.reactor.watch(boot.lifeline, lambda events: os._exit(0))
    process.on_shutdown = lambda: _shut_down(process)
    here.put(process)
    streams.install(process, boot.pipes)
    records.install()
    hook.install(source_of)
    _unpack(process, boot.parcel)
    process.reactor.stand_by()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # the program may have closed it
            stream.flush()


def _unpack(process: Process, descriptor: int) -> None:
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        parcel: Parcel = loads(file.read(), (), False)
    if parcel.prefix == sys.prefix:
        sys.path[:] = parcel.path
    else:  # another environment: its own packages come first, then the program's modules
        sys.path.extend(entry for entry in parcel.path if entry not in sys.path)
    sys.argv[:] = parcel.argv
    config.use_file_config(parcel.file_settings)
    config.configure(**parcel.settings)
    if parcel.set_up is not None:
        _run_set_up(process, parcel.set_up)


def _run_set_up(process: Process, content: bytes) -> None:
    try:
        set_up: SetUp = loads(content, (), False)
        outcome = set_up()
        if asyncio.iscoroutine(outcome):
            asyncio.run(outcome)
    except Exception as error:
        if process.incarnation:
            raise  # it ends, and is started again or not, as its policy says
        text = format_from_user(error)
        process.broken = SpawnError(f"the bootstrap function of the process raised {error!r}\n{text}")


def _shut_down(process: Process) -> None:
    """Stop all actors in the reverse order of their birth, then end. Idempotent."""
    if process.ending:
        return
    process.ending = True
    empty = threading.Event()
    process.on_empty = empty.set
    hook.end_all()
    for cell in reversed(process.cells()):
        cell.stop_soon("its process was stopped")
    if process.cells():
        empty.wait(config.get("stop_actor_timeout"))
    process.close()


if __name__ == "__main__":
    main()
