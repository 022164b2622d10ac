"""Meshes of hosts: processes are spawned on them."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Any, Literal, Self

from monarch import config
from monarch._actor import Future
from monarch._logs.output import OutputOptions
from monarch._mesh import agents, services
from monarch._mesh.actor_mesh import introduce
from monarch._mesh.boot import Parcel
from monarch._mesh.command import BootstrapCommand, checked_bindings, default_bootstrap_cmd
from monarch._mesh.host_agent import SpawnRequest
from monarch._mesh.proc_mesh import ProcMesh
from monarch._runtime import here, sending
from monarch._runtime.children import Child
from monarch._runtime.ids import new_id
from monarch._runtime.pickling import dumps
from monarch._runtime.restart import NEVER, Restart, Scope
from monarch._runtime.spec import READY
from monarch.errors import MeshClosed, ShapeError, WrongArgument
from monarch.shape import Extent, NDSlice, Point, Shape, ShapedMesh

Command = BootstrapCommand | Callable[[Point], BootstrapCommand]


class HostMesh(ShapedMesh):
    """Hosts, each with an agent that starts processes there. A reference, like all meshes."""

    def __init__(
        self,
        shape: Shape,
        agents: Sequence[str],
        command: BootstrapCommand | None = None,
        closed: list[str] | None = None,
    ) -> None:
        self._shape, self._agents, self._command = shape, agents, command
        self._closed: list[str] = [] if closed is None else closed

    def _new_with_shape(self, shape: Shape) -> HostMesh:
        return HostMesh(shape, self._agents, self._command, self._closed)

    def with_python_executable(self, path: str) -> HostMesh:
        """Return the same hosts, whose processes run this Python interpreter."""
        command = replace(self._command or default_bootstrap_cmd(), program=path)
        return HostMesh(self._shape, self._agents, command, self._closed)

    def spawn_procs(
        self,
        per_host: Mapping[str, int] | None = None,
        bootstrap: Callable[[], Awaitable[None] | None] | None = None,
        name: str | None = None,
        proc_bind: Sequence[Mapping[str, str]] | None = None,
        bootstrap_command: Command | None = None,
        restart: Scope | Restart = NEVER,
    ) -> ProcMesh:
        """Start processes on every host and return their mesh, without waiting for them to run.

        Args:
            per_host: dimensions and sizes on each host; one process without them. The mesh has the
                dimensions of the hosts, then these.
            bootstrap: a function, sync or async, that runs in each process before any actor.
            name: of the mesh, for people.
            proc_bind: for each process of a host, a dict with `cpus` or `physcpubind` (processors),
                `cpunodebind` or `membind` (NUMA nodes), as text such as "0-3,8".
            bootstrap_command: what to start, or a function of the process's point in the mesh.
            restart: what happens when a process ends by itself: "never", "rank" (it is started again),
                "mesh" (all are), or a `Restart`. The actors that were spawned on it are created again
                with the same arguments, and references keep working.

        Raises:
            WrongArgument: for an argument of the wrong type (also `TypeError`).
            ShapeError: if a label occurs twice, a size is not positive, or `proc_bind` has the wrong
                length (also `ValueError`).
            MeshClosed: if the hosts have been shut down (also `RuntimeError`).
            SpawnError: if a host does not take the request.
        """
        if self._closed:
            raise MeshClosed(f"cannot spawn processes: the hosts are shut down: {self._closed[0]}")
        inner = _checked({} if per_host is None else per_host)
        if bootstrap is not None and not callable(bootstrap):
            raise WrongArgument(f"bootstrap takes a function without arguments, not {bootstrap!r}")
        extent = _product(self.extent, inner)
        each = math.prod(inner.values())
        bindings = checked_bindings(proc_bind, each)
        services.start()
        policy = Restart.of(restart)
        process, label, uid = here.get(), name or "procs", new_id()
        owner = sending.sender(process)
        parcel, output = _parcel(bootstrap), OutputOptions.configured()
        requests = []
        for first in range(0, extent.nelements, each):
            ranks = range(first, first + each)
            commands = [self._command_for(bootstrap_command, extent, rank) for rank in ranks]
            requests.append(
                SpawnRequest(
                    uid,
                    label,
                    extent,
                    list(ranks),
                    commands,
                    bindings,
                    parcel,
                    process.address,
                    owner._uid,
                    process.incarnation,
                    policy,
                    output,
                )
            )
        hosts = [self._agents[rank] for rank in self._ndslice]
        promises = agents.ask(hosts, "spawn", [(request,) for request in requests], "a bootstrap command")
        processes = [address for answer in agents.wait(promises, "spawn_procs") for address in answer]
        owners = [host for host in hosts for _ in range(each)]
        introduce(processes, owners)
        shape = Shape(extent.labels, NDSlice.new_row_major(extent.sizes))
        mesh = ProcMesh(label, shape, tuple(processes), tuple(owners), restarted=policy.scope != "never")
        process.children.adopt(
            Child(
                uid=uid,
                name=label,
                class_name="process",
                owner=owner._uid,
                shape=shape,
                processes=processes,
                mesh=mesh,
                stop=mesh.stop,
                of_processes=True,
            )
        )
        return mesh

    def _command_for(self, given: Command | None, extent: Extent, rank: int) -> BootstrapCommand:
        if callable(given):
            given = given(extent.point_of_rank(rank))
        command = self._command or default_bootstrap_cmd() if given is None else given
        if not isinstance(command, BootstrapCommand):
            raise WrongArgument(
                f"bootstrap_command takes a BootstrapCommand, or a function of a point that returns one, "
                f"not {command!r}"
            )
        return command

    @cached_property
    def initialized(self) -> Future[Literal[True]]:
        """Done once every host's agent answers."""
        services.start()
        hosts = [self._agents[rank] for rank in self._ndslice]
        return agents.joined(agents.ask(hosts, READY, [()] * len(hosts), "nothing"), lambda answers: True)

    def stop(self, reason: str = "stopped by its program") -> Future[None]:
        """End all processes of these hosts; the hosts stay, and take new ones."""
        hosts = [self._agents[rank] for rank in self._ndslice]
        services.start()
        promises = agents.ask(hosts, "stop_processes", [(None, reason)] * len(hosts), "the reason")
        return agents.joined(promises, lambda answers: None)

    def shutdown(self, reason: str = "shut down by its program") -> Future[None]:
        """End all processes of these hosts, for good: this mesh and its slices spawn nothing more."""
        self._closed.append(reason)
        return self.stop(reason)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    def __reduce__(self) -> tuple[Any, ...]:
        return HostMesh, (self._shape, tuple(self._agents), self._command)

    def __repr__(self) -> str:
        return f"<HostMesh {self.extent}>"


