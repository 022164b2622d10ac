"""Who runs an actor's messages: a thread of its own, or the event loop of the process.

Synchronous endpoints run on the actor's own thread, always the same, so that thread-bound state
(a CUDA device, a database handle) works. That thread also reads the sockets of the process while
it has nothing to do, so that a message needs no hand-over to reach its handler. Asynchronous
endpoints run on the loop; where a class has both kinds, the thread waits for the loop, which
keeps the order. An actor with asynchronous endpoints only has no thread.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from monarch._runtime.context import current
from monarch._runtime.peers import Peer
from monarch._runtime.spec import EndpointSpec
from monarch._runtime.work import Work
from monarch._transport.reactor import Waiter
from monarch.wire.codec import MESSAGE, SPAWN

if TYPE_CHECKING:
    from monarch._runtime.cell import Cell, Script

_log = logging.getLogger(__name__)

_MANY = 64  # messages handled in less than a look of the stand-by thread are no reason for it to lead
_QUICK = 100e-6  # a handler known to be this quick (seconds) may run before the last reply is written


async def _handle(cell: Cell, work: Work, spec: EndpointSpec, *, concurrent: bool) -> None:
    """Run one endpoint on the loop and answer."""
    envelope = work.envelope
    current.set(cell.context_of(envelope.view))
    port = result = None
    failure: BaseException | None = None
    if not concurrent:
        cell.handling, cell.suspended = (envelope.endpoint, time.perf_counter()), True
    try:
        args, kwargs, port = cell.arguments(work, spec)
        result = spec.function(cell.actor, *args, **kwargs)
        if spec.is_async:
            result = await result
    except asyncio.CancelledError:
        if not envelope.port:
            return  # the end of its actor is no failure of the endpoint, and nobody waits for it
        failure = RuntimeError("the endpoint was cancelled since its actor is stopped")
    except GeneratorExit:
        raise  # the loop is gone and Python clears up: the endpoint has not failed
    except BaseException as error:
        failure = error
    if not concurrent:  # before the answer: who has it may look at us at once
        cell.handling, cell.suspended = None, False
    if failure is not None:
        cell.raised(work, failure, port)
    elif envelope.port and port is None:
        cell.process.reply(work, cell.rank_in(work), result, envelope.endpoint)


def _start_concurrent(cell: Cell, work: Work, spec: EndpointSpec) -> None:
    task = cell.process.loop.create_task(_handle(cell, work, spec, concurrent=True))
    cell.tasks.add(task)
    task.add_done_callback(cell.tasks.discard)


async def _begin_concurrent(cell: Cell, work: Work, spec: EndpointSpec) -> None:
    """Start a concurrent endpoint and let it come to its first wait, before the next message is handled."""
    _start_concurrent(cell, work, spec)
    await asyncio.sleep(0)


class ThreadLane:
    """A thread for one actor."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._waiter = Waiter(eager=False)
        self._held: set[Peer] = set()
        self._durations: dict[str, float] = {}
        name = f"{cell.header.name}[{cell.rank}]"
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """Something is in the queue, or the actor has ended."""
        self._cell.process.reactor.signal(self._waiter)

    def _live(self) -> None:
        cell, reactor, waiter = self._cell, self._cell.process.reactor, self._waiter
        queue = cell.queue
        while True:
            waiter.reset()
            handled = 0
            try:
                while queue:
                    self._perform(queue.popleft())
                    handled += 1
                    if not handled % _MANY:
                        reactor.back_soon()
            except Exception as error:  # an error of ours: the actor ends, and whoever waits for it hears
                _log.exception("actor %s rank %d met an internal error", cell.header.name, cell.rank)
                cell.abort(f"an internal error: {error!r}")
                continue
            self._flush()
            if cell.error is not None:
                return
            if not reactor.wait(waiter):
                return

    def _perform(self, work: Work | Script) -> None:
        if not isinstance(work, Work):
            self._flush()
            self._run(work)
            return
        kind = work.envelope.kind
        if kind == MESSAGE:
            self._message(work)
        else:
            self._flush()
            self._run(self._cell.create(work) if kind == SPAWN else self._cell.stop(work))

    def _run(self, script: Script) -> None:
        """Run a script: its steps here, its coroutines on the loop."""
        try:
            step = next(script)
            while True:
                if step is None:
                    step = script.send(None)
                    continue
                try:
                    value = self._await(step)
                except BaseException as error:
                    step = script.throw(error)
                else:
                    step = script.send(value)
        except StopIteration:
            pass

    def _message(self, work: Work) -> None:
        cell, envelope = self._cell, work.envelope
        name = envelope.endpoint
        if cell.withdrawn and cell.is_withdrawn(work):
            return
        spec = cell.specs.get(name) or cell.find_spec(work)
        if spec is None:
            return
        if self._held and self._durations.get(name, 1.0) > _QUICK:
            self._flush()
        if spec.is_async:
            self._flush()
            if spec.concurrent:
                self._await(_begin_concurrent(cell, work, spec))
            else:
                self._await(_handle(cell, work, spec, concurrent=False))
            return
        view = envelope.view
        context = cell.contexts.get(view) or cell.context_of(view)
        current.set(context)
        began = time.perf_counter()
        cell.handling = (name, began)
        port = None
        try:
            if work.buffers or spec.explicit_port:
                args, kwargs, port = cell.arguments(work, spec)
            else:
                args, kwargs = pickle.loads(envelope.body)
            result = spec.function(cell.actor, *args, **kwargs)
            cell.handling = None  # before the answer: who has it may look at us at once
            if envelope.port and port is None:
                # After large arguments, too: once they are gone, their release travels with the answer.
                hold = bool(cell.queue or work.buffers)
                cell.process.reply(work, context.message_rank.rank, result, name, hold)
                if hold:
                    self._held.add(work.peer)
        except BaseException as error:
            cell.handling = None
            cell.raised(work, error, port)
        self._durations[name] = time.perf_counter() - began

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop and wait for it, reading sockets meanwhile."""
        process, done = self._cell.process, Waiter()
        outcome: list[asyncio.Task[Any]] = []

        def finish(task: asyncio.Task[Any]) -> None:
            outcome.append(task)
            process.reactor.signal(done)

        process.loop.call_soon_threadsafe(
            lambda: process.loop.create_task(coroutine).add_done_callback(finish)
        )
        if not process.reactor.wait(done):
            raise SystemExit  # the runtime has ended, and with it this thread: no failure of the actor
        return outcome[0].result()

    def _flush(self) -> None:
        while self._held:
            self._held.pop().flush()


class LoopLane:
    """The event loop of the process, for an actor whose endpoints are all asynchronous."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._lock = threading.Lock()
        self._pumping = False

    def notify(self) -> None:
        """Something is in the queue, or the actor has ended."""
        with self._lock:
            if self._pumping:
                return
            self._pumping = True
        self._cell.process.loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        # Kept: the loop itself holds tasks by weak references only.
        self._task = self._cell.process.loop.create_task(self._pump())

    async def _pump(self) -> None:
        queue = self._cell.queue
        while True:
            while queue:
                await self._perform(queue.popleft())
            with self._lock:  # whoever adds a message now either sees us pumping, or starts us anew
                if not queue:
                    self._pumping = False
                    return

    async def _perform(self, work: Work | Script) -> None:
        cell = self._cell
        if not isinstance(work, Work):
            await self._run(work)
            return
        kind = work.envelope.kind
        if kind != MESSAGE:
            await self._run(cell.create(work) if kind == SPAWN else cell.stop(work))
        elif not cell.is_withdrawn(work) and (spec := cell.find_spec(work)):
            if spec.concurrent:
                _start_concurrent(cell, work, spec)
            else:
                await _handle(cell, work, spec, concurrent=False)

    async def _run(self, script: Script) -> None:
        try:
            step = next(script)
            while True:
                try:
                    value = None if step is None else await step
                except BaseException as error:
                    step = script.throw(error)
                else:
                    step = script.send(value)
        except StopIteration:
            pass
