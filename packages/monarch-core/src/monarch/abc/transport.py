"""The interface of transports: they move messages between two processes and know no actors.

A transport owns one URL scheme. Its connections never block: the runtime waits on their file
descriptors, all of them at once, and asks a connection to read or write when there is something
to do. A transport whose library has no descriptor to offer hands out an eventfd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from monarch.wire.codec import Hello, Message, Received


class Connection(Protocol):
    """One live, ordered, lossless connection to a peer process."""

    on_backlog: Callable[[bool], None]
    """Called with True when output had to be kept back, with False when it is all written."""

    put_off: Sized
    """Not empty while `flush` has something to write that nobody asked for. Connections may share it."""

    peer_hello: Hello | None
    """Who the peer is, once its first frame has been received."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when `receive` has something to do."""

    def greet(self, hello: Hello) -> None:
        """Say who this process is, ahead of everything else that is written from now on."""

    def place(self, message: Message) -> None:
        """Do what sending this message may fail at, such as finding memory for its buffers.

        Raises:
            OSError: if there is no memory, or no descriptor. Nothing of the message was sent.
        """

    def send(self, message: Message, *, hold: bool = False, shared: bool = False) -> None:
        """Queue a message, and write what the peer can take now. Safe from any thread.

        Args:
            message: what to send.
            hold: only queue; the caller promises a `flush` soon.
            shared: the same message goes to several peers, none of which may see what another
                writes into its buffers.

        Raises:
            ConnectionError: if the connection is closed. Nothing of the message was sent.
        """

    def flush(self) -> None:
        """Write as much of what is queued as the peer can take now."""

    def drain(self) -> None:
        """Go on writing: the descriptor takes output again."""

    def receive(self) -> Sequence[Received]:
        """Return the messages that arrived, in order; none if there is nothing yet.

        Raises:
            EOFError: when the peer closed the connection or it broke; everything before was returned.
        """

    def backlog(self) -> int:
        """Return the number of bytes queued and not yet written."""

    def close(self) -> None:
        """Close at once. Idempotent. Buffers already received stay valid."""


class Listener(Protocol):
    """A bound address."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when a peer is waiting."""

    def accept(self) -> Connection | None:
        """Return a new authenticated connection, or None if nobody is waiting or a stranger was refused."""

    def release(self) -> None:
        """Close this process's descriptor: another has adopted the address, which stays bound."""

    def close(self) -> None:
        """Stop listening and remove what the address left behind, also after `release`. Idempotent."""


class Transport(Protocol):
    """How processes with addresses of one scheme reach each other."""

    scheme: str

    def listen(self, address: str) -> Listener:
        """Bind `address`.

        Raises:
            TransportError: if the address is taken, too long or not permitted.
        """

    def adopt(self, address: str, descriptor: int) -> Listener:
        """Return the listener for a descriptor that another process bound to `address`.

        Raises:
            TransportError: if the descriptor is not such a listener.
        """

    def connect(self, address: str, timeout: float) -> Connection:
        """Connect to the listener at `address` within `timeout` seconds.

        Raises:
            TransportError: if nobody listens there, or the peer is not to be trusted.
        """
