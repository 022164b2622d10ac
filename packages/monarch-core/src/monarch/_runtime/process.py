"""The runtime of one process: its actors, its ports, its peers, and who gets what arrives."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
import os
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from monarch import config
from monarch._runtime import supervision
from monarch._runtime.cell import Cell
from monarch._runtime.children import Children
from monarch._runtime.context import Instance
from monarch._runtime.fates import Fates, comes_back
from monarch._runtime.ids import UID_SIZE
from monarch._runtime.network import Network
from monarch._runtime.peers import Peer
from monarch._runtime.pickling import Pickled, dumps, dumps_result, loads
from monarch._runtime.port import as_actor_error
from monarch._runtime.ports import Answer, Ports
from monarch._runtime.supervision import MeshFailure
from monarch._runtime.work import Incoming, Work
from monarch._transport.reactor import Reactor
from monarch.abc import Listener
from monarch.errors import ActorDied, CallError, MonarchError, ProcessDied, SupervisionError
from monarch.wire.codec import (
    CANCEL,
    ENDED,
    ERROR,
    FAILURE,
    FATE,
    MESSAGE,
    REPLY,
    RESTART,
    SHUTDOWN,
    SPAWN,
    STATUS,
    STOP,
    UNDELIVERABLE,
    Envelope,
)

_log = logging.getLogger(__name__)

_CANCEL_SECONDS = 1.0
_NO_CONTEXT = contextvars.Context()
_KEEP_ENDED = 10_000  # actors that ended and are remembered, so that calls to them say why


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:  # those that refuse to be cancelled end with the process
        loop.run_until_complete(asyncio.wait(left, timeout=_CANCEL_SECONDS))
    loop.close()


class Later:
    """Something to be done later. Once cancelled it holds nothing, however long the wait would be."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def __call__(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()

    def cancel(self) -> None:
        """Do nothing later. Called on any thread."""
        self._action = None


