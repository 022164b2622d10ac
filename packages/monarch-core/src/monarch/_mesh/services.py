"""The actors that every client has: the agent of its own host, and the registry of controllers."""

from __future__ import annotations

import pickle
import threading
import time

from monarch._actor import Actor
from monarch._mesh.controller import Registry
from monarch._mesh.host_agent import HostAgent
from monarch._mesh.identities import AGENT, REGISTRY
from monarch._runtime import client, here, sending
from monarch._runtime.pickling import dumps
from monarch._runtime.process import Process
from monarch._runtime.sending import Target
from monarch._runtime.spec import SpawnHeader
from monarch.shape import Shape
from monarch.wire.codec import SPAWN

_lock = threading.Lock()
_LOOK = 0.002  # seconds between two looks at actors that end


def start() -> None:
    """Start them in a client that does not have them; other processes use those of their client."""
    client.wait_for_end()
    process = here.get()
    if process.root != process.address or process.cell(AGENT) is not None:
        return
    with _lock:
        if process.cell(AGENT) is None:
            _spawn(AGENT, "host agent", HostAgent)
            _spawn(REGISTRY, "controllers", Registry)


def _spawn(uid: bytes, name: str, cls: type[Actor]) -> None:
    process = here.get()
    here_alone = (process.address,)
    header = SpawnHeader(
        name=name,
        class_name=cls.__name__,
        shape=Shape.unity(),
        processes=here_alone,
        owner_process=process.address,
        owner=sending.sender(process)._uid,
        owner_name="client",
        owner_rank=0,
        on_loop=False,
        has_async=False,
    )
    target = Target(uid, name, Shape.unity(), here_alone)
    content = dumps((cls, (), {}, None), name)
    sending.cast(process, target, SPAWN, "", content, header=pickle.dumps(header))


def _end(seconds: float) -> None:
    process = here.get()
    deadline = time.monotonic() + seconds
    _stop_actors(process, deadline - seconds / 2)
    cell = process.cell(AGENT)
    if cell is not None and cell.actor is not None:
        cell.actor.end_all(max(0.0, deadline - time.monotonic()))


def _stop_actors(process: Process, deadline: float) -> None:
    """Stop what the program spawned in its own process, as it is stopped in others."""
    own = [cell for cell in process.cells() if cell.uid not in (AGENT, REGISTRY)]
    for cell in reversed(own):
        cell.stop_soon("its client has ended")
    while any(cell.error is None for cell in own) and time.monotonic() < deadline:
        time.sleep(_LOOK)


client.before_end.append(_end)
