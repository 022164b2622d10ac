"""The transport suite on a transport that is right, and the test for each fault on one that has it."""

from __future__ import annotations

import socket
import tempfile

import faulty_transport
import pytest

from monarch.testing import TransportSuite


class TestRight(TransportSuite):
    abilities = frozenset({"strangers"})
    fault = "none"

    @pytest.fixture
    def transport(self, monkeypatch):
        monkeypatch.setenv("FAULT", self.fault)
        return faulty_transport.make()

    @pytest.fixture
    def address(self):
        with tempfile.TemporaryDirectory() as folder:
            yield f"faulty://{folder}/s"

    def stranger(self, address):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(address.removeprefix("faulty://"))
        return stranger


class TestWithoutAbilities(TestRight):
    abilities = frozenset()


# A fault that shows in what never happens is waited for; where a child takes part, it has to start first.
_WITH_CHILDREN = ("a_killed_peer", "another_program_adopts")
_PATIENCE = {False: 0.4, True: 2.0}


def _faulty(fault):
    others = {
        name: None for name in dir(TransportSuite) if name.startswith("test_") and fault.caught_by not in name
    }
    return type(
        f"Test{fault.__name__}",
        (TestRight,),
        {"fault": fault.__name__, "patience": _PATIENCE[fault.caught_by in _WITH_CHILDREN], **others},
    )


globals().update({f"Test{name}": _faulty(fault) for name, fault in faulty_transport.FAULTS.items()})
