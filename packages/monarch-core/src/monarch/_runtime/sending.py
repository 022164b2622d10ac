"""Sends to meshes: numbers, encodes once, and hands to each peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import count
from typing import Any

from monarch._runtime.context import Context, Instance, current
from monarch._runtime.peers import Peer
from monarch._runtime.pickling import Pickled
from monarch._runtime.ports import Ends, Gather, InArrivalOrder, OneAnswer, Sink
from monarch._runtime.process import Process
from monarch._runtime.promise import Promise
from monarch._transport import interrupts
from monarch.errors import SupervisionError
from monarch.shape import Shape
from monarch.wire.codec import CANCEL, MESSAGE, STOP, Envelope, Message, encode_view

_turn = count()


class Target:
    """A part of a mesh of actors, as its senders see it.

    `shape` is over base ranks, which index `processes`. Positions count in the order of `shape`.
    """

    def __init__(self, uid: bytes, name: str, shape: Shape, processes: Sequence[str]) -> None:
        self.uid, self.name, self.shape, self.processes = uid, name, shape, processes
        self._routes: dict[tuple[Any, str, int], _Route] = {}

    @cached_property
    def ranks(self) -> list[int]:
        """Base ranks, by position."""
        return self.shape.ranks()

    @cached_property
    def view(self) -> bytes:
        """The encoded shape."""
        return encode_view(self.shape)

    def route(self, process: Process, kind: Any, endpoint: str, position: int) -> _Route:
        """Return what all messages have in common that the running actor sends this way."""
        me = sender(process)
        key = (kind, endpoint, position)
        route = self._routes.get(key)
        if route is None or route.me is not me:
            route = self._routes[key] = _Route(process, me, self, kind, endpoint, position)
        return route


ALL = -1
"""In place of a position: all of a target."""


class _Route:
    """One sender, one endpoint, one position of a target or all: what messages have in common."""

    __slots__ = (
        "actor",
        "endpoint",
        "me",
        "numbering",
        "observed",
        "peers",
        "positions",
        "prefix",
        "process",
        "ranks",
        "target",
        "waits_on",
    )

    def __init__(
        self, process: Process, me: Instance, target: Target, kind: Any, endpoint: str, position: int
    ) -> None:
        self.process, self.me, self.target, self.endpoint = process, me, target, endpoint
        self.observed = True
        self.actor = b"" if kind == STOP else target.uid  # whoever stops an actor wants no more than its end
        self.positions = range(len(target.ranks)) if position == ALL else (position,)
        self.ranks = [target.ranks[each] for each in self.positions]
        self.peers = [process.peer(target.processes[rank]) for rank in self.ranks]
        self.numbering = me.numbering(target.uid, len(target.processes))
        here = any(peer.address == process.address for peer in self.peers)
        self.waits_on = target.uid if here else None
        # Fields of a protobuf message may come in any order, so this part is encoded once.
        self.prefix = Envelope(
            kind=kind, actor=target.uid, sender=me._sender, endpoint=endpoint, view=target.view
        ).SerializeToString()

    def send(self, content: Pickled, port: int = 0, **fields: Any) -> None:
        """Send one message. Its answers go to `port`; who is gone answers there at once, with the reason."""
        peers = self.peers
        for peer in peers:
            if peer.is_full():
                peer.wait_for_room(self.process.reactor)
        message = Message(b"", content.buffers)
        if content.buffers:
            fields["buffer_sizes"] = content.sizes()
            fields["body_in_buffer"] = content.body_in_buffer
            for peer in peers:
                peer.place(message)
        # From here on nothing may fail: a number that is not sent would be waited for.
        held = interrupts.hold()
        try:
            self._send(message, content.body, port, fields)
        finally:
            if held:
                interrupts.let_go()
            message.close()

    def _send(self, message: Message, body: bytes, port: int, fields: dict[str, Any]) -> None:
        number, exceptions = self.numbering.take(self.ranks)
        if exceptions:
            fields["sequence_exceptions"] = exceptions
        own = Envelope(sequence=number, port=port, body=body, **fields)
        message.envelope = self.prefix + own.SerializeToString()
        shared = len(self.peers) > 1 and bool(message.buffers)
        waiting = port and "reply_to" not in fields
        for peer in self.peers:
            if waiting:
                peer.pending[port] = self
            if not peer.send(message, shared=shared) and waiting:
                self.process.network.no_answer(peer, port)

    def peer_at(self, rank: int) -> Peer:
        """Return the peer that was asked for the answer of this position."""
        return self.peers[self.positions.index(rank)]

    def lost(self, peer: Peer, error: SupervisionError) -> tuple[int, SupervisionError]:
        """Return the position whose answer will not come, and the error as its caller should see it."""
        place = self.peers.index(peer)
        call = f"{self.target.name}.{self.endpoint}()" if self.endpoint else self.target.name
        return self.positions[place], error.in_call(f"{call} on rank {self.ranks[place]}", self.endpoint)

    def withdraw(self, port: int) -> None:
        """Ask the receivers of a call to drop it if they have not started."""
        self.process.ports.close(port)
        for peer in self.peers:
            if peer.pending.pop(port, None) is not None:
                peer.post(Envelope(kind=CANCEL, actor=self.target.uid, sender=self.me._sender, port=port))


def sender(process: Process) -> Instance:
    """Return on whose behalf the calling thread or task acts."""
    context: Context | None = current.get()
    if context is not None:
        return context.actor_instance
    assert process.client is not None
    return process.client


def cast(
    process: Process,
    target: Target,
    kind: Any,
    endpoint: str,
    content: Pickled,
    position: int = ALL,
    **fields: Any,
) -> None:
    """Send one message to all of a target, or to one position of it. `fields` are those of the envelope."""
    target.route(process, kind, endpoint, position).send(content, **fields)


def least_loaded(process: Process, target: Target) -> int:
    """Return the position whose process has the fewest calls of ours to answer; in turn among equals."""
    peers = [process.peer(target.processes[rank]) for rank in target.ranks]
    candidates: Sequence[int] = [position for position, peer in enumerate(peers) if peer.error is None]
    candidates = candidates or range(len(peers))
    start = next(_turn)
    order = [candidates[(start + step) % len(candidates)] for step in range(len(candidates))]
    return min(order, key=lambda position: len(peers[position].pending))


# ---- calls, as promises


class _Call(Promise):
    """The promise of answers, which knows how to withdraw its message."""

    __slots__ = ("port", "route", "shared")

    port: int
    route: _Route
    shared: InArrivalOrder | None
    # Not all calls of a stream: promises that know each other would keep their values until the
    # garbage collector comes, and with them the shared memory these lie in.

    def withdraw(self) -> None:
        """Have the message dropped where it has not started, once nobody wants any of its answers."""
        if self.shared is None or not self.shared.is_wanted():
            self.route.withdraw(self.port)


def call_one(
    process: Process, target: Target, endpoint: str, content: Pickled, position: int = 0, kind: Any = MESSAGE
) -> Promise:
    """Send to one position and return the promise of its answer."""
    call = _Call()
    _send(target.route(process, kind, endpoint, position), content, OneAnswer(call), (call,))
    return call


def call_all(
    process: Process,
    target: Target,
    endpoint: str,
    content: Pickled,
    combine: Callable[[list[Any]], Any],
) -> Promise:
    """Send to all and return the promise of all answers, combined."""
    call = _Call()
    sink = Gather(call, len(target.ranks), combine)
    _send(target.route(process, MESSAGE, endpoint, ALL), content, sink, (call,))
    return call


def stop_all(process: Process, target: Target, content: Pickled) -> Promise:
    """Ask all to end, `content` being the reason, and return the promise of their ends."""
    call = _Call()
    _send(target.route(process, STOP, "", ALL), content, Ends(call, len(target.ranks)), (call,))
    return call


def stream(process: Process, target: Target, endpoint: str, content: Pickled) -> Sequence[Promise]:
    """Send to all and return as many promises, kept in the order in which answers arrive."""
    calls = [_Call() for _ in target.ranks]
    shared = InArrivalOrder(calls)
    _send(target.route(process, MESSAGE, endpoint, ALL), content, shared, calls, shared)
    return calls


def _send(
    route: _Route, content: Pickled, sink: Sink, calls: Sequence[_Call], shared: InArrivalOrder | None = None
) -> None:
    port = route.process.ports.open(sink)
    for call in calls:
        call.port, call.route, call.shared, call.waits_on = port, route, shared, route.waits_on
    route.send(content, port)


class _Question:
    """What a process is asked itself."""

    __slots__ = ("_peer", "_position", "actor", "endpoint", "observed")

    def __init__(self, peer: Peer, position: int, observed: bool) -> None:
        self._peer, self._position, self.observed = peer, position, observed
        self.actor, self.endpoint = b"", ""

    def peer_at(self, rank: int) -> Peer:
        """Return the peer that was asked."""
        return self._peer

    def lost(self, peer: Peer, error: SupervisionError) -> tuple[int, SupervisionError]:
        """Return the position asked, and the error as it is."""
        return self._position, error


def ask_processes(
    process: Process,
    addresses: Sequence[str],
    question: Envelope,
    combine: Callable[[list[Any]], Any],
    *,
    observed: bool = True,
) -> Promise:
    """Ask each process itself, not an actor in it, and return the promise of all answers, combined.

    `observed` says whether it is the program that asks.
    """
    promise = Promise()
    port = process.ports.open(Gather(promise, len(addresses), combine))
    for position, address in enumerate(addresses):
        own = Envelope(port=port, rank=position)
        own.MergeFrom(question)
        peer = process.peer(address)
        peer.pending[port] = _Question(peer, position, observed)
        if not peer.post(own):
            process.network.no_answer(peer, port)
    return promise
