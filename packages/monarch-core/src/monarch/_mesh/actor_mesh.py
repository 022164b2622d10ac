"""References to meshes of actors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from monarch._actor import Endpoint, EndpointProperty, Future, NotAnEndpoint, future_of
from monarch._runtime import here, sending
from monarch._runtime.pickling import dumps
from monarch._runtime.sending import Target
from monarch._runtime.spec import READY, ActorStatus, spec_of
from monarch.shape import NDSlice, Shape, ShapedMesh, ValueMesh
from monarch.wire.codec import STATUS, Envelope

T = TypeVar("T")

_NOTHING = dumps(((), {}), "nothing")


class ActorMesh(ShapedMesh, Generic[T]):
    """Actors of one class, one in each process of a mesh, called through their endpoints.

    A reference: it can be sliced, pickled and sent in messages, and owns nothing. Endpoints of the
    class are attributes: `mesh.method.call(...)`.
    """

    def __init__(
        self,
        cls: type[T],
        uid: bytes,
        name: str,
        shape: Shape,
        processes: Sequence[str],
        agents: Sequence[str],
    ) -> None:
        self._class = cls
        self._shape = shape
        self._target = Target(uid, name, shape, processes)
        self._agents = agents

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        cls = self.__dict__.get("_class")
        spec = None if cls is None else spec_of(cls, name)
        if cls is None or spec is None:
            known = "" if cls is None else ", ".join(endpoint_names(cls))
            raise AttributeError(
                f"actor class {getattr(cls, '__name__', '?')} has no endpoint {name!r}; "
                f"it has {known or 'none'}"
            )
        method = getattr(cls, name)
        found: Any
        if isinstance(method, EndpointProperty):
            found = Endpoint(self._target, name, spec, method.propagate)
        else:
            found = NotAnEndpoint(self._target, cls, name)
        self.__dict__[name] = found
        return found

    @property
    def _name(self) -> str:
        return self._target.name

    def _new_with_shape(self, shape: Shape) -> ActorMesh[T]:
        target = self._target
        return ActorMesh(self._class, target.uid, target.name, shape, target.processes, self._agents)

    @cached_property
    def initialized(self) -> Future[Literal[True]]:
        """Done once all constructors have run; raises the failure of one that raised."""
        return future_of(sending.call_all(here.get(), self._target, READY, _NOTHING, lambda values: True))

    def stop(self, reason: str = "stopped by its program") -> Future[None]:
        """Stop these actors once the messages sent before are handled; the future is done when they are.

        Later calls raise `MeshClosed`, a `SupervisionError`, with the reason.
        """
        content = dumps(reason, "the reason")
        return future_of(sending.stop_all(here.get(), self._target, content))

    def __reduce__(self) -> tuple[Any, ...]:
        target = self._target
        facts = (
            self._class,
            target.uid,
            target.name,
            target.shape,
            tuple(target.processes),
            tuple(self._agents),
        )
        return _received, facts

    def __repr__(self) -> str:
        return f"<ActorMesh {self._name!r} of {self._class.__name__} {self.extent}>"


def _received(
    cls: type[T], uid: bytes, name: str, shape: Shape, processes: tuple[str, ...], agents: tuple[str, ...]
) -> ActorMesh[T]:
    introduce(processes, agents)
    return ActorMesh(cls, uid, name, shape, processes, agents)


def introduce(processes: Sequence[str], agents: Sequence[str]) -> None:
    """Remember which agent knows how each process ends."""
    fates = here.get().fates
    for process, agent in zip(processes, agents):
        fates.introduce((process,), agent)


def endpoint_names(cls: type) -> list[str]:
    """Return the names of the endpoints of an actor class."""
    return [name for name in dir(cls) if isinstance(getattr(cls, name, None), EndpointProperty)]


def status(mesh: ActorMesh[Any]) -> Future[ValueMesh[ActorStatus | None]]:
    """Return what each actor of a mesh is doing now: its handler, for how long, and what is queued.

    It is answered beside the actors' messages, so also while they are busy or blocked. The value
    is None for an actor that has ended or is not there yet.
    """
    process, target = here.get(), mesh._target
    extent = target.shape.extent
    shape = Shape(extent.labels, NDSlice.new_row_major(extent.sizes))

    def combine(states: list[list[ActorStatus]]) -> ValueMesh[ActorStatus | None]:
        return ValueMesh(shape, [found[0] if found else None for found in states])

    addresses = [target.processes[rank] for rank in target.ranks]
    return future_of(
        sending.ask_processes(process, addresses, Envelope(kind=STATUS, actor=target.uid), combine)
    )
