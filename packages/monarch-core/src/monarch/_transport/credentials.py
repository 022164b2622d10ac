"""Who is at the other end of a Unix socket, as the kernel knows it."""

from __future__ import annotations

import socket
import struct

_CREDENTIALS = struct.Struct("3i")


def user_of_peer(sock: socket.socket) -> int:
    """Return the user that the peer of a connected Unix socket ran as when it connected or listened."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1])
