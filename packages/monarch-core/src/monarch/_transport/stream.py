"""A connection over a stream socket of this host: frames, batches, shared memory.

Whoever sends while nobody is writing writes for all; the others only queue. So many envelopes
share a frame under load, and a lone one goes out at once on its sender's thread.
"""

from __future__ import annotations

import array
import os
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence

from monarch._transport import interrupts
from monarch._transport.segments import (
    OwnSegment,
    PeerSegments,
    PutOff,
    SegmentPlacement,
    SegmentPool,
    collect_dead_views,
    dead_views,
)
from monarch.wire.codec import (
    HEADER,
    UPKEEP,
    Batch,
    Hello,
    Message,
    Received,
    Segment,
    decode_batch,
    encode_batch,
)

_READ = 256 << 10
_FRAME_BYTES = 256 << 10  # soft limit of a frame
_FRAME_ENVELOPES = 512
_FRAME_DESCRIPTORS = 64  # the kernel takes at most 253 in one message
_GREATEST_FRAME = 64 << 20  # bytes; what is large travels beside the frames
_ANCILLARY = socket.CMSG_SPACE(_FRAME_DESCRIPTORS * 4)


class _Entry:
    """A queued message: its envelope and the segment that holds its buffers, if it has any."""

    __slots__ = ("envelope", "segment", "shared")

    def __init__(self, envelope: bytes, segment: OwnSegment | None, shared: bool) -> None:
        self.envelope, self.segment, self.shared = envelope, segment, shared


