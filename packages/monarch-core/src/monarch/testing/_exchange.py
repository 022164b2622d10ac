"""Runs connections as the runtime does: read when readable, drained when writable, flushed before sleep."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

import pytest

from monarch.abc import Connection, Listener, Transport
from monarch.wire.codec import Envelope, Hello, Message, Received

Buffer = Sequence[bytes | memoryview]


def message(body: bytes = b"", *buffers: Buffer) -> Message:
    """Return an encoded message with these out-of-band buffers, each given as its chunks."""
    sizes = [sum(memoryview(chunk).nbytes for chunk in chunks) for chunks in buffers]
    return Message(Envelope(body=body, buffer_sizes=sizes).SerializeToString(), buffers)


class End:
    """One end of a connection, with what came out of it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.received: list[Received] = []
        self.hello: Hello | None = None
        self.ended = False
        self.waiting = False
        self.said: list[bool] = []
        """What the connection said about its backlog."""
        connection.on_backlog = self._on_backlog

    def _on_backlog(self, waiting: bool) -> None:
        self.waiting = waiting
        self.said.append(waiting)

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the messages received so far."""
        return [envelope.body for envelope, _ in self.received]

    def send(self, body: bytes = b"", *buffers: Buffer, hold: bool = False) -> None:
        """Send one message, and close it as its owner does."""
        sent = message(body, *buffers)
        self.connection.send(sent, hold=hold)
        sent.close()

    def close(self) -> None:
        """Close this end; it is not run any more."""
        self.ended = True
        self.connection.close()

    def read(self) -> None:
        """Read once."""
        try:
            arrived = self.connection.receive()
        except EOFError:
            self.ended = True
            arrived = ()
        self.received += arrived
        if self.connection.peer_hello is not None:
            self.hello, self.connection.peer_hello = self.connection.peer_hello, None


class Exchange:
    """A listener, the connections made with it, and one thread that waits on them all."""

    def __init__(self, transport: Transport, address: str, patience: float) -> None:
        self.transport, self.address, self.patience = transport, address, patience
        self.listener: Listener = transport.listen(address)
        self._ends: list[End] = []

    def connect(self) -> tuple[End, End]:
        """Return both ends of a new connection: who connected, and who accepted."""
        near = self.add(self.transport.connect(self.address, self.patience))
        return near, self.accept()

    def accept(self) -> End:
        """Return the next peer that is waiting."""
        connection = accepted(self.listener, self.patience)
        return self.add(connection)

    def add(self, connection: Connection) -> End:
        """Run this connection too."""
        end = End(connection)
        self._ends.append(end)
        return end

    def run_until(self, condition: Callable[[], bool], what: str) -> None:
        """Let everything go its way until the condition holds; the test fails if it never does."""
        __tracebackhide__ = True
        deadline = time.monotonic() + self.patience
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"{what}: not within {self.patience} s")
            self._turn(deadline - time.monotonic())

    def receive(self, end: End, count: int = 1) -> list[Received]:
        """Return everything that `end` received, once it is so many messages."""
        __tracebackhide__ = True
        self.run_until(
            lambda: len(end.received) >= count or end.ended, f"{count} messages arrive, or the end of file"
        )
        assert len(end.received) == count, f"{len(end.received)} messages arrived, and {count} were sent"
        return end.received

    def wait_for_end(self, end: End) -> None:
        """Return once `end` has seen the end of file."""
        __tracebackhide__ = True
        self.run_until(lambda: end.ended, "receive raises EOFError")

    def _turn(self, seconds: float) -> None:
        """One turn of the loop."""
        poll = select.poll()
        live = {end.connection.fileno(): end for end in self._ends if not end.ended}
        for descriptor, end in live.items():
            if end.connection.put_off:
                end.connection.flush()
            poll.register(descriptor, select.POLLIN | (select.POLLOUT if end.waiting else 0))
        for descriptor, events in poll.poll(max(0.0, seconds) * 1000):
            end = live[descriptor]
            if events & select.POLLOUT:
                end.connection.drain()
            if events & ~select.POLLOUT:
                end.read()

    def close(self) -> None:
        """Close everything."""
        for end in self._ends:
            end.connection.close()
        self.listener.close()


def accepted(listener: Listener, patience: float) -> Connection:
    """Return the next connection of a listener, waiting for it on the listener's descriptor."""
    __tracebackhide__ = True
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        poll = select.poll()
        poll.register(listener.fileno(), select.POLLIN)
        poll.poll((deadline - time.monotonic()) * 1000)
        if (connection := listener.accept()) is not None:
            return connection
    pytest.fail(f"the listener accepts who connected: not within {patience} s")
