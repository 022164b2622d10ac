"""The interface of transports: they move messages between two processes and know no actors.

A transport owns one URL scheme. Its connections never block: the runtime waits on their file
descriptors, all of them at once, and asks a connection to read or write when there is something
to do. A transport whose library has no descriptor to offer hands out an eventfd.

`monarch.testing.TransportSuite` tests what is promised here. No descriptor of a transport is
inheritable: a process hands one on by naming it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from monarch.wire.codec import Hello, Message, Received


class Connection(Protocol):
    """One live, ordered, lossless connection to a peer process."""

    on_backlog: Callable[[bool], None]
    """Called with True when output had to be kept back, with False when it is all written.

    The runtime sets it. In between it watches whether the descriptor takes output, and calls `drain`.
    """

    put_off: Sized
    """Not empty while `flush` has something to write that nobody asked for. Connections may share it.

    The thread that reads looks here before it sleeps, and then calls `flush`.
    """

    peer_hello: Hello | None
    """Who the peer is, once its first frame has been received. Who reads it sets it to None again."""

    def fileno(self) -> int:
        """Return the descriptor that is readable as long as `receive` has something to do."""

    def greet(self, hello: Hello) -> None:
        """Say who this process is, ahead of everything else that is written from now on.

        It goes with the next message, or with the next `flush`.
        """

    def place(self, message: Message) -> None:
        """Do what sending this message may fail at, such as finding memory for its buffers.

        What it keeps for `send` is `message.placement`, which serves all connections of the transport.
        A placement that is not this transport's stays as it is, and the message is sent without it.

        Raises:
            OSError: if there is no memory, or no descriptor. Nothing of the message was sent.
        """

    def send(self, message: Message, *, hold: bool = False, shared: bool = False) -> None:
        """Queue a message, and write what the peer can take now. Safe from any thread; never blocks.

        Messages arrive in the order of sending, each once and whole. The buffers are copied, or
        written, before this returns: the caller may change them then.

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
        """Return the messages that arrived, in order; none if there is nothing yet. Never blocks.

        Each buffer is a flat view of bytes in memory that is the receiver's, to be written and kept as
        long as it likes; dropping the last view gives the memory back.

        Raises:
            EOFError: when the peer closed the connection, was killed, or sent what is no message;
                everything before was returned. Nothing that a peer sends is unpickled here.
        """

    def backlog(self) -> int:
        """Return the number of bytes queued and not yet written."""

    def close(self) -> None:
        """Close at once, with every descriptor. Idempotent. Buffers already received stay valid.

        The peer still receives what was written before, and then the end.
        """


class Listener(Protocol):
    """A bound address."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when a peer is waiting, for `adopt` in another process."""

    def accept(self) -> Connection | None:
        """Return a new connection, or None if nobody is waiting or a stranger was refused. Never blocks.

        A peer is authenticated before anything that it sent is handed out, or anything is written to it.
        """

    def release(self) -> None:
        """Close this process's descriptor: another has adopted the address, which stays bound."""

    def close(self) -> None:
        """Stop listening and remove what the address left behind, also after `release`. Idempotent.

        The address may be bound again then.
        """


class Transport(Protocol):
    """How processes with addresses of one scheme reach each other."""

    scheme: str

    def listen(self, address: str) -> Listener:
        """Bind `address`.

        Raises:
            TransportError: if the address is taken, too long or not permitted; it names the address.
        """

    def adopt(self, address: str, descriptor: int) -> Listener:
        """Return the listener for a descriptor that another process bound to `address`.

        Raises:
            TransportError: if the descriptor is not such a listener; it names the address.
        """

    def connect(self, address: str, timeout: float) -> Connection:
        """Connect to the listener at `address` within `timeout` seconds, whether it accepts yet or not.

        Raises:
            TransportError: if nobody listens there, or the peer is not to be trusted; it names the address.
        """