class Process:
    """Everything that runs in one operating system process."""

    def __init__(self, address: str, listener: Listener, root: str, agent: str, incarnation: int = 0) -> None:
        self.address, self.root, self.agent = address, root, agent
        self.incarnation = incarnation
        """How many processes were at this address before, each restarted after its end."""
        self.pid = os.getpid()
        self.reactor = Reactor()
        self.ports = Ports(incarnation)
        self.fates = Fates(self)
        self.children = Children(self)
        self.on_lost: Callable[[str, float], None] = lambda address, incarnation: None
        """Called with the address of each process that is gone, and with its incarnation."""
        self.network = Network(self, listener)
        self.peer = self.network.peer
        self.client: Instance | None = None
        """On whose behalf threads act that belong to no actor."""
        self.on_shutdown: Callable[[], None] = lambda: None
        self.on_empty: Callable[[], None] = lambda: None
        """Called when the last actor has ended."""
        self.on_actors: Callable[[], None] = lambda: None
        """Called when an actor begins, on its own thread, and when one has ended."""
        self.private_descriptors: list[int] = []
        """What a fork must not keep open."""
        self.ending = False
        self.returns = False
        """It ends to be started again, so it refuses nothing: its end says more to who waits."""
        self.has_ended = threading.Event()
        self.broken: MonarchError | None = None
        """Why no actor can live here: the set-up function of the process raised."""
        self._actors: dict[bytes, Cell] = {}
        self._ended: dict[bytes, SupervisionError] = {}
        self._early: dict[bytes, list[Work]] = {}
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.handlers: dict[int, Callable[[Envelope, Incoming, Peer], None]] = {
            MESSAGE: self._message,
            STOP: self._message,
            REPLY: self._reply,
            ERROR: self._error,
            SPAWN: self._spawn,
            CANCEL: self._cancel,
            UNDELIVERABLE: self._undeliverable,
            FAILURE: self._failure,
            ENDED: self._child_ended,
            RESTART: self._restart,
            STATUS: self._status,
            FATE: self.fates.asked,
            SHUTDOWN: self._shutdown,
        }

    # ---- the loop for asynchronous endpoints, and timers

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the process, on a thread of its own from its first use on."""
        if self._loop is None:
            with self._lock:
                if self._loop is None:
                    loop = asyncio.new_event_loop()
                    self._loop_thread = threading.Thread(
                        target=_run, args=(loop,), name="monarch-loop", daemon=True
                    )
                    self._loop_thread.start()
                    self._loop = loop
        return self._loop

    def on_loop(self) -> bool:
        """Whether the calling thread is the one of `loop`."""
        return self._loop is not None and asyncio._get_running_loop() is self._loop

    def later(self, seconds: float, action: Callable[[], object]) -> Later:
        """Run `action` after `seconds`, on the loop's thread, unless it is cancelled before."""
        timer = Later(action)
        start = partial(self.loop.call_later, seconds, timer, context=_NO_CONTEXT)
        self.loop.call_soon_threadsafe(start, context=_NO_CONTEXT)
        return timer

    # ---- what arrives

    def dispatch(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        """Act on one envelope."""
        self.handlers[envelope.kind](envelope, buffers, peer)

    def _message(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        uid = envelope.actor
        cell = self._actors.get(uid)
        if cell is not None:
            cell.deliver(Work(envelope, buffers, peer))
            return
        with self._lock:
            cell = self._actors.get(uid)
            if cell is None and uid not in self._ended and self.broken is None:
                self._hold_early(uid, Work(envelope, buffers, peer))
                return
        if cell is not None:
            cell.deliver(Work(envelope, buffers, peer))
        else:
            self._refuse_unknown(Work(envelope, buffers, peer))

    def _hold_early(self, uid: bytes, work: Work) -> None:
        """Keep a message that overtook the birth of its actor, which came by another connection."""
        self._early.setdefault(uid, []).append(work)
        if len(self._early[uid]) == 1:
            self.later(config.get("message_delivery_timeout"), partial(self._give_up_early, uid))

    def _give_up_early(self, uid: bytes) -> None:
        with self._lock:
            waiting = self._early.pop(uid, ())
            if waiting:
                self._ended.setdefault(uid, ActorDied(f"no actor {uid.hex()} lives in {self.address}"))
        for work in waiting:
            self._refuse_unknown(work)

    def _refuse_unknown(self, work: Work) -> None:
        error = self.broken or self._ended[work.envelope.actor]
        if work.envelope.kind == STOP and self.broken is None:
            self.reply(work, 0, None, "stop")
        else:
            self.refuse(work, 0, error)

    def _reply(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        port = envelope.port
        if peer.pending.pop(port, None) is None:
            self.network.answered_elsewhere(port, envelope.rank)
        self.ports.take(port, envelope.rank, Answer(envelope, buffers, False), False)

    def _error(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        port = envelope.port
        if peer.pending.pop(port, None) is None:
            self.network.answered_elsewhere(port, envelope.rank)
        self.ports.take(port, envelope.rank, Answer(envelope, buffers, True), True)

    def _spawn(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        if self.broken is not None:
            return
        cell = Cell(self, envelope.actor, pickle.loads(envelope.header))
        with self._lock:
            self._actors[envelope.actor] = cell
            early = self._early.pop(envelope.actor, ())
        cell.deliver(Work(envelope, buffers, peer))
        for work in early:
            cell.deliver(work)

    def _cancel(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        cell = self._actors.get(envelope.actor)
        if cell is not None:
            cell.withdraw(envelope.sender, envelope.port)

    def _undeliverable(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        error = loads(envelope.body, buffers, envelope.body_in_buffer)
        cell = self._actors.get(envelope.sender[:UID_SIZE])
        if cell is None or not cell.undeliverable(envelope.actor, envelope.endpoint, error):
            _log.warning("a message to %s() could not be delivered: %s", envelope.endpoint, error)

    def _failure(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        failure = loads(envelope.body, buffers, envelope.body_in_buffer)
        self.children.failed(envelope.header, envelope.actor, failure)

    def _child_ended(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        self.children.ended(envelope.header, envelope.rank)

    def _restart(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        cell = self._actors.get(envelope.actor)
        if cell is not None:
            cell.restart_with(envelope.rank, envelope.sequence)

    def _status(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        if self.broken is not None:
            self.reply_error(Work(envelope, buffers, peer), envelope.rank, self.broken)
            return
        wanted = envelope.actor
        states = [cell.status() for uid, cell in list(self._actors.items()) if wanted in (b"", uid)]
        self.reply(Work(envelope, buffers, peer), envelope.rank, states, "status")

    def _shutdown(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        self.returns = bool(envelope.rank)
        threading.Thread(target=self.on_shutdown, name="monarch-shutdown").start()

    # ---- what actors of this process send

    def reply(self, work: Work, rank: int, result: Any, name: str, hold: bool = False) -> None:
        """Answer a call; a result that cannot be pickled becomes the call's error."""
        try:
            content = dumps_result(result, f"the result of {name}()")
        except CallError as error:
            self.reply_error(work, rank, as_actor_error(error, f"{name}()"))
            return
        self._answer(REPLY, work, rank, content, hold)

    def reply_error(self, work: Work, rank: int, error: BaseException) -> None:
        """Answer a call with an exception."""
        self._answer(ERROR, work, rank, dumps(error, "the exception"), False)

    def _answer(self, kind: Any, work: Work, rank: int, content: Pickled, hold: bool) -> None:
        asked = work.envelope
        if content.buffers:
            envelope = Envelope(
                kind=kind,
                port=asked.port,
                rank=rank,
                body=content.body,
                body_in_buffer=content.body_in_buffer,
                buffer_sizes=content.sizes(),
            )
        else:
            envelope = Envelope(kind=kind, port=asked.port, rank=rank, body=content.body)
        peer = self.peer(asked.reply_to) if asked.reply_to else work.peer
        peer.post(envelope, content.buffers, hold=hold)

    def refuse(self, work: Work, rank: int, error: BaseException) -> None:
        """Tell the sender of a message that it will not be handled."""
        if self.returns:
            return
        envelope = work.envelope
        if envelope.port:
            self.reply_error(work, rank, error)
        elif envelope.kind == MESSAGE:
            content = dumps(error, "the error")
            notice = Envelope(
                kind=UNDELIVERABLE,
                actor=envelope.actor,
                sender=envelope.sender,
                endpoint=envelope.endpoint,
                body=content.body,
            )
            work.peer.post(notice)

    def report(self, owner_process: str, owner: bytes, uid: bytes, failure: MeshFailure) -> None:
        """Tell the owner of the mesh `uid` about a failure, wherever it lives."""
        if owner_process == self.address:
            self.children.failed(uid, owner, failure)
            return
        content = dumps(failure, "the failure")
        news = Envelope(
            kind=FAILURE,
            actor=owner,
            header=uid,
            body=content.body,
            body_in_buffer=content.body_in_buffer,
            buffer_sizes=content.sizes(),
        )
        self.peer(owner_process).post(news, content.buffers)

    def forget_mesh(self, uid: bytes) -> None:
        """Nothing more is sent to a mesh, since none of it is left: its senders need not go on counting."""
        for sender in (self.client, *(cell.identity for cell in self.cells())):
            if sender is not None:
                sender.forget(uid)

    def report_end(self, owner_process: str, uid: bytes, rank: int) -> None:
        """Tell the owner of the mesh `uid` that a rank was stopped."""
        if owner_process == self.address:
            self.children.ended(uid, rank)
        else:
            self.peer(owner_process).post(Envelope(kind=ENDED, header=uid, rank=rank))

    def supervise(self, owner: bytes, failure: MeshFailure) -> None:
        """Hand a failure to the owner, an actor of this process, or to the root."""
        cell = self._actors.get(owner)
        if cell is not None:
            cell.supervise(failure)
        elif owner in self._ended:
            _log.warning("%s (its owner has ended)", failure)
        else:
            supervision.at_root(failure)

    def process_lost(self, address: str, error: SupervisionError, *, awaited: bool) -> None:
        """Another process is gone: owners hear of their actors there, and what it owned here ends.

        `awaited` says that a pending call raised the error already.
        """
        if self.ending:
            return
        self.children.process_lost(address, error, awaited=awaited)
        # What took its place may own something here already.
        incarnation = getattr(error, "incarnation", 0) if comes_back(error) else math.inf
        for cell in self.cells():
            header = cell.header
            if header.owner_process == address and header.owner_incarnation <= incarnation:
                cell.stop_soon("the process of its owner is gone")
        self.on_lost(address, incarnation)

    # ---- the end

    def cell(self, uid: bytes) -> Cell | None:
        """Return the actor `uid` of this process, if it lives here."""
        return self._actors.get(uid)

    def cells(self) -> Sequence[Cell]:
        """Return the actors that live here, in the order they were created."""
        return list(self._actors.values())

    def ended(self, cell: Cell) -> None:
        """Forget an actor that takes no more messages, except why."""
        assert cell.error is not None
        with self._lock:
            self._ended[cell.uid] = cell.error
            self._actors.pop(cell.uid, None)
            if len(self._ended) > _KEEP_ENDED:
                del self._ended[next(iter(self._ended))]
            empty = not self._actors
        self.on_actors()
        if empty:
            self.on_empty()

    def exit(self, code: Any) -> None:
        """End the process as `sys.exit(code)` would; does not return in an actor process."""
        if self.client is not None and self.root == self.address:
            return  # an actor of the client does not take the client down
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))

    def close(self) -> None:
        """Let go of everything. Pending calls of this process fail."""
        self.network.close(ProcessDied("this client has been shut down"))
        self.reactor.close()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            if self._loop_thread is not threading.current_thread():
                self._loop_thread.join(_CANCEL_SECONDS)  # what it runs ends in order, if the program ends

    def abandon(self) -> None:
        """Close what a fork inherited, and touch nothing that belongs to the parent."""
        for descriptor in (*self.network.descriptors(), *self.private_descriptors):
            with contextlib.suppress(OSError):
                os.close(descriptor)
