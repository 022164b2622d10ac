"""The `ipc` transport keeps every promise of a transport."""

from __future__ import annotations

import socket

import pytest

from monarch.plugins import transport_for
from monarch.testing import TransportSuite


class TestIpcTransport(TransportSuite):
    abilities = frozenset({"strangers"})

    @pytest.fixture
    def transport(self):
        return transport_for("ipc")

    @pytest.fixture
    def address(self, tmp_path):
        return f"ipc://{tmp_path}/s"

    def stranger(self, address):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(address.removeprefix("ipc://"))
        return stranger
