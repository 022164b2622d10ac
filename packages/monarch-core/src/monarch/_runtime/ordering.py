"""Keeps messages of one sender to one receiver in the order they were sent.

The sender numbers its messages per receiving rank, over casts and single messages alike; the
receiver holds early ones back. Each pair has its own order, and no pair waits for another.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

Work = TypeVar("Work")


class Numbering:
    """The numbers that one sender gives to its messages to one mesh of `size` ranks.

    The number of a rank is a base that all share plus what it got on its own, so a cast to
    a whole mesh costs the same for any size, and its numbers are one integer in the usual case.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._base = 0
        self._own: dict[int, int] = {}
        self._lock = threading.Lock()

    def take(self, ranks: Sequence[int]) -> tuple[int, bytes]:
        """Return the next number for `ranks`, and as bytes the (rank, number) pairs of those that differ."""
        with self._lock:
            number, own = self._base, self._own
            if len(ranks) == self._size:
                self._base += 1
                return number, _encode((rank, number + own[rank]) for rank in own) if own else b""
            exceptions = [(rank, number + own[rank]) for rank in ranks if rank in own]
            for rank in ranks:
                own[rank] = own.get(rank, 0) + 1
            if len(own) == self._size:
                self._level()
        if len(ranks) == 1 and exceptions:
            return exceptions[0][1], b""
        return number, _encode(exceptions)

    def _level(self) -> None:
        least = min(self._own.values())
        self._base += least
        self._own = {rank: own - least for rank, own in self._own.items() if own > least}


_PAIR = struct.Struct("<QQ")


def _encode(exceptions: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(_PAIR.pack(*pair) for pair in exceptions)


def number_for(rank: int, number: int, exceptions: bytes) -> int:
    """Return the number that `Numbering.take` gave to `rank`."""
    for other, own_number in _PAIR.iter_unpack(exceptions):
        if other == rank:
            return int(own_number)
    return number


class Ordering(Generic[Work]):
    """Puts what one receiver gets back in order. Not safe from several threads at once.

    One that is `joining` takes the place of a receiver that is gone: senders count on from where they
    were with that one, so the first number of each is where its order begins. What was lost on the way
    to the old one may leave a gap, which `skip` closes.
    """

    def __init__(self, *, joining: bool = False) -> None:
        self.joining = joining
        self._first: dict[bytes, int] = {}
        self._next: dict[bytes, int] = {}
        self._early: dict[bytes, dict[int, Work]] = {}

    def accept(self, sender: bytes, number: int, work: Work) -> Sequence[Work]:
        """Take a message and return what is now due, in order; a number seen before yields nothing."""
        due = self._next.get(sender)
        if due is None:
            due = self._first[sender] = number if self.joining else 0
        if number != due:
            if number > due:
                self._early.setdefault(sender, {})[number] = work
            # Sent at the same time by another thread of the sender: in no order with the first.
            return (work,) if number < self._first[sender] else ()
        self._next[sender] = due = due + 1
        early = self._early.get(sender)
        if not early:
            return (work,)
        ready = [work]
        while due in early:
            ready.append(early.pop(due))
            due += 1
        self._next[sender] = due
        return ready

    def early(self) -> Sequence[Work]:
        """Return what is held back, in no particular order."""
        return [work for held in self._early.values() for work in held.values()]

    def skip(self) -> Sequence[Work]:
        """Stop waiting for what is missing, and return all that is held back, in order for each sender."""
        due = []
        for sender, held in self._early.items():
            if held:
                due += [held[number] for number in sorted(held)]
                # What was late, not lost, is in no order with them, and due when it comes.
                self._first[sender] = self._next[sender] = max(held) + 1
                held.clear()
        return due
