"""Results of calls that are already under way."""

from __future__ import annotations

import asyncio
import math
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from monarch._runtime import client, here
from monarch._runtime.context import current
from monarch._runtime.promise import Promise
from monarch.errors import DeadlockError, MeshClosed

R = TypeVar("R")
P = ParamSpec("P")

_LONGEST = 2e6  # seconds; epoll counts milliseconds in 31 bits


class Future(Generic[R]):
    """The result of an operation that started when it was called.

    Any thread and any event loop may observe it, any number of times, with `get` or `await`.
    Calls return futures; a program does not construct them.
    """

    __slots__ = ("_promise",)

    _promise: Promise

    def __init__(self) -> None:
        raise TypeError("a Future comes from a call, such as mesh.endpoint.call(...); it is not constructed")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Future stays where its call was made; send its result, which get() returns")

    def get(self, timeout: float | None = None) -> R:
        """Wait for the result and return it, or raise what the operation raised.

        On the thread of a running event loop this warns, since it blocks the loop; use `await`.

        Args:
            timeout: seconds; None waits for as long as the target lives.

        Raises:
            TimeoutError: after `timeout` seconds. The operation goes on, and may be observed again.
            ValueError: for a timeout that is no number, or negative.
            DeadlockError: if the wait could never end, since what it waits for needs this thread.
        """
        __tracebackhide__ = True
        promise = self._promise
        if timeout is not None:
            timeout = _checked(timeout)
        if not promise.settled:
            _wait(promise, timeout)
        return promise.result()  # type: ignore[no-any-return]

    def result(self, timeout: float | None = None) -> R:
        """Do what `get` does; the name that `concurrent.futures` uses."""
        return self.get(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait like `get`, and return what the operation raised, or None if it did not raise.

        Raises:
            TimeoutError: after `timeout` seconds.
        """
        promise = self._promise
        if timeout is not None:
            timeout = _checked(timeout)
        if not promise.settled:
            _wait(promise, timeout)
        try:
            promise.result()
        except BaseException as error:
            return error
        return None

    def cancel(self) -> bool:
        """Give up the result: observers get `CallCancelled`. False if it is there already.

        A message that its actor has not started is dropped; one that has started runs on.
        """
        return self._promise.cancel()

    def done(self) -> bool:
        """Return whether the result, or an error, is there."""
        return self._promise.settled

    def as_asyncio(self) -> asyncio.Future[R]:
        """Return an asyncio future of the running loop that gets the same result.

        Raises:
            RuntimeError: if no event loop runs on this thread.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        promise = self._promise
        if promise.settled:
            _transfer(promise, future)
            return future
        _refuse_deadlock(promise, awaiting=True)

        reactor = here.get().reactor

        def settled() -> None:
            reactor.hurried = True
            try:
                loop.call_soon_threadsafe(_transfer, promise, future)
            except RuntimeError:
                pass  # the loop was closed, and with it whoever waited

        promise.add_callback(settled)
        return future

    def __await__(self) -> Generator[Any, None, R]:
        return self.as_asyncio().__await__()

    def __repr__(self) -> str:
        return f"<Future {'done' if self._promise.settled else 'pending'}>"


def future_of(promise: Promise) -> Future[Any]:
    """Return the public face of a promise."""
    future: Future[Any] = Future.__new__(Future)
    future._promise = promise
    return future


def _checked(timeout: float) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise ValueError(f"timeout takes seconds or None, not {timeout!r}")
    if math.isnan(timeout) or timeout < 0:
        raise ValueError(f"timeout must be at least 0 seconds, not {timeout!r}")
    return min(timeout, _LONGEST)


def _wait(promise: Promise, timeout: float | None) -> None:
    if asyncio._get_running_loop() is not None:
        _refuse_deadlock(promise, awaiting=False)
        if timeout != 0:
            warnings.warn("get() blocks the running event loop; use await instead", stacklevel=3)
    process = here.get()
    context = current.get()
    cell = None if context is None else context.actor_instance._cell
    if cell is None:
        done = promise.wait(process.reactor, timeout)
        if client.program_ends and threading.current_thread() is not threading.main_thread():
            raise SystemExit  # this thread ends with the program, which is no error of anybody
    else:
        _refuse_deadlock(promise, awaiting=False)
        with cell.waiting():
            done = promise.wait(process.reactor, timeout)
    if not done:
        if here.running() is not process:
            raise MeshClosed("the client was shut down while a result was awaited")
        raise TimeoutError(f"no result within {timeout} s; the operation goes on and may be awaited again")


def _refuse_deadlock(promise: Promise, *, awaiting: bool) -> None:
    """Raise if the promise needs an actor that cannot run before this wait is over."""
    if promise.waits_on is None:
        return
    process = here.get()
    awaited = process.cell(promise.waits_on)
    if awaited is None:
        return
    context = current.get()
    name = awaited.header.name
    itself = context is not None and context.actor_instance._cell is awaited and awaited.is_handling()
    if itself:
        raise DeadlockError(
            f"actor {name!r} waits for a message to itself, which it handles only after this one; "
            "call the method directly, or make one of the two a concurrent_endpoint and use await"
        )
    if not awaiting and process.on_loop() and awaited.needs_loop():
        raise DeadlockError(
            f"get() blocks the event loop that actor {name!r} of this process needs to answer; "
            "use await instead"
        )


def _transfer(promise: Promise, future: asyncio.Future[Any]) -> None:
    if future.done():
        return
    try:
        future.set_result(promise.result())
    except BaseException as error:
        future.set_exception(error)


def run_async(coroutine: Coroutine[Any, Any, R]) -> Future[R]:
    """Start a coroutine on the loop of this process and return its future."""
    promise = Promise()

    async def run() -> None:
        try:
            value = await coroutine
        except BaseException as error:
            failed = error

            def fail() -> Any:
                raise failed

            promise.settle(fail)
        else:
            promise.settle(lambda: value)

    loop = here.get().loop
    tasks: list[asyncio.Task[None]] = []
    loop.call_soon_threadsafe(lambda: tasks.append(loop.create_task(run())))
    promise.add_callback(tasks.clear)  # keeps the task alive until then
    return future_of(promise)


def returns_future(function: Callable[P, Awaitable[R]]) -> Callable[P, Future[R]]:
    """Make an `async def` return a `Future`, for both `get()` and `await`. It starts when called."""

    @wraps(function)
    def start(*args: P.args, **kwargs: P.kwargs) -> Future[R]:
        async def run() -> R:
            return await function(*args, **kwargs)

        return run_async(run())

    return start
