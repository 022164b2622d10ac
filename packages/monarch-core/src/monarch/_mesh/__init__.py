"""Meshes of hosts, processes and actors."""

from monarch._mesh.actor_mesh import ActorMesh, status
from monarch._mesh.command import BootstrapCommand, default_bootstrap_cmd
from monarch._mesh.controller import get_or_spawn_controller
from monarch._mesh.host_mesh import HostMesh, this_host
from monarch._mesh.proc_mesh import ProcMesh, this_proc
from monarch._mesh.shutdown import shutdown_context
from monarch._runtime import context

__all__ = [
    "ActorMesh",
    "BootstrapCommand",
    "HostMesh",
    "ProcMesh",
    "default_bootstrap_cmd",
    "get_or_spawn_controller",
    "shutdown_context",
    "status",
    "this_host",
    "this_proc",
]

context.make_this_proc.append(this_proc)
