"""Where answers arrive: the ports of this process, and what each kind does with an answer."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, NoReturn, Protocol

from monarch._runtime.pickling import loads
from monarch._runtime.promise import Outcome, Promise
from monarch.wire.codec import Envelope

_log = logging.getLogger(__name__)


class Answer:
    """An answer as it arrived; calling it returns its value, or raises the exception that it carries."""

    __slots__ = ("_buffers", "_envelope", "_failed")

    def __init__(self, envelope: Envelope, buffers: Sequence[memoryview], failed: bool) -> None:
        self._envelope, self._buffers, self._failed = envelope, buffers, failed

    def __call__(self) -> Any:
        envelope = self._envelope
        value = loads(envelope.body, self._buffers, envelope.body_in_buffer)
        if self._failed:
            raise value
        return value


def raising(error: BaseException) -> Outcome:
    """Return the outcome of something that failed here."""
    return partial(_raise, error)


def _raise(error: BaseException) -> NoReturn:
    raise error


class Sink(Protocol):
    """What stands behind a port."""

    def take(self, rank: int, outcome: Outcome, failed: bool) -> bool:
        """Take the answer of `rank`; True closes the port, since nothing more is expected."""


class Ports:
    """The open ports of this process.

    Their numbers are those of no earlier incarnation: what is still on its way to one, or kept by
    who may send to it, finds no port.
    """

    def __init__(self, incarnation: int = 0) -> None:
        self._sinks: dict[int, Sink] = {}
        self._numbers = count((incarnation << 40) + 1)

    def open(self, sink: Sink) -> int:
        """Return the number of a new port."""
        number = next(self._numbers)
        self._sinks[number] = sink
        return number

    def close(self, number: int) -> None:
        """Close a port; what still arrives for it is dropped."""
        self._sinks.pop(number, None)

    def take(self, number: int, rank: int, outcome: Outcome, failed: bool) -> None:
        """Hand an answer to what stands behind a port; without an open port it is dropped."""
        sink = self._sinks.get(number)
        if sink is not None and sink.take(rank, outcome, failed):
            self._sinks.pop(number, None)


class OneAnswer:
    """The answer of one rank."""

    __slots__ = ("_promise",)

    def __init__(self, promise: Promise) -> None:
        self._promise = promise

    def take(self, rank: int, outcome: Outcome, failed: bool) -> bool:
        """Settle the promise."""
        self._promise.settle(outcome)
        return True


class Gather:
    """One answer of each of `size` ranks, put together by `combine`; the first error settles it."""

    def __init__(self, promise: Promise, size: int, combine: Callable[[list[Any]], Any]) -> None:
        self._promise, self._combine = promise, combine
        self._answers: list[Outcome | None] = [None] * size
        self._missing = size

    def take(self, rank: int, outcome: Outcome, failed: bool) -> bool:
        """Keep the answer; the last one, or an error, settles the promise."""
        if failed:
            self._promise.settle(outcome)
            return True
        if self._answers[rank] is None:
            self._answers[rank] = outcome
            self._missing -= 1
            if not self._missing:
                self._promise.settle(self._all)
        return not self._missing

    def _all(self) -> Any:
        return self._combine([answer() for answer in self._answers if answer is not None])


class Ends:
    """Any answer of each of `size` ranks says that it has ended: one that can answer no more has, too.

    A rank that ended before does not know any more which it was; so they are counted.
    """

    __slots__ = ("_missing", "_promise")

    def __init__(self, promise: Promise, size: int) -> None:
        self._promise, self._missing = promise, size

    def take(self, rank: int, outcome: Outcome, failed: bool) -> bool:
        """Count the answer; the last one settles the promise."""
        self._missing -= 1
        if not self._missing:
            self._promise.settle(lambda: None)
        return not self._missing


class InArrivalOrder:
    """One answer of each of `size` ranks, each to the next of as many promises."""

    def __init__(self, promises: Sequence[Promise]) -> None:
        self._open = deque(promises)
        self._heard: set[int] = set()

    def take(self, rank: int, outcome: Outcome, failed: bool) -> bool:
        """Settle the next promise, unless this rank has answered before."""
        if rank not in self._heard or failed:
            self._heard.add(rank)
            while self._open and not self._open.popleft().settle(outcome):
                pass  # that one was cancelled: the answer is for the next
        return not self._open

    def is_wanted(self) -> bool:
        """Whether somebody still waits for an answer."""
        return any(not promise.settled for promise in self._open)


class Inbox:
    """Any number of values for one receiver, in order of arrival."""

    def __init__(self, *, once: bool, ranked: bool) -> None:
        self._once, self._ranked = once, ranked
        self._state = _InboxState()

    def as_ranked(self) -> Inbox:
        """Return another view of the same values, as `(rank, value)`."""
        view = Inbox(once=self._once, ranked=True)
        view._state = self._state
        return view

    def take(self, rank: int, outcome: Outcome, failed: bool) -> bool:
        """Give the value, or the error, to whoever waits longest, or keep it."""
        state = self._state
        with state.lock:
            if self._once and state.taken:
                _log.warning("a port opened with once=True got a second value; it is ignored")
                return True
            state.taken = True
            state.arrived.append(lambda: (rank, outcome()))
        self._hand_out()
        return False

    def next(self) -> Promise:
        """Return the promise of the next value that nobody has taken."""
        promise = Promise()
        with self._state.lock:
            self._state.waiting.append((promise, self._ranked))
        self._hand_out()
        return promise

    def _hand_out(self) -> None:
        state = self._state
        while True:
            with state.lock:
                if not (state.arrived and state.waiting):
                    return
                promise, ranked = state.waiting.popleft()
                if promise.settled:  # cancelled
                    continue
                outcome = state.arrived.popleft()
            if not promise.settle(partial(_of_pair, outcome, ranked)):
                with state.lock:  # cancelled in this very moment
                    state.arrived.appendleft(outcome)


class _InboxState:
    """What all views of an inbox share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.arrived: deque[Outcome] = deque()
        self.waiting: deque[tuple[Promise, bool]] = deque()
        self.taken = False


def _of_pair(outcome: Outcome, ranked: bool) -> Any:
    pair = outcome()
    return pair if ranked else pair[1]
