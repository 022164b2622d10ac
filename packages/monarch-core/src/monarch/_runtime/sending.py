"""Sends to meshes: numbers, encodes once, and hands to each peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import count
from typing import Any

from monarch._runtime.context import Context, Instance, current
from monarch._runtime.peers import Peer
from monarch._runtime.pickling import Pickled
from monarch._runtime.ports import Gather, InArrivalOrder, OneReply, Sink
from monarch._runtime.process import Process
from monarch._runtime.promise import Promise
from monarch.shape import Shape
from monarch.wire.codec import CANCEL, MESSAGE, Envelope, Message, encode_view

_turn = count()


class Target:
    """A part of a mesh of actors, as its senders see it.

    `shape` is over base ranks, which index `processes`. Positions count in the order of `shape`.
    """

    def __init__(self, uid: bytes, name: str, shape: Shape, processes: Sequence[str]) -> None:
        self.uid, self.name, self.shape, self.processes = uid, name, shape, processes

    @cached_property
    def ranks(self) -> list[int]:
        """Base ranks, by position."""
        return self.shape.ranks()

    @cached_property
    def view(self) -> bytes:
        """The encoded shape."""
        return encode_view(self.shape)


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
    *,
    port: int = 0,
    reply_to: str = "",
    positions: Sequence[int] | None = None,
    header: bytes = b"",
) -> None:
    """Send one message to all of a target, or to some positions of it.

    `port` is where each answers; it is one of this process unless `reply_to` names another. A
    position whose process is gone answers there at once, with the reason.
    """
    ranks = target.ranks
    chosen = range(len(ranks)) if positions is None else positions
    addressed = ranks if positions is None else [ranks[position] for position in positions]
    me = sender(process)
    peers = [process.peer(target.processes[rank]) for rank in addressed]
    for peer in peers:
        peer.wait_for_room(process.reactor)
    number, exceptions = me.numbering(target.uid, len(target.processes)).take(addressed)
    fields: dict[str, Any] = {"sequence_exceptions": exceptions} if exceptions else {}
    if content.buffers:
        fields |= {"buffer_sizes": content.sizes(), "body_in_buffer": content.body_in_buffer}
    if reply_to:
        fields["reply_to"] = reply_to
    if header:
        fields["header"] = header
    envelope = Envelope(
        kind=kind,
        actor=target.uid,
        sender=me._uid,
        sequence=number,
        endpoint=endpoint,
        view=target.view,
        port=port,
        body=content.body,
        **fields,
    )
    _deliver(process, peers, chosen, envelope, content, 0 if reply_to else port)


def _deliver(
    process: Process, peers: list[Peer], positions: Sequence[int], envelope: Envelope, content: Pickled, port: int
) -> None:
    if len(peers) == 1:
        peer, position = peers[0], positions[0]
        if port:
            peer.pending[port] = position
        sent = peer.post(envelope, content.buffers)
        if port and not sent:
            process.no_reply(peer, port)
        return
    message = Message(envelope.SerializeToString(), content.buffers)
    shared = bool(content.buffers)
    for peer, position in zip(peers, positions):
        if port:
            peer.pending[port] = position
        sent = peer.send(message, shared=shared)
        if port and not sent:
            process.no_reply(peer, port)
    message.close()


def least_loaded(process: Process, target: Target) -> int:
    """Return the position whose process has the fewest calls of ours to answer; in turn among equals."""
    peers = [process.peer(target.processes[rank]) for rank in target.ranks]
    alive = [position for position, peer in enumerate(peers) if peer.error is None]
    candidates = alive or range(len(peers))
    start = next(_turn)
    order = [candidates[(start + step) % len(candidates)] for step in range(len(candidates))]
    return min(order, key=lambda position: len(peers[position].pending))


# ---- calls, as promises


def call_one(
    process: Process, target: Target, endpoint: str, content: Pickled, position: int = 0, kind: Any = MESSAGE
) -> Promise:
    """Send to one position and return the promise of its answer."""
    promise = Promise()
    _call(process, target, endpoint, content, OneReply(promise), [promise], [position], kind)
    return promise


def call_all(
    process: Process,
    target: Target,
    endpoint: str,
    content: Pickled,
    combine: Callable[[list[Any]], Any],
    kind: Any = MESSAGE,
) -> Promise:
    """Send to all and return the promise of all answers, combined."""
    promise = Promise()
    sink = Gather(promise, len(target.ranks), combine)
    _call(process, target, endpoint, content, sink, [promise], None, kind)
    return promise


def stream(process: Process, target: Target, endpoint: str, content: Pickled) -> list[Promise]:
    """Send to all and return as many promises, kept in the order in which answers arrive."""
    promises = [Promise() for _ in target.ranks]
    _call(process, target, endpoint, content, InArrivalOrder(promises), promises, None, MESSAGE)
    return promises


def _call(
    process: Process,
    target: Target,
    endpoint: str,
    content: Pickled,
    sink: Sink,
    promises: Sequence[Promise],
    positions: Sequence[int] | None,
    kind: Any,
) -> None:
    port = process.ports.open(sink)
    sink.close = lambda: process.ports.close(port)
    chosen = target.ranks if positions is None else [target.ranks[position] for position in positions]
    me = sender(process)
    here = process.address
    waits_on = target.uid if any(target.processes[rank] == here for rank in chosen) else None
    for promise in promises:
        promise.waits_on = waits_on
        promise.on_cancel = lambda: _withdraw(process, target, chosen, me, port)
    cast(process, target, kind, endpoint, content, port=port, positions=positions)


def _withdraw(process: Process, target: Target, ranks: Sequence[int], me: Instance, port: int) -> None:
    """Ask the receivers to drop a message that they have not started."""
    process.ports.close(port)
    for rank in ranks:
        peer = process.peer(target.processes[rank])
        if peer.pending.pop(port, None) is not None:
            peer.post(Envelope(kind=CANCEL, actor=target.uid, sender=me._uid, port=port))


def ask_processes(
    process: Process, addresses: Sequence[str], question: Envelope, combine: Callable[[list[Any]], Any]
) -> Promise:
    """Ask each process itself, not an actor in it, and return the promise of all answers, combined."""
    promise = Promise()
    sink = Gather(promise, len(addresses), combine)
    port = process.ports.open(sink)
    sink.close = lambda: process.ports.close(port)
    question.port = port
    for position, address in enumerate(addresses):
        peer = process.peer(address)
        peer.pending[port] = position
        question.rank = position
        own = Envelope()
        own.CopyFrom(question)
        if not peer.post(own):
            process.no_reply(peer, port)
    return promise
