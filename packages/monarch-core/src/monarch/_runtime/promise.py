"""A result that is not there yet, for any number of observers on any thread or loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from monarch._transport.reactor import Reactor, Waiter
from monarch.errors import CallCancelled

Outcome = Callable[[], Any]


class Promise:
    """Settled once, with a function that returns the value or raises.

    The function is run by the first observer and its outcome kept: what arrives is decoded by
    the thread that wants it, never by the one that reads the sockets.
    """

    __slots__ = (
        "_callbacks",
        "_error",
        "_lock",
        "_outcome",
        "_value",
        "_waiters",
        "keeps",
        "settled",
        "waits_on",
    )

    def __init__(self) -> None:
        self.settled = False
        # The actor of this very process that has to run before this can be settled; for finding deadlocks.
        self.waits_on: bytes | None = None
        # Kept alive until this promise is forgotten: the receiver whose port it waits at.
        self.keeps: Any = None
        self._outcome: Outcome | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._waiters: list[tuple[Reactor, Waiter]] | None = None
        self._callbacks: deque[Callable[[], None]] | None = None

    def settle(self, outcome: Outcome) -> bool:
        """Settle with `outcome`; False if it has been settled before."""
        with self._lock:
            if self.settled:
                return False
            self._outcome = outcome
            self.settled = True
        if self._waiters:
            for reactor, waiter in list(self._waiters):
                reactor.signal(waiter)
        if self._callbacks:
            self._run_callbacks()
        return True

    def cancel(self) -> bool:
        """Settle with `CallCancelled`, and withdraw the message if it has not started."""
        if not self.settle(_cancelled):
            return False
        self.withdraw()
        return True

    def withdraw(self) -> None:
        """Hear that nobody wants the result any more. A promise that stands for a message drops it."""

    def result(self) -> Any:
        """Return the value or raise the error. Only after it is settled."""
        __tracebackhide__ = True  # of test runners and notebooks: what matters is who asked
        with self._lock:
            if self._outcome is not None:
                try:
                    self._value = self._outcome()
                except BaseException as error:
                    self._error = error
                self._outcome = None
        if self._error is not None:
            raise self._error.with_traceback(None)
        return self._value

    def wait(self, reactor: Reactor, timeout: float | None) -> bool:
        """Block until it is settled; False if `timeout` seconds went by first."""
        if self.settled:
            return True
        waiter = Waiter()
        entry = (reactor, waiter)
        with self._lock:
            if self._waiters is None:
                self._waiters = []
            self._waiters.append(entry)
        try:
            return self.settled or reactor.wait(waiter, timeout) or self.settled
        finally:
            self._waiters.remove(entry)

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` once it is settled: now if it is, else on the thread that settles it."""
        with self._lock:
            if self._callbacks is None:
                self._callbacks = deque()
            self._callbacks.append(callback)
        if self.settled:
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        while self._callbacks:  # taken one by one: two threads may come here
            try:
                callback = self._callbacks.popleft()
            except IndexError:
                return
            callback()


class LastingPromise(Promise):
    """A promise that may be settled after the reactor of the process has ended."""

    __slots__ = ()

    def wait(self, reactor: Reactor, timeout: float | None) -> bool:
        """Block until it is settled, without reading sockets meanwhile."""
        settled = threading.Event()
        self.add_callback(settled.set)
        return settled.wait(timeout)


def _cancelled() -> Any:
    raise CallCancelled("the call was cancelled")
