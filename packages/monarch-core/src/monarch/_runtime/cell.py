"""One actor in its process: its mailbox, its life, and its end.

Messages are handled one at a time in the order of the mailbox, whatever the mixture of
synchronous and asynchronous endpoints. Who runs them is decided in `lanes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from monarch import config
from monarch._runtime.comeback import FINAL, Comeback
from monarch._runtime.context import Context, Instance, current
from monarch._runtime.ids import ActorAddr, Uid
from monarch._runtime.lanes import LoopLane, ThreadLane
from monarch._runtime.ordering import Ordering, number_for
from monarch._runtime.pickling import loads
from monarch._runtime.port import Port, as_actor_error
from monarch._runtime.spec import READY, ActorStatus, EndpointSpec, SpawnHeader, spec_of
from monarch._runtime.supervision import MeshFailure
from monarch._runtime.tracebacks import format_from_user
from monarch._runtime.work import Work
from monarch.errors import ActorDied, MeshClosed, SupervisionError
from monarch.shape import Point
from monarch.wire.codec import MESSAGE, RESTART, STOP, Envelope, decode_view

if TYPE_CHECKING:
    from monarch._runtime.children import Child
    from monarch._runtime.process import Process

_log = logging.getLogger(__name__)

_KNOWN_VIEWS = 1024
_GAP_SECONDS = 1.0

Script = Generator[Coroutine[Any, Any, Any] | None, Any, None]
"""What an actor does besides handling messages: steps on its own thread, and coroutines between."""


@dataclass(frozen=True)
class UndeliverableMessageEnvelope:
    """A message without a port that nobody took: where it went, to which endpoint, and why not."""

    target: bytes
    endpoint: str
    error: SupervisionError

    def error_msg(self) -> str:
        """Return why it could not be delivered."""
        return str(self.error)


class Cell:
    """An actor and everything around it."""

    def __init__(self, process: Process, uid: bytes, header: SpawnHeader) -> None:
        self.process, self.uid, self.header = process, uid, header
        self.base_rank = header.processes.index(process.address)
        self.rank = header.shape.ndslice.index(self.base_rank)
        creator = ActorAddr(header.owner_process, Uid(header.owner_name, header.owner), header.owner_rank)
        self.identity = Instance(
            process=process.address,
            uid=uid,
            name=header.name,
            class_name=header.class_name,
            rank=Point(self.rank, header.shape.extent),
            creator=creator,
            incarnation=process.incarnation,
        )
        self.identity._cell = self
        self.actor: Any = None
        self.error: SupervisionError | None = None
        """Why it takes no more messages; None while it does."""
        self.queue: deque[Work | Script] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        """Concurrent endpoints in progress."""
        self.handling: tuple[str, float] | None = None
        """The endpoint in progress, and since when (`time.perf_counter`)."""
        self.suspended = False
        """The endpoint in progress waits for something."""
        self._ordering: Ordering[Work] = Ordering(joining=process.incarnation > 0)
        self._comeback = Comeback(header.restart, joining=process.incarnation > 0)
        self._lock = threading.Lock()
        self.withdrawn: set[tuple[bytes, int]] = set()
        self.contexts: dict[bytes, Context] = {}
        self.specs: dict[str, EndpointSpec] = {}
        self._lane = LoopLane(self) if header.on_loop else ThreadLane(self)

    # ---- the mailbox; called by whichever thread reads the sockets

    def deliver(self, work: Work) -> None:
        """Take a message; it is queued as soon as all before it from its sender are."""
        envelope = work.envelope
        if envelope.kind == STOP:
            self._comeback.give_up()
        number, exceptions = envelope.sequence, envelope.sequence_exceptions
        if exceptions:
            number = number_for(self.base_rank, number, exceptions)
        with self._lock:
            due = self._ordering.accept(envelope.sender, number, work)
            refused = self._enqueue(due)
        if not due and self._ordering.joining:
            self.process.later(_GAP_SECONDS, self._skip_gaps)
        for each in refused:
            self._refuse(each)
        self._lane.notify()

    def _enqueue(self, due: Sequence[Work]) -> Sequence[Work]:
        """Add messages to the queue, or return them if this actor takes no more. Called with the lock."""
        if self.error is not None:
            return due
        self.queue.extend(due)
        return ()

    def _skip_gaps(self) -> None:
        """Give up on messages that were lost with the process whose place this one took."""
        with self._lock:
            refused = self._enqueue(self._ordering.skip())
        for each in refused:
            self._refuse(each)
        self._lane.notify()

    def withdraw(self, sender: bytes, port: int) -> None:
        """Drop a message that has not started."""
        with self._lock:
            for work in [*self.queue, *self._ordering.early()]:
                if isinstance(work, Work):
                    envelope = work.envelope
                    if envelope.port == port and envelope.sender == sender and envelope.kind == MESSAGE:
                        self.withdrawn.add((sender, port))

    def is_withdrawn(self, work: Work) -> bool:
        """Whether the sender withdrew the message."""
        if not self.withdrawn:
            return False
        key = (work.envelope.sender, work.envelope.port)
        if key not in self.withdrawn:
            return False
        self.withdrawn.discard(key)
        return True

    def _push(self, script: Script, *, first: bool = False) -> None:
        with self._lock:
            (self.queue.appendleft if first else self.queue.append)(script)
        self._lane.notify()

    # ---- for the lanes

    def context_of(self, view: bytes) -> Context:
        """Return the context of a message addressed to this part of the mesh."""
        context = self.contexts.get(view)
        if context is None:
            if len(self.contexts) > _KNOWN_VIEWS:
                self.contexts.clear()
            shape = decode_view(view)
            point = Point(shape.ndslice.index(self.base_rank), shape.extent)
            context = self.contexts[view] = Context(self.identity, point)
        return context

    def rank_in(self, work: Work) -> int:
        """Return this actor's rank within the part of the mesh that a message is addressed to."""
        return self.context_of(work.envelope.view).message_rank.rank

    def find_spec(self, work: Work) -> EndpointSpec | None:
        """Return how the endpoint is called; None if the message has been answered instead."""
        name = work.envelope.endpoint
        spec = self.specs.get(name)
        if spec is not None:
            return spec
        if name == READY:
            self.process.reply(work, self.rank_in(work), True, name)
            return None
        spec = spec_of(type(self.actor), name)
        if spec is None:
            self.raised(work, AttributeError(f"{self.header.class_name} has no endpoint {name!r}"), None)
            return None
        self.specs[name] = spec
        return spec

    def arguments(
        self, work: Work, spec: EndpointSpec
    ) -> tuple[tuple[Any, ...], dict[str, Any], Port | None]:
        """Return the arguments of a call, with its port in front if the endpoint wants it."""
        envelope = work.envelope
        args, kwargs = loads(envelope.body, work.buffers, envelope.body_in_buffer)
        if not spec.explicit_port:
            return args, kwargs, None
        port = Port(envelope.reply_to or work.peer.address, envelope.port, self.rank_in(work), once=True)
        return (port, *args), kwargs, port

    def raised(self, work: Work, error: BaseException, port: Port | None) -> None:
        """An endpoint raised: the affair of its caller if one waits, else the end of the actor."""
        if isinstance(error, SystemExit):
            self.process.exit(error.code)
        envelope = work.envelope
        answerable = envelope.port and (port is None or not port.used)
        if isinstance(error, Exception) and answerable:
            where = f"{self.header.name}.{envelope.endpoint}() on rank {self.rank}"
            self.process.reply_error(work, self.rank_in(work), as_actor_error(error, where))
        else:
            self._fail(error, envelope.endpoint, work)

    # ---- life

    def create(self, work: Work) -> Script:
        """Run the constructor."""
        self.process.on_actors()
        if self.header.restart.scope != "never":
            self._comeback.birth = work
        current.set(Context(self.identity, self.identity.rank))
        self.handling = ("__init__", time.perf_counter())
        envelope = work.envelope
        try:
            cls, args, kwargs, mesh = loads(envelope.body, work.buffers, envelope.body_in_buffer)
            self.identity._proc_mesh = mesh
            actor = cls.__new__(cls)
            actor.__init__(*args, **kwargs)
            self.actor = actor
        except BaseException as error:
            self._fail(error, "__init__")
        self.handling = None
        yield None

    def stop(self, work: Work) -> Script:
        """End in order: everything before is handled, nothing after."""
        envelope = work.envelope
        reason = loads(envelope.body, work.buffers, envelope.body_in_buffer)
        yield from self._stop(reason)
        self._confirm_stop(work)

    def stop_soon(self, reason: str) -> None:
        """End in order once what is queued now is handled."""
        self._comeback.give_up()
        self._push(self._stop(reason))

    def _stop(self, reason: str) -> Script:
        if self.error is not None:
            return
        yield from self._wind_up(None)
        self._end(MeshClosed(f"actor {self.header.name!r} rank {self.rank} is stopped: {reason}"))

    def _wind_up(self, error: BaseException | None, *, cleanup: bool = True) -> Script:
        """Cancel concurrent endpoints, stop the meshes that the actor owns, then let it clean up."""
        yield self._end_tasks()
        if children := self.process.children.of(self.uid):
            yield _stop_all(children, f"its owner {self.header.name!r} has ended")
        hook = getattr(self.actor, "__cleanup__", None)
        if hook is None or not cleanup:
            return
        current.set(Context(self.identity, self.identity.rank))
        try:
            outcome = hook(error)
            if asyncio.iscoroutine(outcome):
                yield asyncio.wait_for(outcome, config.get("cleanup_timeout"))
        except Exception:
            _log.exception("__cleanup__ of actor %s rank %d did not end well", self.header.name, self.rank)

    async def _end_tasks(self) -> None:
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        if tasks:  # those that refuse to be cancelled end with the process
            await asyncio.wait(tasks, timeout=config.get("cleanup_timeout"))

    def abort(self, reason: str, *, cleanup: bool = True) -> None:
        """Fail, as the actor itself wants it."""
        self._fail(RuntimeError(reason), self.handling[0] if self.handling else None, cleanup=cleanup)

    def _fail(
        self, error: BaseException, endpoint: str | None, work: Work | None = None, *, cleanup: bool = True
    ) -> None:
        # What is stopped where it waited, as at a breakpoint, has not failed and does not come back.
        is_stopped = self.process.ending and isinstance(error, MeshClosed)
        decision = None
        if self.error is None:
            decision = FINAL if is_stopped else self._comeback.decide(self.rank)
        if decision is None:
            self._answer_with(work, self.error or self._died(error, endpoint, True))
            return
        delay = decision.delay
        died = self._died(error, endpoint, delay is not None)
        observed = self._is_raised(work, delay is not None)
        if delay is None:
            self._end(died, last=self._wind_up(error, cleanup=cleanup))
        else:
            self._push(self._restart(delay, error, cleanup), first=True)
            if self.header.restart.scope == "mesh":
                self._restart_others(decision.generation)
        self._answer_with(work, died)
        failure = MeshFailure(
            mesh_name=self.header.name,
            rank=self.rank,
            coordinates=dict(self.identity.rank),
            class_name=self.header.class_name,
            cause=_cause(error, endpoint),
            endpoint=endpoint,
            pid=self.process.pid,
            observed=observed,
            restarting=delay is not None,
            traceback=_traceback(error),
            because=getattr(error, "mesh_failure", None),
        )
        if not is_stopped:
            self.process.report(self.header.owner_process, self.header.owner, self.uid, failure)

    def _is_raised(self, work: Work | None, restarting: bool) -> bool:
        """Whether a call raises the failure: the one that was handled, or one that waits and is refused."""
        with self._lock:
            waiting = () if restarting else tuple(self.queue)
        calls = [each for each in (work, *waiting) if isinstance(each, Work)]
        return any(call.envelope.port and call.envelope.kind != STOP for call in calls)

    def _answer_with(self, work: Work | None, error: SupervisionError) -> None:
        """Tell who waits for the message that the actor failed at; it was delivered, so nobody else hears."""
        if work is not None and work.envelope.port:
            self.process.reply_error(work, self.rank_in(work), error)

    def _died(self, error: BaseException, endpoint: str | None, restarting: bool) -> ActorDied:
        what = f"actor {self.header.name!r} ({self.header.class_name}) rank {self.rank} failed"
        after = " and is restarted" if restarting else ""
        text = f"{what}{after}: {_cause(error, endpoint)}\n{_traceback(error)}".rstrip()
        return ActorDied(text, endpoint, mesh=self.header.name, rank=self.rank)

    # ---- restarts

    def _restart_others(self, generation: int) -> None:
        restart = Envelope(kind=RESTART, actor=self.uid, rank=self.rank, sequence=generation)
        for address in self.header.processes:
            if address != self.process.address:
                self.process.peer(address).post(restart)

    def restart_with(self, rank: int, generation: int) -> None:
        """Another rank of the mesh failed in this generation, and the whole mesh restarts."""
        decision = None if self.error is not None else self._comeback.decide(self.rank, generation)
        if decision is None:
            return
        reason = SupervisionError(f"rank {rank} of {self.header.name!r} failed, and its mesh restarts")
        if decision.delay is None:
            self._fail(reason, None)
        else:
            self._push(self._restart(decision.delay, reason, True), first=True)

    def _restart(self, delay: float, error: BaseException, cleanup: bool) -> Script:
        """Create the actor again after `delay` seconds; its messages wait meanwhile."""
        comeback = self._comeback
        yield from self._wind_up(error, cleanup=cleanup)
        self.actor = None
        yield comeback.back_off(delay)
        comeback.under_way = False
        if comeback.is_to_stop:
            name, rank = self.header.name, self.rank
            self._end(MeshClosed(f"actor {name!r} rank {rank} failed, and was stopped before its restart"))
            return
        assert comeback.birth is not None
        yield from self.create(comeback.birth)

    def _end(self, error: SupervisionError, last: Script | None = None) -> None:
        """Take no more messages, refuse those that wait, and do a `last` thing."""
        with self._lock:
            self.error = error
            waiting = [work for work in self.queue if isinstance(work, Work)]
            self.queue.clear()
            if last is not None:
                self.queue.append(last)
        for work in waiting:
            self._refuse(work)
        self.process.ended(self)
        if isinstance(error, MeshClosed) and not self.process.ending:
            self.process.report_end(self.header.owner_process, self.uid, self.rank)
        self._lane.notify()

    def _refuse(self, work: Work) -> None:
        assert self.error is not None
        if work.envelope.kind == STOP:
            self._confirm_stop(work)
        else:
            self.process.refuse(work, self.rank_in(work), self.error)

    def _confirm_stop(self, work: Work) -> None:
        if work.envelope.port:
            self.process.reply(work, self.rank_in(work), None, "stop")

    def undeliverable(self, target: bytes, endpoint: str, error: SupervisionError) -> bool:
        """Offer an undeliverable message to the actor that sent it; False if it has no say in it."""
        if getattr(self.actor, "_handle_undeliverable_message", None) is None:
            return False
        self._push(self._consider(UndeliverableMessageEnvelope(target, endpoint, error)))
        return True

    def _consider(self, envelope: UndeliverableMessageEnvelope) -> Script:
        current.set(Context(self.identity, self.identity.rank))
        try:
            handled = self.actor._handle_undeliverable_message(envelope)
            if asyncio.iscoroutine(handled):
                handled = yield handled
        except Exception as error:
            self._fail(error, "_handle_undeliverable_message")
            return
        if not handled:
            _log.warning("a message to %s() could not be delivered: %s", envelope.endpoint, envelope.error)
        yield None

    # ---- failures of what this actor owns

    def supervise(self, failure: MeshFailure) -> None:
        """Ask `__supervise__` at the next opportunity; what it does not handle fails this actor."""
        self._push(self._ask(failure), first=True)

    def _ask(self, failure: MeshFailure) -> Script:
        hook = getattr(self.actor, "__supervise__", None)
        current.set(Context(self.identity, self.identity.rank))
        error: BaseException = SupervisionError(f"unhandled failure of an owned mesh: {failure}")
        try:
            handled = failure.observed if hook is None else hook(failure)
            if asyncio.iscoroutine(handled):
                handled = yield handled
            handled = handled or failure.restarting
        except Exception as raised:
            handled, error = False, raised
        if not handled:
            error.mesh_failure = failure  # type: ignore[attr-defined]
            self._fail(error, "__supervise__" if hook else None)

    # ---- for whoever waits

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark that the endpoint in progress waits for something, unless a concurrent one does."""
        if not self.is_handling():
            yield
            return
        before, self.suspended = self.suspended, True
        try:
            yield
        finally:
            self.suspended = before

    def is_handling(self) -> bool:
        """Whether the code that asks belongs to the one handler that everything else waits for."""
        if self.handling is None:
            return False
        return asyncio._get_running_loop() is None or asyncio.current_task() not in self.tasks

    def needs_loop(self) -> bool:
        """Whether this actor may need the event loop to answer."""
        return self.header.on_loop or self.header.has_async

    # ---- for people

    def status(self) -> ActorStatus:
        """Return what the actor is doing."""
        handling, queued = self.handling, len(self.queue)
        handler, seconds = (
            (None, 0.0) if handling is None else (handling[0], time.perf_counter() - handling[1])
        )
        return ActorStatus(
            name=self.header.name,
            class_name=self.header.class_name,
            rank=self.rank,
            state=self._state(handler, queued),
            handler=handler,
            seconds=seconds,
            queued=queued,
            concurrent=len(self.tasks),
            process=self.process.address,
            pid=self.process.pid,
        )

    def _state(self, handler: str | None, queued: int) -> str:
        if self.error is not None:
            return "stopped" if isinstance(self.error, MeshClosed) else "failed"
        if handler is None:
            if self._comeback.under_way:
                return "restarting"
            return "starting" if self.actor is None else "idle"
        if not self.suspended:
            return "running"
        return "blocked" if queued else "waiting"


def _cause(error: BaseException, endpoint: str | None) -> str:
    what = f"{endpoint}() raised " if endpoint else ""
    return f"{what}{type(error).__name__}: {error}"


def _traceback(error: BaseException) -> str:
    return format_from_user(error) if error.__traceback__ else ""


async def _stop_all(children: Sequence[Child], reason: str) -> None:
    """Stop meshes; those that do not stop in time are left to the end of their processes."""
    ends = asyncio.gather(*(_awaited(child.stop(reason)) for child in children), return_exceptions=True)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ends, config.get("stop_actor_timeout"))


async def _awaited(end: Awaitable[Any]) -> None:
    await end
