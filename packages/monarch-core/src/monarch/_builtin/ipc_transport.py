"""The `ipc` transport: Unix stream sockets in a private folder, buffers in shared memory.

An address is `ipc://` and the absolute path of the socket. Only processes of the same user are
accepted, on both ends, whatever the permissions of the folder.
"""

from __future__ import annotations

import contextlib
import os
import socket

from monarch.__about__ import __version__
from monarch._transport.credentials import user_of_peer
from monarch._transport.segments import SegmentPool
from monarch._transport.stream import StreamConnection
from monarch.errors import TransportError
from monarch.hookspecs import PluginInfo, hookimpl

MONARCH_API = (1, 0)

_BACKLOG = 4096
_GREATEST_PATH = 107
_BUFFER = 1 << 20

# One pool for all connections of the process: a cast is copied once, however many receive it.
_pool = SegmentPool()


def _path(address: str) -> str:
    path = address.removeprefix("ipc://")
    if not path.startswith("/") or len(path.encode()) > _GREATEST_PATH:
        raise TransportError(
            f"address {address!r} is not usable: it must be ipc:// and an absolute path of at most "
            f"{_GREATEST_PATH} bytes; set XDG_RUNTIME_DIR or TMPDIR to a shorter folder"
        )
    return path


def _connected(sock: socket.socket) -> StreamConnection:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    return StreamConnection(sock, _pool)


class IpcListener:
    """A bound Unix socket."""

    def __init__(self, sock: socket.socket, path: str) -> None:
        sock.setblocking(False)
        self._socket, self._path = sock, path

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def accept(self) -> StreamConnection | None:
        """Return a new connection of the same user, or None."""
        try:
            sock, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return None
        if user_of_peer(sock) != os.geteuid():
            sock.close()
            return None
        return _connected(sock)

    def release(self) -> None:
        """Close the descriptor and leave the socket's file to the process that adopted it."""
        self._socket.close()

    def close(self) -> None:
        """Stop listening and remove the socket's file."""
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


class IpcTransport:
    """Processes of one user on one host."""

    scheme = "ipc"

    def listen(self, address: str) -> IpcListener:
        """Bind the socket (see `monarch.abc.Transport`)."""
        path = _path(address)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.bind(path)
            os.chmod(path, 0o600)
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            raise TransportError(f"cannot listen on {address}: {error.strerror}") from error
        return IpcListener(sock, path)

    def adopt(self, address: str, descriptor: int) -> IpcListener:
        """Take over a bound socket (see `monarch.abc.Transport`)."""
        try:
            sock = socket.socket(fileno=descriptor)
            sock.set_inheritable(False)
        except OSError as error:
            raise TransportError(
                f"descriptor {descriptor} is not the listener of {address}: {error.strerror}; "
                "a bootstrap command has to keep its descriptors open for the process it starts"
            ) from error
        return IpcListener(sock, _path(address))

    def connect(self, address: str, timeout: float) -> StreamConnection:
        """Connect to a socket (see `monarch.abc.Transport`)."""
        path = _path(address)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        sock.settimeout(timeout)
        try:
            sock.connect(path)
        except OSError as error:
            sock.close()
            raise TransportError(f"nobody listens at {address}: {error}") from error
        if user_of_peer(sock) != os.geteuid():
            sock.close()
            raise TransportError(f"the listener at {address} belongs to another user")
        return _connected(sock)


@hookimpl
def monarch_plugin_info() -> PluginInfo:
    """Say what this module offers."""
    return PluginInfo("monarch-core", __version__, ("transport:ipc",))


@hookimpl
def monarch_make_transport(scheme: str) -> IpcTransport | None:
    """Offer the scheme `ipc`."""
    return IpcTransport() if scheme == "ipc" else None
