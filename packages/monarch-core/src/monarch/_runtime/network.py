"""The connections of this process: one for each process that it talks to, made on first use."""

from __future__ import annotations

import contextlib
import logging
import select
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from monarch import config
from monarch._runtime.fates import comes_back
from monarch._runtime.greeting import greeting, refusal
from monarch._runtime.peers import Awaited, LocalPeer, Peer
from monarch._runtime.ports import raising
from monarch.abc import Connection, Listener
from monarch.errors import ProcessDied, SupervisionError, TransportError
from monarch.plugins import transport_for
from monarch.wire.codec import Hello

if TYPE_CHECKING:
    from monarch._runtime.process import Process

_log = logging.getLogger(__name__)

_KEEP_LOST = 256


class _Link:
    """A connection, and the peer at its other end once it has said who it is."""

    __slots__ = ("connection", "peer")

    def __init__(self, connection: Connection, peer: Peer | None) -> None:
        self.connection, self.peer = connection, peer


class Network:
    """Connects, accepts, reads, and notices who is gone."""

    def __init__(self, process: Process, listener: Listener) -> None:
        self._process, self._listener = process, listener
        self._reactor = process.reactor
        self._peers: dict[str, Peer] = {process.address: LocalPeer(process)}
        self._links: set[_Link] = set()
        self._lock = threading.RLock()
        self.on_refused: Callable[[str], None] = lambda address: None
        """Called with the address of a process that this one cannot work with."""
        self._reactor.watch(listener.fileno(), self._accept)
        self._reactor.on_tick(self._flush)

    def peer(self, address: str) -> Peer:
        """Return the peer at `address`, connected on first use; who cannot be reached is lost at once."""
        found = self._peers.get(address)
        if found is not None:
            return found
        with self._lock:
            return self._peers.get(address) or self._connect(address)

    def _connect(self, address: str) -> Peer:
        peer = Peer(address, None)
        timeout = config.get("message_delivery_timeout")
        try:
            connection = transport_for(_scheme(address)).connect(address, timeout)
        except TransportError as error:
            _log.debug("%s", error)
            self._peers[address] = peer
            self._find_out(peer)
            return peer
        self._use(peer, connection)
        self._peers[address] = peer
        return peer

    def _use(self, peer: Peer, connection: Connection) -> None:
        connection.greet(self._greeting())
        self._watch(_Link(connection, peer))
        peer.connection = connection

    def _greeting(self, reason: str = "") -> Hello:
        return greeting(self._process.address, self._process.incarnation, reason)

    def was_awaited(self, address: str) -> bool:
        """Whether calls of this process waited for the one at `address` when it was lost, or still do."""
        peer = self._peers.get(address)
        return peer is not None and (peer.raised or _is_observed(peer))

    def awaits(self, address: str, actor: bytes, besides: str | None) -> bool:
        """Whether a call of this process, of any endpoint `besides` one, waits for an actor at `address`."""
        peer = self._peers.get(address)
        waiting = () if peer is None else list(peer.pending.values())
        return any(each.actor == actor and each.endpoint != besides for each in waiting)

    # ---- on the thread that reads

    def _accept(self, events: int) -> None:
        while (connection := self._listener.accept()) is not None:
            connection.greet(self._greeting())
            self._watch(_Link(connection, None))

    def _watch(self, link: _Link) -> None:
        descriptor = link.connection.fileno()
        self._links.add(link)
        link.connection.on_backlog = partial(self._on_backlog, link, descriptor)
        self._reactor.watch(descriptor, partial(self._ready, link))
        self._reactor.before_sleep(link.connection.put_off, self._write_put_off)

    def _write_put_off(self) -> None:
        for link in list(self._links):
            link.connection.flush()

    def _on_backlog(self, link: _Link, descriptor: int, waiting: bool) -> None:
        self._reactor.watch_writable(descriptor, waiting)
        if not waiting and link.peer is not None:
            while link.peer.blocked:
                self._reactor.signal(link.peer.blocked.pop())

    def _ready(self, link: _Link, events: int) -> None:
        connection = link.connection
        if events & select.EPOLLOUT:
            connection.drain()
        if not events & ~select.EPOLLOUT:
            return
        try:
            arrived = connection.receive()
        except EOFError:
            self._disconnected(link)
            return
        except Exception:
            _log.exception("a connection is closed, since what came over it could not be read")
            self._disconnected(link)
            return
        peer = link.peer
        if connection.peer_hello is not None:
            hello, connection.peer_hello = connection.peer_hello, None
            peer = self._identify(link, hello)
        if peer is None:
            if arrived:  # it speaks before it has said who it is
                self._disconnected(link)
            return
        dispatch = self._process.handlers
        for envelope, buffers in arrived:
            try:
                dispatch[envelope.kind](envelope, buffers, peer)
            except Exception:
                _log.exception(
                    "a message of kind %s from %s could not be handled", envelope.kind, peer.address
                )

    def _identify(self, link: _Link, hello: Hello) -> Peer | None:
        """Learn who is at the other end; None if it is not to be talked to."""
        reason = hello.refusal or refusal(hello)
        if reason:
            self._refuse(link, hello, reason)
            return None
        if link.peer is None:
            with self._lock:
                known = self._peers.get(hello.address)
                if known is None or known.error is not None:
                    known = self._peers[hello.address] = Peer(hello.address, link.connection)
                elif known.connection is None:  # it was restarted, and was first to connect
                    known.connection = link.connection
                link.peer = known
        link.peer.incarnation = hello.incarnation
        return link.peer

    def _refuse(self, link: _Link, hello: Hello, reason: str) -> None:
        _log.warning("the process at %s is refused: %s", hello.address, reason)
        if not hello.refusal:
            link.connection.greet(self._greeting(reason))
            link.connection.flush()
        self._process.fates.declare(hello.address, SupervisionError(reason))
        self._disconnected(link)
        self.on_refused(hello.address)

    def _disconnected(self, link: _Link) -> None:
        self._links.discard(link)
        self._reactor.forget(link.connection.fileno())
        link.connection.close()
        link.connection.on_backlog = _ignore  # it held the link, and so itself, and its buffers
        peer = link.peer
        if peer is not None and peer.connection is link.connection:
            peer.fallen = None
            peer.connection = None
            while peer.blocked:
                self._reactor.signal(peer.blocked.pop())
            self._find_out(peer)

    def _find_out(self, peer: Peer) -> None:
        self._process.fates.resolve(peer, partial(self._lost, peer), partial(self._overdue, peer))

    def _overdue(self, peer: Peer, error: SupervisionError) -> None:
        """Nobody can say yet what became of a peer: calls do not wait for that."""
        if peer.connection is None:
            peer.fallen = error
            self._fail_pending(peer, error)

    def _lost(self, peer: Peer, error: SupervisionError) -> None:
        """Fail what waits for a peer that is gone. One that is restarted is connected anew."""
        returns = comes_back(error)
        if returns:
            peer.fallen = error
        else:
            peer.error = error
        self._fail_pending(peer, error)
        self._process.process_lost(peer.address, error, awaited=peer.raised)
        if returns:
            peer.raised = False
            self._revive(peer, error)
        self._forget_old()

    def _fail_pending(self, peer: Peer, error: SupervisionError) -> None:
        peer.raised = peer.raised or _is_observed(peer)
        while peer.pending:
            with contextlib.suppress(KeyError):
                port, awaited = peer.pending.popitem()
                self._give_up(port, awaited, peer, error)

    def _revive(self, peer: Peer, error: SupervisionError) -> None:
        """Connect to the process that takes the place of one that is gone, and create its actors again."""
        assert isinstance(error, ProcessDied)
        peer.incarnation = max(peer.incarnation, error.incarnation + 1)
        with self._lock:
            if peer.connection is None:
                try:
                    timeout = config.get("message_delivery_timeout")
                    self._use(peer, transport_for(_scheme(peer.address)).connect(peer.address, timeout))
                except TransportError:  # that one is gone already, too
                    self._find_out(peer)
                    return
        self._process.children.process_returned(peer.address)

    def answered_elsewhere(self, port: int, rank: int) -> None:
        """An answer came from another process than was asked: who was asked no longer owes it."""
        for peer in list(self._peers.values()):
            awaited = peer.pending.get(port)
            if awaited is not None:
                awaited.peer_at(rank).pending.pop(port, None)
                return

    def no_answer(self, peer: Peer, port: int) -> None:
        """After a send that failed: the port hears so, now if it is known why, else as soon as it is."""
        error = peer.error or peer.fallen
        if error is not None and (awaited := peer.pending.pop(port, None)) is not None:
            self._give_up(port, awaited, peer, error)

    def _give_up(self, port: int, awaited: Awaited, peer: Peer, error: SupervisionError) -> None:
        rank, error = awaited.lost(peer, error)
        self._process.ports.take(port, rank, raising(error), True)

    def _forget_old(self) -> None:
        """Drop peers that are gone: who asks for one again is refused a connection, and told why."""
        with self._lock:
            gone = [address for address, peer in self._peers.items() if peer.error is not None]
            for address in gone[:-_KEEP_LOST]:
                del self._peers[address]

    def _flush(self) -> None:
        for peer in list(self._peers.values()):
            peer.flush()

    # ---- the end

    def close(self, reason: SupervisionError) -> None:
        """Close everything; pending calls fail with `reason`."""
        for peer in list(self._peers.values()):
            peer.error = reason
            self._fail_pending(peer, reason)
        self._listener.close()
        for link in list(self._links):
            self._reactor.forget(link.connection.fileno())
            link.connection.close()
        for peer in list(self._peers.values()):
            peer.connection = None

    def descriptors(self) -> Iterator[int]:
        """Yield the descriptors of all connections, and of the listener."""
        yield self._listener.fileno()
        for link in self._links:
            yield link.connection.fileno()


def _ignore(waiting: bool) -> None:
    pass


def _is_observed(peer: Peer) -> bool:
    """Whether the program waits for an answer of the peer."""
    return any(awaited.observed for awaited in list(peer.pending.values()))


def _scheme(address: str) -> str:
    return address.partition(":")[0]
