"""Marks in the output of a process that say which actor wrote what follows.

A mark is an application program command, a control string that terminals swallow: one that ever
got through to a screen would not be seen. The collector takes them out.
"""

from __future__ import annotations

import json
from functools import lru_cache

Who = tuple[str, int] | None
"""An actor's name and rank; None for the process as a whole."""

_OPEN, _CLOSE = "\x1b_monarch:", "\x1b\\"
_OPEN_BYTES, _CLOSE_BYTES = _OPEN.encode(), _CLOSE.encode()
_LONGEST = 1024  # bytes; what claims to be a mark and has no end by then is text

REST = _OPEN + _CLOSE
"""Ends the part of an actor: what follows is the process's."""


@lru_cache
def mark(name: str, rank: int) -> str:
    """Return what to write before text of an actor; ASCII, as encodings of streams differ."""
    return f"{_OPEN}{json.dumps([name[:100], rank])}{_CLOSE}"


class Splitter:
    """Divides one stream by its marks, wherever its chunks were cut."""

    def __init__(self) -> None:
        self._who: Who = None
        self._held = b""

    def feed(self, data: bytes) -> list[tuple[Who, bytes]]:
        """Return who wrote what. The beginning of a mark is held back until its end is there."""
        if self._held:
            data, self._held = self._held + data, b""
        if b"\x1b" not in data:
            return [(self._who, data)]
        end = len(data) - _unfinished(data)
        data, self._held = data[:end], data[end:]
        first, *others = data.split(_OPEN_BYTES)
        parts = [(self._who, first)] if first else []
        for other in others:
            body, closed, text = other.partition(_CLOSE_BYTES)
            try:
                self._who = _read(body)
            except ValueError:
                closed = b""
            if not closed:  # no mark of ours
                text = _OPEN_BYTES + other
            if text:
                parts.append((self._who, text))
        return parts

    def finish(self) -> list[tuple[Who, bytes]]:
        """Return what was held back: there is no more."""
        held, self._held = self._held, b""
        return [(self._who, held)] if held else []


def _unfinished(data: bytes) -> int:
    """Return how many bytes at the end may be the beginning of a mark."""
    start = data.rfind(_OPEN_BYTES)
    if start >= 0 and data.find(_CLOSE_BYTES, start) < 0:
        return len(data) - start if len(data) - start < _LONGEST else 0
    for length in range(len(_OPEN_BYTES) - 1, 0, -1):
        if data.endswith(_OPEN_BYTES[:length]):
            return length
    return 0


@lru_cache
def _read(body: bytes) -> Who:
    if not body:
        return None
    name, rank = json.loads(body)
    if not isinstance(name, str) or not isinstance(rank, int):
        raise ValueError(body)
    return name, rank
