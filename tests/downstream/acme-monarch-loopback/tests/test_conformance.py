"""The loopback transport keeps every promise of a transport."""

import socket

import pytest
from acme_loopback.transport import LoopbackTransport

from monarch.testing import TransportSuite


class TestLoopback(TransportSuite):
    abilities = frozenset({"strangers"})

    @pytest.fixture
    def transport(self):
        return LoopbackTransport()

    @pytest.fixture
    def address(self, tmp_path):
        return f"loopback://{tmp_path}/port"

    def stranger(self, address):
        with open(address.removeprefix("loopback://")) as file:
            return socket.create_connection(("127.0.0.1", int(file.read())))
