"""Where answers arrive: the ports of this process, and what each kind does with a reply."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Protocol

from monarch._runtime.pickling import loads
from monarch._runtime.promise import Outcome, Promise
from monarch.wire.codec import Received

_log = logging.getLogger(__name__)


class Sink(Protocol):
    """What stands behind a port."""

    close: Callable[[], None]
    """Closes the port, once nothing more is expected."""

    def deliver(self, rank: int, received: Received, *, error: bool) -> None:
        """Take the reply of `rank`."""

    def fail(self, rank: int, error: BaseException) -> None:
        """Hear that `rank` will never reply."""


class Ports:
    """The open ports of this process."""

    def __init__(self) -> None:
        self._sinks: dict[int, Sink] = {}
        self._numbers = count(1)

    def open(self, sink: Sink) -> int:
        """Return the number of a new port."""
        number = next(self._numbers)
        self._sinks[number] = sink
        return number

    def close(self, number: int) -> None:
        """Close a port; what still arrives for it is dropped."""
        self._sinks.pop(number, None)

    def get(self, number: int) -> Sink | None:
        """Return what stands behind a port, or None if it is closed."""
        return self._sinks.get(number)


def decode(received: Received, error: bool) -> Any:
    """Return the value of a reply, or raise the exception that it carries."""
    envelope = received.envelope
    value = loads(envelope.body, received.buffers, envelope.body_in_buffer)
    if error:
        raise value
    return value


def _raise(error: BaseException) -> Any:
    raise error


class OneReply:
    """The reply of one rank."""

    __slots__ = ("close", "promise")

    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self.close: Callable[[], None] = _nothing

    def deliver(self, rank: int, received: Received, *, error: bool) -> None:
        """Settle the promise."""
        self.close()
        self.promise.settle(partial(decode, received, error))

    def fail(self, rank: int, error: BaseException) -> None:
        """Settle the promise with the error."""
        self.close()
        self.promise.settle(partial(_raise, error))


def _nothing() -> None:
    pass


class Gather:
    """One reply of each of `size` ranks, put together by `combine`; the first error settles it."""

    def __init__(self, promise: Promise, size: int, combine: Callable[[list[Any]], Any]) -> None:
        self.promise = promise
        self.close: Callable[[], None] = _nothing
        self._replies: list[Received | None] = [None] * size
        self._missing = size
        self._combine = combine

    def deliver(self, rank: int, received: Received, *, error: bool) -> None:
        """Keep the reply; the last one, or an error, settles the promise."""
        if error:
            self.close()
            self.promise.settle(partial(decode, received, True))
        elif self._replies[rank] is None:
            self._replies[rank] = received
            self._missing -= 1
            if not self._missing:
                self.close()
                self.promise.settle(self._all)

    def _all(self) -> Any:
        return self._combine([decode(reply, False) for reply in self._replies if reply is not None])

    def fail(self, rank: int, error: BaseException) -> None:
        """Settle the promise with the error."""
        self.close()
        self.promise.settle(partial(_raise, error))


class InArrivalOrder:
    """One reply of each of `size` ranks, each to the next of as many promises."""

    def __init__(self, promises: Sequence[Promise]) -> None:
        self._open = deque(promises)
        self._heard: set[int] = set()
        self.close: Callable[[], None] = _nothing

    def deliver(self, rank: int, received: Received, *, error: bool) -> None:
        """Settle the next promise."""
        self._settle(rank, partial(decode, received, error))

    def fail(self, rank: int, error: BaseException) -> None:
        """Settle the next promise with the error."""
        self._settle(rank, partial(_raise, error))

    def _settle(self, rank: int, outcome: Callable[[], Any]) -> None:
        if rank in self._heard:
            return
        self._heard.add(rank)
        self._open.popleft().settle(outcome)
        if not self._open:
            self.close()


class Inbox:
    """Any number of values for one receiver, in order of arrival."""

    def __init__(self, *, once: bool, ranked: bool) -> None:
        self._once, self._ranked = once, ranked
        self._state = _InboxState()
        self.close: Callable[[], None] = _nothing

    def as_ranked(self) -> Inbox:
        """Return another view of the same values, as `(rank, value)`."""
        view = Inbox(once=self._once, ranked=True)
        view._state, view.close = self._state, self.close
        return view

    def deliver(self, rank: int, received: Received, *, error: bool) -> None:
        """Give the value to whoever waits longest, or keep it."""
        self._put(lambda: (rank, decode(received, error)))

    def fail(self, rank: int, error: BaseException) -> None:
        """Give the error to whoever waits longest, or keep it."""
        self._put(partial(_raise, error))

    def _put(self, outcome: Outcome) -> None:
        state = self._state
        with state.lock:
            if self._once and state.taken:
                _log.warning("a port opened with once=True got a second value; it is ignored")
                return
            state.taken = True
            state.arrived.append(outcome)
        self._hand_out()

    def take(self) -> Promise:
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
