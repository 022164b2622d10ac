"""Listeners and addresses: a file with the number of a port."""

from __future__ import annotations

import contextlib
import os
import socket

from acme_loopback.connection import LoopbackConnection
from monarch.errors import TransportError

_HOST = "127.0.0.1"
_ROW = "0100007F:{:04X}"  # the host, and a port, as the kernel writes them
_ANY = "00000000:0000"


class LoopbackListener:
    """A bound port; implements `monarch.abc.Listener`."""

    def __init__(self, sock: socket.socket, path: str) -> None:
        sock.setblocking(False)
        self._socket, self._path = sock, path

    def fileno(self):
        return self._socket.fileno()

    def accept(self):
        try:
            sock, peer = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return None
        if _owner(_ROW.format(peer[1]), _ROW.format(sock.getsockname()[1])) != os.geteuid():
            sock.close()
            return None
        return LoopbackConnection(sock)

    def release(self):
        self._socket.close()

    def close(self):
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


class LoopbackTransport:
    """Processes of one user on one host; implements `monarch.abc.Transport`."""

    scheme = "loopback"

    def listen(self, address):
        path = _path(address)
        sock = socket.socket()
        try:
            sock.bind((_HOST, 0))
            sock.listen(4096)
            # The file says that somebody listens, so it comes last.
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(file, b"%d" % sock.getsockname()[1])
            os.close(file)
        except OSError as error:
            sock.close()
            raise TransportError(f"cannot listen on {address}: {error.strerror}") from error
        return LoopbackListener(sock, path)

    def adopt(self, address, descriptor):
        try:
            sock = socket.socket(fileno=descriptor)
            sock.set_inheritable(False)
        except OSError as error:
            raise TransportError(
                f"descriptor {descriptor} is not the listener of {address}: {error.strerror}"
            ) from error
        return LoopbackListener(sock, _path(address))

    def connect(self, address, timeout):
        try:
            with open(_path(address)) as file:
                port = int(file.read())
            sock = socket.create_connection((_HOST, port), timeout)
        except (OSError, ValueError) as error:
            raise TransportError(f"nobody listens at {address}: {error}") from error
        if _owner(_ROW.format(port), _ANY) != os.geteuid():
            sock.close()
            raise TransportError(f"the listener at {address} belongs to another user")
        return LoopbackConnection(sock)


def _path(address):
    return address.partition("://")[2]


def _owner(local, remote):
    """Return the user of a loopback socket, or None if there is no such socket."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table]
    return next((int(row[7]) for row in rows if row[1:3] == [local, remote]), None)
