"""Who is running: the actor, or the client, on whose behalf a thread or task acts."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from monarch._runtime.ids import ActorAddr, ProcId, Uid
from monarch._runtime.ordering import Numbering
from monarch.shape import Point

if TYPE_CHECKING:
    from monarch._runtime.cell import Cell


class Instance:
    """A running actor, or a client: it sends messages, owns meshes, and has a rank in its mesh."""

    def __init__(
        self,
        *,
        process: str,
        uid: bytes,
        name: str,
        class_name: str,
        rank: Point,
        creator: ActorAddr | None,
        incarnation: int = 0,
    ) -> None:
        self._process, self._uid = process, uid
        # A mesh has one identity; as a sender each of its ranks stands alone.
        self._sender = uid + rank.rank.to_bytes(4, "little")
        if incarnation:  # it numbers its messages from zero again
            self._sender += incarnation.to_bytes(4, "little")
        self.name, self.class_name, self.rank, self.creator = name, class_name, rank, creator
        self._numberings: dict[bytes, Numbering] = {}
        self._cell: Cell | None = None
        self._proc_mesh: Any = None

    @property
    def actor_id(self) -> ActorAddr:
        """Where this actor lives."""
        return ActorAddr(self._process, Uid(self.name, self._uid), self.rank.rank)

    @property
    def proc_id(self) -> ProcId:
        """The process this actor runs in."""
        return proc_id_of(self._process)

    @property
    def proc(self) -> Any:
        """The process this actor runs in, as a mesh of one."""
        return make_this_proc[0]()

    @property
    def proc_mesh(self) -> Any:
        """The mesh of processes that this actor's mesh was spawned on."""
        return self.proc if self._proc_mesh is None else self._proc_mesh

    def abort(self, reason: str | None = None) -> None:
        """Fail this actor: its owner hears of it, and calls to it raise from now on.

        Raises:
            RuntimeError: for a client, which is no actor.
        """
        self._own_cell("abort").abort(reason or "aborted by itself")

    def kill(self, reason: str | None = None) -> None:
        """Fail this actor, without running its `__cleanup__`."""
        self._own_cell("kill").abort(reason or "killed by itself", cleanup=False)

    def stop(self, reason: str | None = None) -> None:
        """Stop this actor gracefully once the messages it has now are handled."""
        self._own_cell("stop").stop_soon(reason or "stopped by itself")

    def _own_cell(self, verb: str) -> Cell:
        if self._cell is None:
            raise RuntimeError(f"cannot {verb} {self.name!r}: it is a client, not an actor")
        return self._cell

    def numbering(self, uid: bytes, size: int) -> Numbering:
        """Return the numbers of this sender for the mesh `uid` of `size` ranks."""
        found = self._numberings.get(uid)
        return found or self._numberings.setdefault(uid, Numbering(size))

    def forget(self, uid: bytes) -> None:
        """Stop counting messages to the mesh `uid`, of which nothing is left."""
        self._numberings.pop(uid, None)

    def __repr__(self) -> str:
        return f"<{self.class_name} {self.name!r} at {self.rank}>"


class Context:
    """The actor that is running, and the rank that the message at hand was addressed to."""

    __slots__ = ("actor_instance", "message_rank")

    def __init__(self, actor_instance: Instance, message_rank: Point) -> None:
        self.actor_instance = actor_instance
        self.message_rank = message_rank

    def __repr__(self) -> str:
        return f"Context({self.actor_instance!r}, message_rank={self.message_rank})"


current: ContextVar[Context | None] = ContextVar("monarch_context", default=None)
"""Set while an actor handles a message; None on a thread that belongs to no actor."""

make_this_proc: list[Callable[[], Any]] = []
"""Filled by the layer of meshes, which knows what one is."""


def proc_id_of(address: str) -> ProcId:
    """Return the identity of the process at `address`, whose last part is its text form."""
    label, _, content = address.rpartition("/")[2].rpartition("-")
    return ProcId(Uid(label, bytes.fromhex(content)))
