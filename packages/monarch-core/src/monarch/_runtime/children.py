"""The meshes that actors of this process own: which of their ranks live, and what becomes of them.

An owner hears of each rank that fails, once. A rank fails by itself, which its process reports,
or with its process, which this process notices as its peer is lost. A rank that was stopped is
no failure. What a restarted process has to have again, its owner sends it again.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from monarch._runtime.fates import comes_back
from monarch._runtime.supervision import MeshFailure
from monarch.errors import MeshClosed, SupervisionError
from monarch.shape import Shape

if TYPE_CHECKING:
    from monarch._runtime.process import Process


_KEEP_TOLD = 1000


@dataclass(eq=False)
class Child:
    """One mesh, of actors or of processes, as its owner knows it. Ranks index `processes`."""

    uid: bytes
    name: str
    class_name: str
    owner: bytes
    shape: Shape
    processes: Sequence[str]
    mesh: Any
    stop: Callable[[str], Awaitable[Any]]
    recreate: Callable[[int], None] | None = None
    """Creates the actor of one rank anew in its restarted process, where processes are restarted."""
    of_processes: bool = False
    living: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.living = set(range(len(self.processes)))


class Children:
    """All meshes owned by actors of one process, or by its client."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._children: dict[bytes, Child] = {}
        # Processes whose end an owner has heard of through its actors, until the agent reports it too.
        self._told: dict[tuple[str, bytes], None] = {}
        self._lock = threading.RLock()

    def adopt(self, child: Child) -> None:
        """Watch a mesh that has just been spawned."""
        with self._lock:
            self._children[child.uid] = child

    def of(self, owner: bytes) -> Sequence[Child]:
        """Return the meshes of one owner that have living ranks, the youngest first."""
        with self._lock:
            return [child for child in reversed(self._children.values()) if child.owner == owner]

    def _at(self, address: str) -> Sequence[tuple[Child, int]]:
        """Return the meshes of actors with a living rank in the process at `address`, and that rank."""
        with self._lock:
            return [
                (child, child.processes.index(address))
                for child in self._children.values()
                if not child.of_processes and address in child.processes
            ]

    def ended(self, uid: bytes, rank: int) -> bool:
        """A rank has ended, well or not; False if that was known."""
        with self._lock:
            child = self._children.get(uid)
            if child is None or rank not in child.living:
                return False
            child.living.discard(rank)
            if not child.living:
                del self._children[uid]
                self._process.forget_mesh(uid)
            return True

    # ---- failures

    def failed(self, uid: bytes, owner: bytes, failure: MeshFailure) -> None:
        """A rank of a mesh reports its failure, or the agent that of a process."""
        child = self._children.get(uid)
        if child is not None:
            failure = replace(failure, mesh=child.mesh)
        elif self._process.incarnation:
            return  # of what an actor owned that lived here before
        if not failure.restarting and not self.ended(uid, failure.rank) and child is not None:
            return
        if child is not None and child.of_processes:
            if self._hears_from_actors(failure.process, owner):
                return
            failure = replace(failure, observed=self._process.network.was_awaited(failure.process))
        elif child is not None and not failure.restarting and self._is_awaited(child, failure):
            failure = replace(failure, observed=True)
        self._process.supervise(owner, failure)

    def _is_awaited(self, child: Child, failure: MeshFailure) -> bool:
        """Whether a call is on its way to the failed actor, which will refuse it."""
        address = child.processes[failure.rank]
        return self._process.network.awaits(address, child.uid, besides=failure.endpoint)

    def _hears_from_actors(self, address: str, owner: bytes) -> bool:
        """Whether an owner of processes hears of the end of one through its actors there."""
        with self._lock:
            if (address, owner) in self._told:
                del self._told[address, owner]
                return True
        return any(child.owner == owner and rank in child.living for child, rank in self._at(address))

    def process_lost(self, address: str, error: SupervisionError, *, awaited: bool) -> None:
        """A process is gone; if it was `awaited`, a pending call has raised that already."""
        for child, rank in self._at(address):
            if rank not in child.living:
                continue
            if not comes_back(error):
                self.ended(child.uid, rank)
            if not isinstance(error, MeshClosed):
                if not comes_back(error):
                    self._remember(address, child.owner)
                failure = _with_process(child, rank, address, error)
                self._process.supervise(child.owner, replace(failure, observed=awaited))

    def _remember(self, address: str, owner: bytes) -> None:
        with self._lock:
            self._told[address, owner] = None
            if len(self._told) > _KEEP_TOLD:  # of processes that others own, nobody reports to us
                del self._told[next(iter(self._told))]

    def process_returned(self, address: str) -> None:
        """A restarted process can be reached: it gets its actors again."""
        for child, rank in self._at(address):
            if rank in child.living and child.recreate is not None:
                child.recreate(rank)


def _with_process(child: Child, rank: int, address: str, error: SupervisionError) -> MeshFailure:
    """Return the failure of an actor that ended with its process."""
    facts: dict[str, Any] = {name: getattr(error, name, None) for name in ("exit_code", "signal", "pid")}
    facts["stderr"] = getattr(error, "stderr", "")
    return MeshFailure(
        mesh_name=child.name,
        rank=rank,
        coordinates=dict(child.shape.extent.point_of_rank(rank)),
        class_name=child.class_name,
        cause=error.args[0],
        process=address,
        restarting=comes_back(error),
        mesh=child.mesh,
        **facts,
    )
