"""Channels: values from anywhere to one receiver."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

from monarch._actor.future import Future, future_of
from monarch._runtime import here
from monarch._runtime.port import Port
from monarch._runtime.ports import Inbox
from monarch._runtime.sending import sender

R = TypeVar("R")


class PortReceiver(Generic[R]):
    """The receiving end of a channel, in the process that opened it."""

    def __init__(self, inbox: Inbox, origin: PortReceiver[Any] | None = None) -> None:
        self._inbox, self._origin = inbox, origin

    def recv(self) -> Future[R]:
        """Return the future of the next value. An exception sent to the port is raised by it."""
        promise = self._inbox.next()
        promise.keeps = self
        return future_of(promise)

    def ranked(self) -> PortReceiver[tuple[int, R]]:
        """Return a receiver of the same values as `(rank, value)`, with the rank of each sender."""
        return PortReceiver(self._inbox.as_ranked(), self)


class Channel:
    """A pair of a `Port`, which may be sent anywhere, and its receiver, which stays."""

    @staticmethod
    def open(once: bool = False) -> tuple[Port, PortReceiver[Any]]:
        """Open a channel; with `once` it takes one value, and ignores more with a warning."""
        return _open(once=once, ranked=False)

    @staticmethod
    def open_ranked(once: bool = False) -> tuple[Port, PortReceiver[tuple[int, Any]]]:
        """Open a channel whose receiver yields `(rank, value)`."""
        return _open(once=once, ranked=True)


def _open(*, once: bool, ranked: bool) -> tuple[Port, PortReceiver[Any]]:
    process = here.get()
    inbox = Inbox(once=once, ranked=ranked)
    number = process.ports.open(inbox)
    receiver: PortReceiver[Any] = PortReceiver(inbox)
    # The port is open for as long as somebody can receive from it.
    weakref.finalize(receiver, process.ports.close, number).atexit = False
    return Port(process.address, number, sender(process).rank.rank, once=once), receiver
