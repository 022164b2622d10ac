"""Finds out how a process ended: from the host agent that started it.

A broken connection says that a process is gone, its agent says why. The agent may hear a moment
later than the peers do, so the answer is awaited, with a deadline; without one the error says
that nobody saw the end.
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
_KEEP = 10_000

Told = Callable[[SupervisionError], None]


class Fates:
    """What is known about ends of processes, and who wants to know."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._known: dict[str, SupervisionError] = {}
        self._curious: dict[str, list[Told]] = {}
        self._agents: dict[str, str] = {}
        self._lock = threading.Lock()

    def introduce(self, addresses: tuple[str, ...], agent: str) -> None:
        """Remember which agent started the processes at `addresses`."""
        for address in addresses:
            self._agents[address] = agent

    def declare(self, address: str, error: SupervisionError) -> None:
        """State how the process at `address` ended. The first statement holds."""
        with self._lock:
            self._known.setdefault(address, error)
            self._agents.pop(address, None)
            if len(self._known) > _KEEP:
                del self._known[next(iter(self._known))]
            told = self._curious.pop(address, [])
        for tell in told:
            tell(error)

    def resolve(self, peer: Peer, declare: Callable[[Peer, SupervisionError], None]) -> None:
        """Find out why `peer` is gone and call `declare(peer, error)`, within a second."""
        address = peer.address
        self._tell(address, partial(declare, peer))
        if peer.error is not None:
            return
        agent = self._agents.get(address)
        if agent is None or agent == address:
            self.declare(address, _unseen(address))
            return
        if agent != self._process.address:
            self._ask(agent, address)
        self._process.later(_PATIENCE, lambda: self.declare(address, _unseen(address)))

    def _tell(self, address: str, tell: Told) -> None:
        with self._lock:
            known = self._known.get(address)
            if known is None:
                self._curious.setdefault(address, []).append(tell)
        if known is not None:
            tell(known)

    def _ask(self, agent: str, address: str) -> None:
        promise = Promise()
        port = self._process.ports.open(OneAnswer(promise))
        promise.add_callback(lambda: self.declare(address, promise.result()))
        self._process.peer(agent).post(Envelope(kind=FATE, endpoint=address, port=port))

    def asked(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        """Answer another process, as soon as the end is known."""
        work = Work(envelope, buffers, peer)
        self._tell(envelope.endpoint, lambda error: self._process.reply(work, 0, error, "fate"))


def _unseen(address: str) -> SupervisionError:
    return ProcessDied(f"the process at {address} is gone, and nobody saw how it ended")
