"""Finds out how a process ended: from the host agent that started it.

A broken connection says that a process is gone, its agent says why. The agent may hear a moment
later than the peers do, so the answer is awaited, with a deadline; without one the error says
that nobody saw the end. A process that is restarted ends several times, once in each incarnation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from monarch._runtime.peers import Peer
from monarch._runtime.ports import OneAnswer
from monarch._runtime.promise import Promise
from monarch._runtime.work import Incoming, Work
from monarch.errors import ProcessDied, SupervisionError
from monarch.wire.codec import FATE, Envelope

if TYPE_CHECKING:
    from monarch._runtime.process import Process

_PATIENCE = 0.9  # seconds; a pending call fails within one second, with or without the reason
_KEEP = 10_000  # processes
_KEEP_EACH = 16  # incarnations

Told = Callable[[SupervisionError], None]


class Fates:
    """What is known about ends of processes, and who wants to know."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._known: dict[str, dict[int, SupervisionError]] = {}
        self._curious: dict[tuple[str, int], list[Told]] = {}
        self._agents: dict[str, str] = {}
        self._lock = threading.Lock()

    def introduce(self, addresses: tuple[str, ...], agent: str) -> None:
        """Remember which agent started the processes at `addresses`."""
        for address in addresses:
            self._agents[address] = agent

    def declare(self, address: str, error: SupervisionError, incarnation: int = 0) -> None:
        """State how an incarnation of the process at `address` ended. The first statement holds."""
        with self._lock:
            known = self._known.setdefault(address, {})
            if incarnation in known:
                return
            known[incarnation] = error
            if len(known) > _KEEP_EACH:
                del known[next(iter(known))]
            if not comes_back(error):
                self._agents.pop(address, None)
            if len(self._known) > _KEEP:
                del self._known[next(iter(self._known))]
            told = self._curious.pop((address, incarnation), [])
        for tell in told:
            tell(error)

    def resolve(self, peer: Peer, declare: Callable[[Peer, SupervisionError], None]) -> None:
        """Find out why `peer` is gone and call `declare(peer, error)`, within a second."""
        address, incarnation = peer.address, peer.incarnation
        told = threading.Event()

        def tell(error: SupervisionError) -> None:
            told.set()
            declare(peer, error)

        self._tell(address, incarnation, tell)
        if told.is_set():
            return
        agent = self._agents.get(address)
        if agent is None or agent == address:
            self.declare(address, _unseen(address), incarnation)
            return
        if agent != self._process.address:
            self._ask(agent, address, incarnation)
        self._process.later(_PATIENCE, lambda: self.declare(address, _unseen(address), incarnation))

    def _tell(self, address: str, incarnation: int, tell: Told) -> None:
        with self._lock:
            error = self._find(address, incarnation)
            if error is None:
                self._curious.setdefault((address, incarnation), []).append(tell)
        if error is not None:
            tell(error)

    def _find(self, address: str, incarnation: int) -> SupervisionError | None:
        known = self._known.get(address)
        if not known:
            return None
        last = known[next(reversed(known))]
        # After the end for good it does not matter which incarnation the question is about.
        return known.get(incarnation) or (None if comes_back(last) else last)

    def _ask(self, agent: str, address: str, incarnation: int) -> None:
        promise = Promise()
        port = self._process.ports.open(OneAnswer(promise))
        promise.add_callback(lambda: self.declare(address, promise.result(), incarnation))
        question = Envelope(kind=FATE, endpoint=address, rank=incarnation, port=port)
        self._process.peer(agent).post(question)

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
