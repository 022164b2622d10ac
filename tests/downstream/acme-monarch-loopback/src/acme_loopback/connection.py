"""A connection: messages on a TCP socket, each with its buffers right behind it.

one byte, what follows: a greeting or a message
four bytes, the size of the encoded Hello or Envelope
that many bytes
the buffers, of the sizes that the envelope gives
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections import deque

from monarch.wire.codec import Envelope, Hello

_HEADER = struct.Struct("<BI")
_GREETING, _MESSAGE = 1, 2
_GREATEST = 64 << 20  # bytes of an envelope
_READ = 256 << 10


class LoopbackConnection:
    """One end; implements `monarch.abc.Connection`."""

    put_off = ()  # nothing is ever owed to the peer

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._rest = memoryview(b"")
        self._greeting: Hello | None = None
        self._blocked = self._closed = False
        self._unread = bytearray()
        self._needed = _HEADER.size
        self.peer_hello: Hello | None = None
        self.on_backlog = lambda waiting: None

    def fileno(self):
        return self._socket.fileno()

    def backlog(self):
        return self._queued + len(self._rest)

    # ---- output

    def greet(self, hello):
        self._greeting = hello

    def place(self, message):
        pass  # sending needs no memory that could be missing

    def send(self, message, *, hold=False, shared=False):
        if self._closed:
            raise ConnectionError("the connection is closed")
        header = _HEADER.pack(_MESSAGE, len(message.envelope))
        # One copy: the caller may change its memory when we return.
        frame = b"".join([header, message.envelope, *itertools.chain.from_iterable(message.buffers)])
        with self._lock:
            self._queue.append(frame)
            self._queued += len(frame)
            if not hold:
                self._write()

    def flush(self):
        with self._lock:
            self._write()

    def drain(self):
        with self._lock:
            self._blocked = False
            self._write()
            if not self._blocked:
                self.on_backlog(False)

    def _write(self):
        while not (self._blocked or self._closed) and self._next_frame():
            try:
                self._rest = self._rest[self._socket.send(self._rest) :]
            except BlockingIOError:
                self._blocked = True
                self.on_backlog(True)
            except OSError:
                self._closed = True  # whoever reads sees the end

    def _next_frame(self):
        """Whether there is something to write, which then is `_rest`."""
        if not self._rest:
            if self._greeting is not None:
                content = self._greeting.SerializeToString()
                self._greeting = None
                self._rest = memoryview(_HEADER.pack(_GREETING, len(content)) + content)
            elif self._queue:
                self._rest = memoryview(self._queue.popleft())
                self._queued -= len(self._rest)
        return bool(self._rest)

    # ---- input

    def receive(self):
        try:
            content = self._socket.recv(_READ)
        except BlockingIOError:
            return []
        except OSError as error:
            raise EOFError(str(error)) from error
        if not content:
            raise EOFError("the peer closed the connection")
        self._unread += content
        received = []
        while len(self._unread) >= self._needed:
            self._take(received)
        return received

    def _take(self, received):
        """Take what is there of the next message: all of it, or how much it needs."""
        kind, size = _HEADER.unpack_from(self._unread)
        if kind not in (_GREETING, _MESSAGE) or size > _GREATEST:
            raise EOFError("the peer sent what is no message")
        start = _HEADER.size + size
        if len(self._unread) < start:
            self._needed = start
            return
        content, sizes = bytes(self._unread[_HEADER.size : start]), []
        parsed = self._parse(Hello if kind == _GREETING else Envelope, content)
        if kind == _MESSAGE:
            sizes = parsed.buffer_sizes
        ends = list(itertools.accumulate(sizes, initial=start))
        if len(self._unread) < ends[-1]:
            self._needed = ends[-1]
            return
        buffers = [memoryview(self._unread[begin:end]) for begin, end in itertools.pairwise(ends)]
        del self._unread[: ends[-1]]
        self._needed = _HEADER.size
        if kind == _GREETING:
            self.peer_hello = parsed
        else:
            received.append((parsed, buffers))

    @staticmethod
    def _parse(kind, content):
        try:
            return kind.FromString(content)
        except Exception as error:  # protobuf's own class is not public
            raise EOFError(f"the peer sent what is no message: {error}") from error

    def close(self):
        self._closed = True
        self._socket.close()