class StreamConnection:
    """Frames over a connected stream socket; implements `monarch.abc.Connection`."""

    put_off = PutOff()

    def __init__(self, sock: socket.socket, pool: SegmentPool) -> None:
        sock.setblocking(False)
        self._socket, self._pool = sock, pool
        self._writing = threading.Lock()
        self._queue: deque[_Entry] = deque()
        self._queued = 0
        self._rest: memoryview | None = None
        self._rest_descriptors: list[int] = []
        self._blocked = False
        self._closed = False
        self._hello: Hello | None = None
        self._announced: set[int] = set()
        self._lent: Counter[int] = Counter()
        self._retired: deque[int] = deque()
        self._peer_segments = PeerSegments()
        self._view = memoryview(bytearray(_READ))
        self._filled = 0
        self._descriptors: deque[int] = deque()
        self.peer_hello: Hello | None = None
        self.on_backlog: Callable[[bool], None] = lambda waiting: None

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def backlog(self) -> int:
        """Return the bytes queued and not yet written, out-of-band buffers not counted."""
        return self._queued

    # ---- output

    def greet(self, hello: Hello) -> None:
        """Say who this process is, with the next frame."""
        self._hello = hello

    def send(self, message: Message, *, hold: bool = False, shared: bool = False) -> None:
        """Queue a message and write what the peer can take now (see `monarch.abc.Connection`)."""
        if self._closed:
            raise ConnectionError("the connection to the peer is closed")
        if dead_views:
            collect_dead_views()
        held = interrupts.hold()
        try:
            if hold or message.buffers or self._has_output() or not self._send_at_once(message):
                self._queue.append(_Entry(message.envelope, self._segment_of(message), shared))
                self._queued += len(message.envelope)
                if not hold:
                    self._flush()
        finally:
            if held:
                interrupts.let_go()

    def _send_at_once(self, message: Message) -> bool:
        """Write a lone message: nobody else is writing, and most often the socket takes it all."""
        if not self._writing.acquire(False):
            return False
        try:
            self._rest = memoryview(message.frame())
            self._write_rest()
        finally:
            self._writing.release()
        if self._queue:
            self._flush()
        return True

    def place(self, message: Message) -> None:
        """Copy the buffers of a message to where the peer finds them (see `monarch.abc.Connection`)."""
        if message.buffers and message.placement is None:
            message.placement = self._pool.place(message.buffers)

    def _segment_of(self, message: Message) -> OwnSegment | None:
        if not message.buffers:
            return None
        self.place(message)
        placement = message.placement
        if not isinstance(placement, SegmentPlacement):  # another transport was asked first
            return self._pool.place(message.buffers).segment
        self._pool.hold(placement.segment)
        return placement.segment

    def flush(self) -> None:
        """Write as much as the socket takes, unless another thread is writing: that one does it then."""
        collect_dead_views()
        held = interrupts.hold()
        try:
            self._flush()
        finally:
            if held:
                interrupts.let_go()

    def _flush(self) -> None:
        while self._has_output() and not self._blocked and self._writing.acquire(False):
            try:
                self._write()
            finally:
                self._writing.release()

    def drain(self) -> None:
        """Go on writing, since the socket takes output again."""
        self._blocked = False
        self._flush()
        if not self._blocked:
            self.on_backlog(False)

    def _has_output(self) -> bool:
        pending = (
            self._queue
            or self._rest is not None
            or self._peer_segments.released
            or self._retired
            or self._hello is not None
        )
        return bool(pending) and not self._closed

    def _write(self) -> None:
        if self._rest is None:
            frame, self._rest_descriptors = self._next_frame()
            self._rest = memoryview(frame)
        self._write_rest()

    def _write_rest(self) -> None:
        rest = self._rest
        try:
            while rest:
                rest = rest[self._write_some(rest) :]
            self._rest = None
        except BlockingIOError:
            self._rest = rest
            self._blocked = True
            self.on_backlog(True)
        except OSError:
            self._closed = True  # whoever reads this connection sees its end, and reports it once

    def _write_some(self, data: memoryview) -> int:
        if not self._rest_descriptors:
            return self._socket.send(data)
        rights = array.array("i", self._rest_descriptors)
        written = self._socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        self._rest_descriptors = []
        return written

    def _next_frame(self) -> tuple[bytes, list[int]]:
        envelopes: list[bytes] = []
        segments: list[Segment] = []
        descriptors: list[int] = []
        size, queue = 0, self._queue
        while queue and size < _FRAME_BYTES and len(envelopes) < _FRAME_ENVELOPES:
            if len(descriptors) == _FRAME_DESCRIPTORS:
                break
            entry = queue.popleft()
            envelopes.append(entry.envelope)
            size += len(entry.envelope)
            if entry.segment is not None:
                segments.append(self._lend(entry.segment, entry.shared, descriptors))
        self._queued -= size
        return encode_batch(envelopes, self._upkeep(segments)), descriptors

    def _lend(self, segment: OwnSegment, shared: bool, descriptors: list[int]) -> Segment:
        self._lent[segment.id] += 1
        size = 0
        if segment.id not in self._announced:
            self._announced.add(segment.id)
            segment.forget.append(self._retired.append)
            descriptors.append(segment.fd)
            size = segment.size
        return Segment(id=segment.id, announced_size=size, copy_on_write=shared)

    def _upkeep(self, segments: list[Segment]) -> Batch | None:
        released, retired, hello = self._peer_segments.released, self._retired, self._hello
        if not (segments or released or retired or hello):
            return None
        upkeep = Batch(
            segments=segments, released=self._peer_segments.take_released(), retired=_take_all(retired)
        )
        if hello is not None:
            upkeep.hello.CopyFrom(hello)
            self._hello = None
        return upkeep

    # ---- input

    def receive(self) -> Sequence[Received]:
        """Return the messages that arrived (see `monarch.abc.Connection`)."""
        view = self._view
        try:
            count, rights, _, _ = self._socket.recvmsg_into(
                [view[self._filled :] if self._filled else view], _ANCILLARY, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return ()
        except OSError as error:
            raise EOFError(str(error)) from error
        for _, _, data in rights:
            self._descriptors.extend(array.array("i", data))
        if count == 0:
            raise EOFError("the peer closed the connection")
        self._filled += count
        return self._decode(view)

    def _decode(self, view: memoryview) -> list[Received]:
        received: list[Received] = []
        start, filled, head = 0, self._filled, HEADER.size
        while filled - start >= head:
            (size,) = HEADER.unpack_from(view, start)
            upkeep, size = size & UPKEEP, size & ~UPKEEP
            end = start + head + size
            if size > _GREATEST_FRAME:
                raise EOFError(f"the peer sent a length that no frame has: {size}")
            if end > filled:
                if head + size > len(view):
                    self._grow(head + size, start)
                    return received
                break
            batch = self._parsed(bytes(view[start + head : end]))
            start = end
            if upkeep:
                self._accept(batch, received)
            else:
                received += [(envelope, ()) for envelope in batch.envelopes]
        if start == filled:
            self._filled = 0
        elif start:
            view[: filled - start] = view[start:filled]
            self._filled = filled - start
        return received

    @staticmethod
    def _parsed(content: bytes) -> Batch:
        try:
            return decode_batch(content)
        except ValueError as error:
            raise EOFError(f"the peer sent what is not a frame: {error}") from error

    def _grow(self, size: int, start: int) -> None:
        """Make room for a frame larger than the input buffer."""
        grown = memoryview(bytearray(size + _READ))
        rest = self._filled - start
        grown[:rest] = self._view[start : self._filled]
        self._view, self._filled = grown, rest

    def _accept(self, batch: Batch, received: list[Received]) -> None:
        """Take a batch that has more in it than envelopes."""
        try:
            for number in batch.released:
                self._lent[number] -= 1
                self._pool.release(number)
            if batch.HasField("hello"):
                self.peer_hello = batch.hello
            segments = iter(batch.segments)
            for envelope in batch.envelopes:
                sizes = envelope.buffer_sizes
                received.append((envelope, self._map(next(segments), sizes) if sizes else ()))
            for number in batch.retired:
                self._peer_segments.forget(number)
        except (LookupError, ValueError, OSError, StopIteration) as error:
            raise EOFError(f"the peer names shared memory that is not there: {error!r}") from error

    def _map(self, segment: Segment, sizes: Sequence[int]) -> list[memoryview]:
        if segment.announced_size:
            self._peer_segments.announce(segment.id, self._descriptors.popleft(), segment.announced_size)
        return self._peer_segments.views(segment.id, sizes, segment.copy_on_write)

    def close(self) -> None:
        """Close at once; buffers already received stay valid."""
        self._closed = True
        self._socket.close()
        self._peer_segments.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())
        for entry in self._queue:
            if entry.segment is not None:
                self._pool.release(entry.segment.id)
        self._queue.clear()
        for number, times in self._lent.items():
            for _ in range(times):
                self._pool.release(number, reuse=False)
        self._lent.clear()


def _take_all(numbers: deque[int]) -> list[int]:
    return [numbers.popleft() for _ in range(len(numbers))]
