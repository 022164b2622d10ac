"""Finds out how a process ended: from the host agent that started it.

A broken connection says that a process is gone, its agent says why. The agent may hear a moment
later than the peers do, so the answer is awaited. Pending calls wait for a second at most; whether
the process is lost or comes back is for its agent to say, however late. A process that is restarted
ends several times, once in each incarnation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from monarch import config
from monarch._runtime.peers import Peer
from monarch._runtime.ports import OneAnswer
from monarch._runtime.promise import Promise
from monarch._runtime.work import Incoming, Work
from monarch.errors import ProcessDied, SupervisionError
from monarch.wire.codec import FATE, Envelope

if TYPE_CHECKING:
    from monarch._runtime.process import Later, Process

_PATIENCE = 0.9  # seconds; a pending call fails within one second, with or without the reason
_KEEP = 1000  # processes
_KEEP_EACH = 16  # incarnations

Told = Callable[[SupervisionError], None]


class Fates:
    """What is known about ends of processes, and who wants to know."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._known: dict[str, dict[int, SupervisionError]] = {}
        self._curious: dict[str, list[tuple[int, Told]]] = {}
        self._agents: dict[str, str] = {}
        self._lock = threading.Lock()

    def introduce(self, addresses: tuple[str, ...], agent: str) -> None:
        """Remember which agent started the processes at `addresses`."""
        for address in addresses:
            self._agents[address] = agent

    def is_over(self, address: str, incarnation: int) -> bool:
        """Whether an incarnation of a process is known to have ended."""
        with self._lock:
            return self._find(address, incarnation) is not None

    def declare(self, address: str, error: SupervisionError, incarnation: int = 0) -> None:
        """State how an incarnation of the process at `address` ended. The first statement holds."""
        told: list[tuple[Told, SupervisionError]] = []
        with self._lock:
            if self._find(address, incarnation) is not None:
                return
            known = self._known.setdefault(address, {})
            known[incarnation] = error
            if len(known) > _KEEP_EACH:
                del known[next(iter(known))]
            if not comes_back(error):
                self._agents.pop(address, None)
            if len(self._known) > _KEEP:
                del self._known[next(iter(self._known))]
            curious = self._curious.pop(address, ())
            waiting = [(each, tell) for each, tell in curious if self._find(address, each) is None]
            if waiting:
                self._curious[address] = waiting
            for each, tell in curious:
                if (found := self._find(address, each)) is not None:
                    told.append((tell, found))
        for tell, found in told:
            tell(found)

    def resolve(self, peer: Peer, declare: Told, overdue: Told) -> None:
        """Find out why `peer` is gone and call `declare` with it.

        If that takes a second, `overdue` is called first: nobody waits for longer.
        """
        address, incarnation = peer.address, peer.incarnation
        told = threading.Event()

        timer: Later | None = None

        def tell(error: SupervisionError) -> None:
            told.set()
            if timer is not None:
                timer.cancel()
            declare(error)

        def is_overdue() -> None:
            overdue(_unseen(address))
            # The agent itself may be gone, or see the process live on: a connection can break alone.
            self._process.later(config.get("message_delivery_timeout"), give_up)

        def give_up() -> None:
            self.declare(address, _unseen(address), incarnation)

        self._tell(address, incarnation, tell)
        if told.is_set():
            return
        agent = self._agents.get(address)
        if agent is None or agent == address:
            self.declare(address, _unseen(address), incarnation)
            return
        if agent != self._process.address:
            self._ask(agent, address, incarnation)
        timer = self._process.later(_PATIENCE, is_overdue)
        if told.is_set():
            timer.cancel()

    def _tell(self, address: str, incarnation: int, tell: Told) -> None:
        with self._lock:
            error = self._find(address, incarnation)
            if error is None:
                self._curious.setdefault(address, []).append((incarnation, tell))
        if error is not None:
            tell(error)

    def _find(self, address: str, incarnation: int) -> SupervisionError | None:
        """Return how an incarnation ended, or one after it, which it cannot have outlived."""
        known = self._known.get(address)
        if not known:
            return None
        latest = max(known)
        is_over = incarnation < latest or not comes_back(known[latest])
        return known.get(incarnation) or (known[latest] if is_over else None)

    def _ask(self, agent: str, address: str, incarnation: int) -> None:
        promise = Promise()
        port = self._process.ports.open(OneAnswer(promise))
        promise.add_callback(lambda: self._answered(address, promise.result(), incarnation))
        question = Envelope(kind=FATE, endpoint=address, rank=incarnation, port=port)
        self._process.peer(agent).post(question)

    def _answered(self, address: str, error: SupervisionError, incarnation: int) -> None:
        # The answer may be about a later incarnation than the question was.
        self.declare(address, error, max(incarnation, getattr(error, "incarnation", 0)))

    def asked(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        """Answer another process, as soon as the end is known."""
        work = Work(envelope, buffers, peer)
        reply = partial(self._process.reply, work, 0, name="fate")
        self._tell(envelope.endpoint, envelope.rank, reply)


def comes_back(error: SupervisionError) -> bool:
    """Whether the process that ended this way is restarted."""
    return isinstance(error, ProcessDied) and error.restarting


def _unseen(address: str) -> SupervisionError:
    return ProcessDied(f"the process at {address} is gone, and nobody saw how it ended")
