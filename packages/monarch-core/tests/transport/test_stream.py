"""Connections over pairs of sockets: frames over small sockets, shared memory, and broken peers."""

from __future__ import annotations

import gc
import os
import select
import socket
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monarch._transport.segments import SegmentPool
from monarch._transport.stream import StreamConnection
from monarch.wire.codec import HEADER, UPKEEP, Batch, Envelope, Message, Segment, encode_batch

LARGE = 256 << 10


class Pair:
    """Two ends of a connection; `pump` moves everything that is on its way."""

    def __init__(self, buffer: int | None = None) -> None:
        sockets = socket.socketpair()
        for sock in sockets if buffer else ():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        self.pool, self.other_pool = SegmentPool(), SegmentPool()
        self.near = StreamConnection(sockets[0], self.pool)
        self.far = StreamConnection(sockets[1], self.other_pool)

    def send(self, body: bytes, buffers: Any = (), **how: bool) -> None:
        sizes = [sum(memoryview(chunk).nbytes for chunk in chunks) for chunks in buffers]
        message = Message(Envelope(body=body, buffer_sizes=sizes).SerializeToString(), buffers)
        self.near.send(message, **how)
        message.close()

    def receive(self, count: int) -> list[tuple[bytes, Any]]:
        """Receive so many messages, with the sender going on meanwhile."""
        received: list[Any] = []
        deadline = time.monotonic() + 20
        while len(received) < count:
            assert time.monotonic() < deadline
            received += self.far.receive()
            self.near.drain()
        return [(envelope.body, buffers) for envelope, buffers in received]

    def hand_back(self) -> None:
        """Let the far end say which segments it is done with, and the near end hear it."""
        gc.collect()
        self.far.flush()
        self.near.receive()

    def close(self) -> None:
        self.near.close()
        self.far.close()


@pytest.fixture
def pair():
    pair = Pair()
    yield pair
    pair.close()


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 300_000), max_size=8), st.booleans())
def test_messages_of_any_size_arrive_over_a_small_socket(sizes, hold):
    pair = Pair(buffer=4096)
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    for body in bodies:
        pair.send(body, hold=hold)
    pair.near.flush()
    assert [body for body, _ in pair.receive(len(bodies))] == bodies
    pair.close()


# ---- buffers


def test_a_buffer_arrives_in_shared_memory_and_its_segment_comes_back(pair):
    for number in range(5):
        content = os.urandom(LARGE)
        pair.send(b"%d" % number, [[content[:100], memoryview(content)[100:]]])
        ((body, (view,)),) = pair.receive(1)
        assert (body, bytes(view)) == (b"%d" % number, content)
        del view
        pair.hand_back()
        assert len(pair.pool._free[LARGE]) == 1


def test_word_that_another_connection_collected_is_still_owed(pair):
    pair.send(b"", [[bytes(LARGE)]])
    pair.receive(1)
    gc.collect()
    other = Pair()
    other.send(b"collects what died")
    assert pair.far.put_off
    pair.far.flush()
    assert not pair.far.put_off
    other.close()


def test_many_messages_with_buffers_go_at_once(pair):
    for number in range(150):
        pair.send(b"", [[bytes([number]) * LARGE]], hold=True)
    pair.near.flush()
    assert [view[0] for _, (view,) in pair.receive(150)] == [*range(150)]


def test_receivers_of_a_shared_message_do_not_see_each_other():
    pairs = [Pair(), Pair()]
    pairs[1].pool = pairs[1].near._pool = pairs[0].pool
    message = Message(Envelope(buffer_sizes=[LARGE]).SerializeToString(), [[bytes(LARGE)]])
    for pair in pairs:
        pair.near.send(message, shared=True)
    message.close()
    views = [pair.receive(1)[0][1][0] for pair in pairs]
    views[0][0] = 7
    assert (views[0][0], views[1][0]) == (7, 0)
    del views
    for pair in pairs:
        pair.hand_back()
    assert len(pairs[0].pool._free[LARGE]) == 1
    for pair in pairs:
        pair.close()


# ---- ends


def test_closing_takes_back_what_was_lent_but_not_for_use_by_others(pair):
    pair.send(b"", [[bytes(LARGE)]])
    ((_, (view,)),) = pair.receive(1)
    pair.near.close()
    assert (pair.pool._used, pair.pool._free[LARGE]) == ({}, [])
    assert view[0] == 0


# ---- peers that do not speak our language


def _only_end_of_file(content: bytes) -> None:
    stranger, ours = socket.socketpair()
    connection = StreamConnection(ours, SegmentPool())
    try:
        stranger.sendall(content)
        stranger.close()
        while select.select([ours], [], [], 20)[0]:
            connection.receive()
    except EOFError:
        return
    finally:
        connection.close()
        stranger.close()


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.binary(max_size=400))
def test_bytes_of_a_stranger_end_the_connection_and_nothing_else(content):
    size = HEADER.size
    _only_end_of_file(HEADER.pack(len(content)) + content)
    _only_end_of_file(HEADER.pack(len(content) | UPKEEP) + content)
    _only_end_of_file(HEADER.pack(size) + content)


segments = st.builds(
    Segment,
    id=st.integers(0, 3),
    announced_size=st.sampled_from([0, 1, LARGE]),
    copy_on_write=st.booleans(),
)
envelopes = st.builds(
    lambda sizes, body: Envelope(buffer_sizes=sizes, body=body).SerializeToString(),
    st.lists(st.integers(0, 2 * LARGE), max_size=3),
    st.binary(max_size=10),
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.lists(envelopes, max_size=3), st.lists(segments, max_size=3), st.lists(st.integers(0, 3), max_size=2)
)
def test_frames_about_segments_that_are_not_there_end_the_connection(bodies, mentioned, numbers):
    _only_end_of_file(encode_batch(bodies, Batch(segments=mentioned, released=numbers, retired=numbers)))


@pytest.mark.parametrize(
    "content", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\x7f", b"SSH-2.0-x\r\n"], ids=["http", "most", "ssh"]
)
def test_a_length_that_no_frame_has_ends_the_connection_at_once(content):
    stranger, ours = socket.socketpair()
    connection = StreamConnection(ours, SegmentPool())
    stranger.sendall(content)
    try:
        with pytest.raises(EOFError):
            connection.receive()
        assert len(connection._view) < 100 << 20
    finally:
        connection.close()
        stranger.close()