def _checked(per_host: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(per_host, Mapping):
        raise WrongArgument(f"per_host takes a dict of dimension names to sizes, not {per_host!r}")
    for label, size in per_host.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ShapeError(
                f"per_host gives dimension {label!r} the size {size!r}; sizes are whole numbers from 1"
            )
    return dict(per_host)


def _product(hosts: Extent, per_host: Mapping[str, int]) -> Extent:
    if both := [label for label in per_host if label in hosts]:
        raise ShapeError(
            f"dimension {both[0]!r} of per_host is a dimension of the hosts already; choose another name"
        )
    return Extent([*hosts.labels, *per_host], [*hosts.sizes, *per_host.values()])


def _parcel(bootstrap: Callable[[], Any] | None) -> bytes:
    set_up = None if bootstrap is None else _bytes(bootstrap, "the bootstrap function")
    parcel = Parcel(
        list(sys.path),
        sys.prefix,
        list(sys.argv),
        config.get_runtime_config(),
        config.get_file_config(),
        set_up,
    )
    return _bytes(parcel, "the settings")


def _bytes(value: Any, what: str) -> bytes:
    content = dumps(value, what)
    if content.buffers and not content.body_in_buffer:
        raise ShapeError(f"{what} holds large arrays; pass them to an actor instead")
    return b"".join(bytes(chunk) for chunk in content.buffers[0]) if content.body_in_buffer else content.body


def this_host() -> HostMesh:
    """Return the host that this code runs on, as a mesh of one without dimensions."""
    services.start()
    return HostMesh(Shape.unity(), (here.get().agent,))
