"""Meshes of processes: actors are spawned on them."""

from __future__ import annotations

import inspect
import logging
import pickle
from collections.abc import Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from monarch._actor import Actor, Future, checker, future_of
from monarch._mesh import agents, log_options
from monarch._mesh.actor_mesh import ActorMesh, endpoint_names, introduce
from monarch._runtime import here, sending
from monarch._runtime.children import Child
from monarch._runtime.ids import new_id
from monarch._runtime.pickling import Pickled, dumps
from monarch._runtime.process import Process
from monarch._runtime.restart import NEVER, Restart
from monarch._runtime.sending import Target
from monarch._runtime.spec import SpawnHeader, spec_of
from monarch.errors import MeshClosed, NotAnActor
from monarch.shape import NDSlice, Shape, ShapedMesh
from monarch.wire.codec import SPAWN, STATUS, Envelope

if TYPE_CHECKING:
    from monarch._mesh.host_mesh import HostMesh

A = TypeVar("A", bound=Actor)

_NO_ACTOR = b"\0"


class ProcMesh(ShapedMesh):
    """Operating system processes, laid out as host dimensions by dimensions per host.

    A reference, like all meshes; `stop` ends the processes. Ranks of its shape index `processes`.
    """

    def __init__(
        self,
        name: str,
        shape: Shape,
        processes: Sequence[str],
        agents: Sequence[str],
        closed: list[str] | None = None,
        *,
        restarted: bool = False,
    ) -> None:
        self._name, self._shape = name, shape
        self._processes, self._agents = processes, agents
        self._restarted = restarted  # its processes are, when they end: they need their actors again
        # Shared with all slices of this mesh in this process: the reason, once it has been stopped.
        self._closed: list[str] = [] if closed is None else closed

    def _new_with_shape(self, shape: Shape) -> ProcMesh:
        return ProcMesh(
            self._name, shape, self._processes, self._agents, self._closed, restarted=self._restarted
        )

    def spawn(self, name: str, Class: type[A], *args: Any, **kwargs: Any) -> A:
        """Spawn one actor in each process and return their mesh at once, typed as the class.

        The constructor runs before any message. One that raises is a failure of the mesh.

        The keyword `restart` says what happens when an actor fails: "never", which is the default,
        "rank", "mesh", or a `Restart`. The constructor runs again with the same arguments, and
        references keep working. A constructor that has a parameter of this name gets it instead.

        Args:
            name: for people; it need not be unique.
            Class: a subclass of `Actor`.
            args, kwargs: for the constructor, pickled once.

        Raises:
            NotAnActor: if `Class` is no actor class, or an endpoint has the name of something
                that every mesh has, such as `stop` or `slice` (also `ValueError`).
            TypeError: if the arguments do not fit the constructor.
            WrongArgument: if `restart` is no policy (also `TypeError`).
            MeshClosed: if the mesh has been stopped.
        """
        self._check_open(f"spawn {name!r}")
        _check_class(Class)
        policy = NEVER
        if "restart" not in inspect.signature(Class.__init__).parameters:
            policy = Restart.of(kwargs.pop("restart", NEVER))
        checker(Class.__init__, 1)(*args, **kwargs)
        processes, agents = self._members()
        extent = self.extent
        shape = Shape(extent.labels, NDSlice.new_row_major(extent.sizes))
        content = dumps((Class, args, kwargs, self), f"the class or an argument of {Class.__name__}()")
        process = here.get()
        header = self._header(name, Class, shape, processes, policy)
        target = Target(new_id(), name, shape, processes)
        mesh: Any = ActorMesh(Class, target.uid, name, shape, processes, agents)
        recreate = None
        if self._restarted:
            content = content.kept()
            recreate = partial(_create, process, target, content, header)
        process.children.adopt(
            Child(
                uid=target.uid,
                name=name,
                class_name=Class.__name__,
                owner=header.owner,
                shape=shape,
                processes=processes,
                mesh=mesh,
                stop=mesh.stop,
                recreate=recreate,
            )
        )
        _create(process, target, content, header)
        return mesh  # type: ignore[no-any-return]

    def _members(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        ranks = list(self._ndslice)
        return tuple(self._processes[rank] for rank in ranks), tuple(self._agents[rank] for rank in ranks)

    @staticmethod
    def _header(
        name: str, cls: type, shape: Shape, processes: tuple[str, ...], restart: Restart
    ) -> SpawnHeader:
        process = here.get()
        owner = sending.sender(process)
        specs = [spec for endpoint in endpoint_names(cls) if (spec := spec_of(cls, endpoint))]
        return SpawnHeader(
            name=name,
            class_name=cls.__name__,
            shape=shape,
            processes=processes,
            owner_process=process.address,
            owner=owner._uid,
            owner_name=owner.name,
            owner_rank=owner.rank.rank,
            on_loop=bool(specs) and all(spec.is_async for spec in specs),
            has_async=any(spec.is_async for spec in specs),
            owner_incarnation=process.incarnation,
            restart=restart,
        )

    @cached_property
    def initialized(self) -> Future[Literal[True]]:
        """Done once all processes run and their set-up functions have returned; raises why one did not."""
        question = Envelope(kind=STATUS, actor=_NO_ACTOR)
        processes, _ = self._members()
        return future_of(sending.ask_processes(here.get(), processes, question, lambda states: True))

    @property
    def host_mesh(self) -> HostMesh:
        """The host of these processes.

        Raises:
            NotImplementedError: if they are on several hosts.
        """
        from monarch._mesh.host_mesh import HostMesh

        _, hosts = self._members()
        if len(set(hosts)) != 1:
            raise NotImplementedError(
                f"processes of mesh {self._name!r} are on {len(set(hosts))} hosts; slice it first"
            )
        return HostMesh(Shape.unity(), hosts[:1])

    def logging_option(
        self,
        stream_to_client: bool = True,
        aggregate_window_sec: float | None = None,
        level: int = logging.INFO,
    ) -> Future[None]:
        """Say what this program shows of the output of these processes; done when it holds in all.

        Files have all of it, whatever is shown.

        Args:
            stream_to_client: whether it is shown at all.
            aggregate_window_sec: seconds in which similar lines are folded into one with their
                count; 0 folds nothing, None is 3 seconds.
            level: of the root logger in each process. Records from this level on are written to
                standard error, unless the program has set up handlers of its own.

        Raises:
            ConfigError: for a window that is negative or of output that is not shown, or a level
                outside of 0 to 255 (also `ValueError`).
            MeshClosed: if the mesh has been stopped.
        """
        log_options.check(stream_to_client, aggregate_window_sec, level)
        self._check_open("set options of its logs")
        members = dict(zip(*self._members()))
        return log_options.apply(self.spawn, members, stream_to_client, aggregate_window_sec, level)

    def stop(self, reason: str = "stopped by its program") -> Future[None]:
        """End these processes: actors clean up first, and what does not end in time is killed.

        The future is done when they are gone. Later calls and spawns raise `MeshClosed`.
        """
        processes, hosts = self._members()
        if len(processes) == len(self._processes):
            self._closed.append(reason)
        return agents.stop_processes(dict(zip(processes, hosts)), reason)

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise MeshClosed(f"cannot {what}: process mesh {self._name!r} is stopped: {self._closed[0]}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __reduce__(self) -> tuple[Any, ...]:
        processes, agents = tuple(self._processes), tuple(self._agents)
        return _received, (self._name, self._shape, processes, agents, self._restarted)

    def __repr__(self) -> str:
        return f"<ProcMesh {self._name!r} {self.extent}>"


def _received(
    name: str, shape: Shape, processes: tuple[str, ...], agents: tuple[str, ...], restarted: bool
) -> ProcMesh:
    introduce(processes, agents)
    return ProcMesh(name, shape, processes, agents, restarted=restarted)


def _create(
    process: Process, target: Target, content: Pickled, header: SpawnHeader, position: int = sending.ALL
) -> None:
    """Send the class and the arguments of an actor to all of its processes, or to one."""
    sending.cast(process, target, SPAWN, "", content, position, header=pickle.dumps(header))


def _check_class(cls: Any) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Actor)):
        raise NotAnActor(
            f"{cls!r} is no actor class; spawn takes a class that derives from monarch.actor.Actor"
        )
    taken = sorted(set(endpoint_names(cls)) & set(dir(ActorMesh)))
    if taken:
        raise NotAnActor(
            f"endpoint {taken[0]!r} of {cls.__name__} has the name of something "
            "every mesh of actors has; rename it"
        )


def this_proc() -> ProcMesh:
    """Return the process that this code runs in, as a mesh of one."""
    process = here.get()
    return ProcMesh("this_proc", Shape.unity(), (process.address,), (process.agent,))
