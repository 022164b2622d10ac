"""Shared memory for out-of-band buffers between processes of one host.

The sender copies a buffer into a segment (a memfd) and names it in a frame; the descriptor
travels once per connection, the mapping stays on both sides, and the segment comes back when
the receiver's last view of it dies. Reuse is what makes it fast: page faults on fresh memory
cost ten times the copy.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

_ALIGNMENT = 64  # bytes, as vector instructions like it
_GRAIN = 64 << 10
_KEEP_FREE = 512 << 20  # bytes of free segments kept for reuse, in this process
_MAP_POPULATE = getattr(mmap, "MAP_POPULATE", 0)


def _round_up(size: int) -> int:
    """Round to an eighth of the power of two below, so that sizes near each other share segments."""
    grain = max(_GRAIN, 1 << max(0, size.bit_length() - 4))
    return max(1, -(-size // grain)) * grain  # no bytes need a segment too: they are a buffer


def layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return where buffers of these sizes lie in the segment of their message, and the bytes they take."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


class OwnSegment:
    """A segment of this process, in use by `readers` messages."""

    __slots__ = ("_map", "fd", "forget", "id", "readers", "reusable", "size", "view")

    def __init__(self, number: int, size: int) -> None:
        self.id, self.size, self.readers, self.reusable = number, size, 0, True
        self.forget: list[Callable[[int], None]] = []
        self.fd = os.memfd_create(f"monarch-{number}", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, size)
        self._map = mmap.mmap(self.fd, size, flags=mmap.MAP_SHARED | _MAP_POPULATE)
        self.view = memoryview(self._map)

    def fill(self, offset: int, chunks: Sequence[bytes | memoryview]) -> None:
        """Copy the chunks one after the other to `offset` of the segment."""
        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            self.view[offset : offset + view.nbytes] = view
            offset += view.nbytes

    def close(self) -> None:
        """Give the memory back; readers that still map it keep it alive."""
        self.view.release()
        self._map.close()
        os.close(self.fd)


class SegmentPool:
    """All segments that this process owns. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids = count(1)
        self._used: dict[int, OwnSegment] = {}
        self._free: defaultdict[int, list[OwnSegment]] = defaultdict(list)
        self._free_bytes = 0

    def place(self, buffers: Sequence[Sequence[bytes | memoryview]]) -> SegmentPlacement:
        """Copy the buffers of one message into one segment, held until the placement is closed."""
        offsets, total = layout([sum(memoryview(chunk).nbytes for chunk in chunks) for chunks in buffers])
        segment = self._take(_round_up(total))
        for offset, chunks in zip(offsets, buffers):
            segment.fill(offset, chunks)
        return SegmentPlacement(self, segment)

    def _take(self, capacity: int) -> OwnSegment:
        with self._lock:
            free = self._free[capacity]
            segment = free.pop() if free else None
            if segment:
                self._free_bytes -= capacity
        segment = segment or OwnSegment(next(self._ids), capacity)
        segment.readers = 1
        with self._lock:
            self._used[segment.id] = segment
        return segment

    def hold(self, segment: OwnSegment) -> None:
        """Count one more reader."""
        with self._lock:
            segment.readers += 1

    def release(self, number: int, *, reuse: bool = True) -> None:
        """One reader of segment `number` is done with it; `reuse=False` if it may still look."""
        with self._lock:
            segment = self._used.get(number)
            if segment is None:
                return
            segment.reusable &= reuse
            segment.readers -= 1
            if segment.readers:
                return
            del self._used[number]
            if segment.reusable and self._free_bytes + segment.size <= _KEEP_FREE:
                self._free[segment.size].append(segment)
                self._free_bytes += segment.size
                return
        self._retire(segment)

    @staticmethod
    def _retire(segment: OwnSegment) -> None:
        for forget in segment.forget:
            forget(segment.id)
        segment.close()


class SegmentPlacement:
    """The segment that holds the buffers of one message."""

    def __init__(self, pool: SegmentPool, segment: OwnSegment) -> None:
        self._pool, self.segment = pool, segment

    def close(self) -> None:
        """Drop the sender's hold; the segment comes back when the readers are done."""
        self._pool.release(self.segment.id)


dead_views: deque[weakref.ref[Any]] = deque()
"""Views that died, of all peers. Filled by the interpreter itself: where memory is freed no code of
ours may run, since it could be anywhere, with any lock held, or be cut short by Ctrl-C."""

# By the identity of the reference: its hash would be that of the view, which has none.
_views: dict[int, tuple[weakref.ref[Any], _Loan]] = {}


class _Loan:
    """The segment of one message, as long as some of its buffers are looked at."""

    __slots__ = ("left", "number", "peer")

    def __init__(self, peer: PeerSegments, number: int, left: int) -> None:
        self.peer, self.number, self.left = peer, number, left


def collect_dead_views() -> None:
    """Note for each peer which of its segments are no longer read here."""
    while dead_views:
        try:
            _, loan = _views.pop(id(dead_views.popleft()))
        except IndexError:  # another thread was faster
            return
        loan.left -= 1
        if not loan.left:
            loan.peer.is_done_with(loan.number)


_owing = threading.Lock()
_owed: set[PeerSegments] = set()
"""Peers that were not told yet what is no longer read here."""


class PutOff:
    """Not empty while some peer is owed word of what is no longer read here, collected yet or not."""

    def __len__(self) -> int:
        return len(dead_views) + len(_owed)


class PeerSegments:
    """The segments of one peer, as mapped here."""

    def __init__(self) -> None:
        self._segments: dict[int, tuple[int, int, mmap.mmap | None]] = {}
        self._closed = False
        self.released: deque[int] = deque()
        """Segments whose last view died: told to the peer with the next frame."""

    def is_done_with(self, number: int) -> None:
        """Note that no view of a segment is left."""
        with _owing:
            self.released.append(number)
            if not self._closed:
                _owed.add(self)

    def take_released(self) -> list[int]:
        """Return what is to be told to the peer now."""
        with _owing:
            _owed.discard(self)
            return [self.released.popleft() for _ in range(len(self.released))]

    def announce(self, number: int, fd: int, size: int) -> None:
        """Take over the descriptor of a segment of `size` bytes."""
        self._segments[number] = (fd, size, None)

    def views(self, number: int, sizes: Sequence[int], copy_on_write: bool) -> list[memoryview]:
        """Return the writable buffers of one message; the segment is released when the last of them dies.

        Raises:
            LookupError: if the segment was not announced.
            ValueError: if the buffers do not fit in it.
        """
        fd, capacity, mapped = self._segments[number]
        if copy_on_write:
            mapped = mmap.mmap(fd, capacity, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        elif mapped is None:
            mapped = mmap.mmap(fd, capacity, flags=mmap.MAP_SHARED)
            self._segments[number] = (fd, capacity, mapped)
        loan = _Loan(self, number, len(sizes))
        views = []
        for offset, size in zip(layout(sizes)[0], sizes):
            # A ctypes array is the one exporter of the buffer protocol that a weak reference can watch.
            array = (ctypes.c_ubyte * size).from_buffer(mapped, offset)
            reference = weakref.ref(array, dead_views.append)
            _views[id(reference)] = (reference, loan)
            views.append(memoryview(array).cast("B"))
        return views

    def forget(self, number: int) -> None:
        """Drop the mapping of a segment that its owner retired."""
        fd, _, _ = self._segments.pop(number)
        os.close(fd)

    def close(self) -> None:
        """Drop all mappings; views already handed out stay valid."""
        with _owing:
            self._closed = True
            _owed.discard(self)
        for number in list(self._segments):
            self.forget(number)
