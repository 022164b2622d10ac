"""What the collector sends to the client: lines to show, in frames of a few bytes and a text."""

from __future__ import annotations

import struct
from typing import NamedTuple

OUT, ERR = 1, 2
"""A line for standard output, or for standard error."""
OUT_STATE, ERR_STATE = 3, 4
"""The state of an unfinished line; an empty text says that it is finished. `number` says which line."""
BARRIER = 5
"""All that was there when it was asked for has been sent; `number` is that of the question."""

_HEAD = struct.Struct("<BII")


class Frame(NamedTuple):
    """One of them."""

    kind: int
    number: int
    text: str


def pack(kind: int, number: int, text: str) -> bytes:
    """Return a frame as bytes."""
    content = text.encode("utf-8", "replace")
    return _HEAD.pack(kind, number, len(content)) + content


class Unpacker:
    """Makes frames of bytes, wherever they were cut."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete now."""
        data = self._data + data
        frames, start = [], 0
        while len(data) - start >= _HEAD.size:
            kind, number, size = _HEAD.unpack_from(data, start)
            end = start + _HEAD.size + size
            if end > len(data):
                break
            frames.append(Frame(kind, number, data[start + _HEAD.size : end].decode()))
            start = end
        self._data = data[start:]
        return frames
