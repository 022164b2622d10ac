"""Keeps messages of one sender to one receiver in the order they were sent.

The sender numbers its messages per receiving rank, over casts and single messages alike; the
receiver holds early ones back. Each pair has its own order, and no pair waits for another.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
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

    def take(self, ranks: Sequence[int]) -> tuple[int, Sequence[int]]:
        """Return the next number for `ranks`: one for most, and (rank, number) pairs for the others."""
        with self._lock:
            if len(ranks) == self._size:
                number, own = self._base, self._own
                self._base += 1
                return number, [x for rank in own for x in (rank, number + own[rank])] if own else ()
            number = self._base
            exceptions: list[int] = []
            for rank in ranks:
                own_number = self._own.get(rank, 0)
                self._own[rank] = own_number + 1
                if own_number:
                    exceptions += (rank, number + own_number)
            if len(self._own) == self._size:
                self._level()
        if len(ranks) == 1 and exceptions:
            return exceptions[1], ()
        return number, exceptions

    def _level(self) -> None:
        least = min(self._own.values())
        self._base += least
        self._own = {rank: own - least for rank, own in self._own.items() if own > least}


_PAIR = struct.Struct("<QQ")


def encode_exceptions(exceptions: Sequence[int]) -> bytes:
    """Return the pairs that `Numbering.take` gave, as they travel."""
    return struct.pack(f"<{len(exceptions)}Q", *exceptions)


def number_for(rank: int, number: int, exceptions: bytes) -> int:
    """Return the number that `Numbering.take` gave to `rank`, from the exceptions as they travelled."""
    for other, own_number in _PAIR.iter_unpack(exceptions):
        if other == rank:
            return int(own_number)
    return number


class Ordering(Generic[Work]):
    """Puts what one receiver gets back in order. Not safe from several threads at once."""

    def __init__(self) -> None:
        self._next: dict[bytes, int] = {}
        self._early: dict[bytes, dict[int, Work]] = {}

    def accept(self, sender: bytes, number: int, work: Work) -> Sequence[Work]:
        """Take a message and return what is now due, in order; a number seen before yields nothing."""
        due = self._next.get(sender, 0)
        if number != due:
            if number > due:
                self._early.setdefault(sender, {})[number] = work
            return ()
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
