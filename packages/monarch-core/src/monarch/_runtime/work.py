"""One message on its way to an actor of this process."""

from __future__ import annotations

from collections.abc import Sequence

from monarch._runtime.peers import Peer
from monarch.wire.codec import Envelope

Incoming = Sequence[memoryview]
"""Out-of-band buffers that came with a message."""


class Work:
    """A message for an actor, and the peer it came from."""

    __slots__ = ("buffers", "envelope", "peer")

    def __init__(self, envelope: Envelope, buffers: Incoming, peer: Peer) -> None:
        self.envelope, self.buffers, self.peer = envelope, buffers, peer
