"""Actors and the meshes they live on: everything that a program needs to run on a cluster."""

import sys

from monarch._actor import (
    Accumulator,
    Actor,
    Channel,
    Endpoint,
    Future,
    Port,
    PortReceiver,
    as_endpoint,
    concurrent_endpoint,
    context,
    current_actor_name,
    current_rank,
    current_size,
    endpoint,
    returns_future,
    send,
)
from monarch._mesh import (
    ActorMesh,
    BootstrapCommand,
    HostMesh,
    ProcMesh,
    default_bootstrap_cmd,
    get_or_spawn_controller,
    shutdown_context,
    status,
    this_host,
    this_proc,
)
from monarch._runtime import supervision
from monarch._runtime.cell import UndeliverableMessageEnvelope
from monarch._runtime.context import Context, Instance
from monarch._runtime.ids import ActorAddr, ProcId, Uid
from monarch._runtime.restart import Restart
from monarch._runtime.spec import ActorStatus
from monarch._runtime.supervision import MeshFailure
from monarch._runtime.supervision import default_fault_hook as unhandled_fault_hook
from monarch.errors import ActorError, SupervisionError
from monarch.shape import Extent, Point, ValueMesh

__all__ = [
    "Accumulator",
    "Actor",
    "ActorAddr",
    "ActorError",
    "ActorMesh",
    "ActorStatus",
    "BootstrapCommand",
    "Channel",
    "Context",
    "Endpoint",
    "Extent",
    "Future",
    "HostMesh",
    "Instance",
    "MeshFailure",
    "Point",
    "Port",
    "PortReceiver",
    "ProcId",
    "ProcMesh",
    "Restart",
    "SupervisionError",
    "Uid",
    "UndeliverableMessageEnvelope",
    "ValueMesh",
    "as_endpoint",
    "concurrent_endpoint",
    "context",
    "current_actor_name",
    "current_rank",
    "current_size",
    "default_bootstrap_cmd",
    "endpoint",
    "get_or_spawn_controller",
    "returns_future",
    "send",
    "shutdown_context",
    "status",
    "this_host",
    "this_proc",
    "unhandled_fault_hook",
]

# Programs assign `monarch.actor.unhandled_fault_hook`, so it is looked up when it is needed.
supervision.root_hook = lambda failure: sys.modules[__name__].unhandled_fault_hook(failure)
