"""The transport over Unix sockets: its addresses, who may connect, and what strangers can do."""

from __future__ import annotations

import os
import pickle
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from monarch._builtin import ipc_transport
from monarch._runtime import here
from monarch.actor import Actor, endpoint
from monarch.errors import TransportError
from monarch.plugins import transport_for


@pytest.fixture
def transport():
    return transport_for("ipc")


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return f"ipc://{tmp_path}/s"


@pytest.fixture
def listener(transport, address):
    listener = transport.listen(address)
    yield listener
    listener.close()


def test_the_socket_is_for_its_user_alone_and_goes_with_its_listener(address, listener):
    path = Path(address.removeprefix("ipc://"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    listener.close()
    assert not path.exists()
    listener.close()


@pytest.mark.parametrize(
    ("verb", "address", "words"),
    [
        ("listen", "ipc://relative", "absolute path"),
        ("listen", "ipc:///" + "x" * 200, "at most 107 bytes; set XDG_RUNTIME_DIR or TMPDIR"),
        ("listen", "ipc:///no/such/folder/s", "cannot listen on ipc:///no/such/folder/s"),
        ("connect", "ipc:///no/such/folder/s", "nobody listens at ipc:///no/such/folder/s"),
        ("adopt", "ipc:///tmp/s", "descriptor 99999 is not the listener"),
    ],
)
def test_an_address_that_does_not_work_is_refused_with_the_reason(transport, verb, address, words):
    more: dict[str, Any] = {"connect": {"timeout": 1}, "adopt": {"descriptor": 99999}, "listen": {}}
    with pytest.raises(TransportError, match=words):
        getattr(transport, verb)(address, **more[verb])


# ---- strangers


def test_a_peer_of_another_user_is_refused_on_both_ends(transport, address, listener, monkeypatch, until):
    path = address.removeprefix("ipc://")
    monkeypatch.setattr(ipc_transport, "user_of_peer", lambda sock: os.geteuid() + 1)
    stranger = socket.socket(socket.AF_UNIX)
    stranger.connect(path)
    assert listener.accept() is None
    assert stranger.recv(1) == b""
    stranger.close()
    with pytest.raises(TransportError, match="belongs to another user"):
        transport.connect(address, 5)


STRANGER = """
import os, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(20)
os.setuid(65534)
sock.connect(sys.argv[1])
print("connected", flush=True)
print(sock.recv(1))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it becomes another user")
def test_another_user_is_refused_whatever_the_permissions(transport):
    folder = Path(tempfile.mkdtemp())
    listener = transport.listen(f"ipc://{folder}/s")
    folder.chmod(0o755)
    (folder / "s").chmod(0o666)
    stranger = subprocess.Popen(
        [sys.executable, "-c", STRANGER, f"{folder}/s"], stdout=subprocess.PIPE, text=True
    )
    assert stranger.stdout.readline() == "connected\n"
    assert listener.accept() is None
    assert stranger.communicate(timeout=20)[0] == "b''\n"
    listener.close()
    folder.rmdir()


class Steady(Actor):
    @endpoint
    def number(self) -> int:
        return 1

    @endpoint
    def address(self) -> str:
        return here.get().address


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


GARBAGE = {
    "random": os.urandom(5000),
    "http": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "zeros": bytes(1000),
    "empty-frames": bytes(4) * 10,
    "ones": b"\xff" * 1000,
}


@pytest.fixture(params=["client", "process"])
def socket_of(request, procs):
    steady = procs.slice(gpus=0).spawn("steady", Steady)
    address = here.get().address if request.param == "client" else steady.address.call_one().get()
    return address.removeprefix("ipc://"), steady


@pytest.mark.parametrize("kind", [*GARBAGE, "pickle"])
def test_a_process_outlives_whatever_is_sent_to_its_socket(socket_of, kind, tmp_path, failures):
    path, steady = socket_of
    trap = tmp_path / "touched"
    content = pickle.dumps(Touch(trap)) if kind == "pickle" else GARBAGE[kind]
    stranger = socket.socket(socket.AF_UNIX)
    stranger.connect(path)
    stranger.sendall(content)
    assert steady.number.call_one().get(timeout=20) == 1
    stranger.close()
    assert steady.number.call_one().get(timeout=20) == 1
    assert not trap.exists()


def test_one_that_hangs_up_at_once_does_no_harm(socket_of, failures):
    path, steady = socket_of
    for _ in range(20):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(path)
        stranger.close()
    assert steady.number.call_one().get(timeout=20) == 1
