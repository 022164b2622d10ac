"""Turns messages into frames and back. The only module that touches generated code.

A frame is a header of four bytes, little endian, then one `Batch`. The header is the size of the
batch, with the highest bit saying whether it has more in it than envelopes. A batch is put together
from envelopes that are already encoded, since the encoding of a repeated field is that of its
elements one after the other: a cast is encoded once, whatever the number of receivers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from monarch.shape import NDSlice, Shape
from monarch.wire.v1.envelope_pb2 import Batch, Envelope, Hello, Kind, Segment, View

__all__ = [
    "CANCEL",
    "ENDED",
    "ERROR",
    "FAILURE",
    "FATE",
    "HEADER",
    "MESSAGE",
    "REPLY",
    "RESTART",
    "SHUTDOWN",
    "SPAWN",
    "STATUS",
    "STOP",
    "UNDELIVERABLE",
    "UPKEEP",
    "Batch",
    "Envelope",
    "Hello",
    "Message",
    "Placement",
    "Received",
    "Segment",
    "decode_batch",
    "decode_view",
    "encode_batch",
    "encode_one",
    "encode_view",
]

MESSAGE: Kind.ValueType = Kind.KIND_MESSAGE
REPLY: Kind.ValueType = Kind.KIND_REPLY
ERROR: Kind.ValueType = Kind.KIND_ERROR
CANCEL: Kind.ValueType = Kind.KIND_CANCEL
SPAWN: Kind.ValueType = Kind.KIND_SPAWN
STOP: Kind.ValueType = Kind.KIND_STOP
UNDELIVERABLE: Kind.ValueType = Kind.KIND_UNDELIVERABLE
FAILURE: Kind.ValueType = Kind.KIND_FAILURE
STATUS: Kind.ValueType = Kind.KIND_STATUS
FATE: Kind.ValueType = Kind.KIND_FATE
SHUTDOWN: Kind.ValueType = Kind.KIND_SHUTDOWN
ENDED: Kind.ValueType = Kind.KIND_ENDED
RESTART: Kind.ValueType = Kind.KIND_RESTART

HEADER = struct.Struct("<I")
UPKEEP = 1 << 31
"""Set in a frame's header if its batch has more than envelopes, and must be looked at for it."""

Buffer = Sequence[bytes | memoryview]
"""One out-of-band buffer, as the chunks that lie in it one after the other."""


class Message:
    """An encoded envelope with its out-of-band buffers, ready for any number of connections.

    `placement` is where a transport of this host put the buffers, so that several connections
    share one copy; whoever created the message calls `close` after the last `send`.
    """

    __slots__ = ("_frame", "buffers", "envelope", "placement")

    def __init__(self, envelope: bytes, buffers: Sequence[Buffer] = ()) -> None:
        self.envelope, self.buffers = envelope, buffers
        self.placement: Placement | None = None
        self._frame: bytes | None = None

    def frame(self) -> bytes:
        """Return a frame with this envelope and nothing else; made once for all receivers."""
        if self._frame is None:
            self._frame = encode_one(self.envelope)
        return self._frame

    def close(self) -> None:
        """Let go of the placement: the receivers alone keep it from now on."""
        if self.placement is not None:
            self.placement.close()


class Placement(Protocol):
    """Buffers of one message, placed where several receivers find them."""

    def close(self) -> None:
        """Drop the sender's own hold."""


Received: TypeAlias = tuple[Envelope, Sequence[memoryview]]
"""An envelope that arrived, with its out-of-band buffers in their own memory."""


def _prefix(size: int) -> bytes:
    """Return what stands before an envelope of `size` bytes in a batch: its field number and its size."""
    if size < 128:
        return bytes((0x0A, size))
    varint = bytearray(b"\x0a")
    while size > 127:
        varint.append(size & 127 | 128)
        size >>= 7
    varint.append(size)
    return bytes(varint)


def encode_one(envelope: bytes) -> bytes:
    """Return a frame with one envelope and nothing else."""
    prefix = _prefix(len(envelope))
    return HEADER.pack(len(prefix) + len(envelope)) + prefix + envelope


def encode_batch(envelopes: Iterable[bytes], upkeep: Batch | None = None) -> bytes:
    """Return one frame with `envelopes` in order and the other fields of `upkeep`."""
    parts: list[bytes] = [b""]
    for envelope in envelopes:
        parts.append(_prefix(len(envelope)))
        parts.append(envelope)
    if upkeep is not None:
        parts.append(upkeep.SerializeToString())
    size = sum(map(len, parts))
    parts[0] = HEADER.pack(size if upkeep is None else size | UPKEEP)
    return b"".join(parts)


def decode_batch(content: bytes) -> Batch:
    """Return the batch of one frame without its header.

    Raises:
        ValueError: if the bytes are no batch.
    """
    try:
        return Batch.FromString(content)
    except Exception as error:  # protobuf's DecodeError is no stable public class
        raise ValueError(f"not a batch of envelopes: {error}") from error


def encode_view(shape: Shape) -> bytes:
    """Return the encoding of a part of a mesh."""
    part = shape.ndslice
    return View(
        labels=shape.labels, offset=part.offset, sizes=part.sizes, strides=part.strides
    ).SerializeToString()


def decode_view(content: bytes) -> Shape:
    """Return the shape that `encode_view` encoded."""
    view = View.FromString(content)
    part = NDSlice(offset=view.offset, sizes=list(view.sizes), strides=list(view.strides))
    return Shape(list(view.labels), part)
