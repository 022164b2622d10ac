"""What the tests of a transport share."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from monarch.abc import Transport
from monarch.testing._behind import promptly
from monarch.testing._exchange import End, Exchange
from monarch.testing.abilities import TRANSPORT, Suite
from monarch.wire.codec import Hello

LARGE = 256 << 10
"""Bytes that are more than a small message has, and less than a socket takes at once."""
HELLO = Hello(address="here", version="1.2.3", python="3.11", wire=7, pid=42, refusal="no reason")
"""A greeting with something in every field."""


class TransportBase(Suite):
    """The fixtures that a subclass writes, and those that the tests ask for."""

    known_abilities = TRANSPORT

    # ---- for the subclass

    @pytest.fixture
    def transport(self) -> Transport:
        """Return the transport under test. A subclass has to override this."""
        raise NotImplementedError(f"{type(self).__name__} has to define the fixture 'transport'")

    @pytest.fixture
    def address(self) -> str:
        """Return an address that nobody has bound. A subclass has to override this."""
        raise NotImplementedError(f"{type(self).__name__} has to define the fixture 'address'")

    def stranger(self, address: str) -> socket.socket:
        """Return a connected socket to the listener at `address`. For the ability `strangers`."""
        raise NotImplementedError(f"{type(self).__name__} has to define the method 'stranger'")

    # ---- what the tests share

    @pytest.fixture
    def exchange(self, transport: Transport, address: str) -> Iterator[Exchange]:
        """A listener at `address`, and whatever connects to it."""
        exchange = Exchange(transport, address, self.patience)
        yield exchange
        exchange.close()

    @pytest.fixture
    def pair(self, exchange: Exchange) -> tuple[End, End]:
        """Both ends of a connection: who connected, and who accepted."""
        return exchange.connect()

    def _send_large(self, end: End, count: int) -> None:
        def send() -> None:
            for _ in range(count):
                end.send(bytes(LARGE))

        promptly(send, self.patience, "send")
