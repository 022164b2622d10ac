"""The other processes that this one talks to, and which of its calls wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from monarch import config
from monarch._runtime.pickling import copy_buffers
from monarch._transport.reactor import Reactor, Waiter
from monarch.abc import Connection
from monarch.errors import SupervisionError, TransportError
from monarch.wire.codec import Envelope, Message

if TYPE_CHECKING:
    from monarch._runtime.process import Process

_BACKLOG = 64 << 20  # bytes

Buffers = Sequence[Sequence[bytes | memoryview]]


class Awaited(Protocol):
    """A message that is to be answered."""

    observed: bool
    """Whether the program sees the error if the answer does not come."""
    actor: bytes
    """The actor whose failure it would raise, if it asks one."""
    endpoint: str

    def peer_at(self, rank: int) -> Peer:
        """Return the peer whose answer as `rank` is awaited."""

    def lost(self, peer: Peer, error: SupervisionError) -> tuple[int, SupervisionError]:
        """Return the rank whose answer will not come, and the error as its caller should see it."""


class Peer:
    """One process, reached over a connection of this one."""

    __slots__ = (
        "address",
        "blocked",
        "connection",
        "error",
        "fallen",
        "held",
        "incarnation",
        "pending",
        "raised",
    )

    def __init__(self, address: str, connection: Connection | None) -> None:
        self.address, self.connection = address, connection
        self.pending: dict[int, Awaited] = {}
        """Open ports that wait for this process, with what they wait for."""
        self.error: SupervisionError | None = None
        """Why it will never answer again, once that is known."""
        self.incarnation = 0
        """How many processes were at this address before the one that is connected, as far as is known."""
        self.fallen: SupervisionError | None = None
        """How the last of them ended, from when that is known until this one has ended, too."""
        self.raised = False
        """Whether the program saw that error, since a pending call raised it."""
        self.held = False
        self.blocked: list[Waiter] = []
        """Threads that wait for the connection to take output again."""

    def is_full(self) -> bool:
        """Whether so much is queued for the peer that senders have to wait."""
        connection = self.connection
        return connection is not None and connection.backlog() >= _BACKLOG

    def wait_for_room(self, reactor: Reactor) -> None:
        """Block while more than 64 MiB are queued for the peer.

        Raises:
            TransportError: if it took nothing for as long as `message_delivery_timeout`.
        """
        waiter = Waiter()
        self.blocked.append(waiter)
        seconds = config.get("message_delivery_timeout")
        if self.is_full() and not reactor.wait(waiter, seconds):
            raise TransportError(
                f"the process at {self.address} has taken no message for {seconds} s "
                f"and {_BACKLOG >> 20} MiB wait; send less at once, or raise the setting "
                "'message_delivery_timeout'"
            )

    def place(self, message: Message) -> None:
        """Do what sending may fail at, before the message gets its number."""
        connection = self.connection
        if connection is not None:
            connection.place(message)

    def send(self, message: Message, *, shared: bool = False) -> bool:
        """Send an encoded message; False if the peer is gone, which its pending calls hear separately."""
        connection = self.connection  # another thread may find it broken
        if connection is None:
            return False
        try:
            connection.send(message, shared=shared)
        except ConnectionError:
            return False
        return True

    def post(self, envelope: Envelope, buffers: Buffers = (), *, hold: bool = False) -> bool:
        """Encode and send one envelope; with `hold` it may wait for a `flush`."""
        connection = self.connection
        if connection is None:
            return False
        message = Message(envelope.SerializeToString(), buffers)
        try:
            connection.send(message, hold=hold)
        except ConnectionError:
            return False
        finally:
            message.close()
        self.held = hold or self.held
        return True

    def flush(self) -> None:
        """Write what `post` held back."""
        connection = self.connection
        if self.held and connection is not None:
            self.held = False
            connection.flush()


class LocalPeer(Peer):
    """This process itself: nothing is written, but buffers are copied, since actors share nothing."""

    __slots__ = ("_process",)

    def __init__(self, process: Process) -> None:
        super().__init__(process.address, None)
        self._process = process

    def send(self, message: Message, *, shared: bool = False) -> bool:
        """Deliver here."""
        return self.post(Envelope.FromString(message.envelope), message.buffers)

    def post(self, envelope: Envelope, buffers: Buffers = (), *, hold: bool = False) -> bool:
        """Deliver here."""
        self._process.dispatch(envelope, copy_buffers(buffers), self)
        return True
