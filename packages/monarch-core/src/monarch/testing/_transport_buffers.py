"""What a transport does with out-of-band buffers, as tests."""

from __future__ import annotations

import array
import contextlib
import os
import resource

import pytest

from monarch.testing._behind import descriptors, resident_bytes
from monarch.testing._exchange import End, Exchange, message
from monarch.testing._transport_base import LARGE, TransportBase


class _ElsewherePlaced:
    """The placement of a transport that is not the one under test."""

    closed = False

    def close(self) -> None:
        self.closed = True


class BufferTests(TransportBase):
    """Their content, their memory, and who may change it when."""

    @pytest.mark.parametrize("count", [1, 2, 65, 200])
    def test_any_number_of_buffers_goes_in_one_message(
        self, exchange: Exchange, pair: tuple[End, End], count: int
    ) -> None:
        """In order, each with its own content."""
        near, far = pair
        near.send(b"all", *([bytes([number]) * LARGE] for number in range(count)))
        [(envelope, views)] = exchange.receive(far)
        assert envelope.body == b"all"
        assert [(view[0], view[-1], view.nbytes) for view in views] == [(n, n, LARGE) for n in range(count)]

    def test_a_buffer_is_its_chunks_one_after_the_other(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Bytes, memoryviews, and views of other elements than bytes."""
        near, far = pair
        numbers = array.array("d", [1.5, 2.5])
        near.send(b"", [b"abc", memoryview(b"-defg-")[1:-1], memoryview(numbers)])
        [(_, [view])] = exchange.receive(far)
        assert bytes(view) == b"abcdefg" + numbers.tobytes()

    @pytest.mark.parametrize("sizes", [[0], [0, 0], [0, 5, 0], [65536, 0]], ids=str)
    def test_an_empty_buffer_is_a_buffer(
        self, exchange: Exchange, pair: tuple[End, End], sizes: list[int]
    ) -> None:
        """Also where a message has no other."""
        near, far = pair
        near.send(b"", *([bytes(size)] for size in sizes))
        [(_, views)] = exchange.receive(far)
        assert [view.nbytes for view in views] == sizes

    def test_a_large_buffer_arrives_whole(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """32 MiB, compared byte for byte."""
        near, far = pair
        content = os.urandom(1 << 20) * 32
        near.send(b"", [content])
        [(_, [view])] = exchange.receive(far)
        assert view == content

    def test_a_received_buffer_is_flat_and_may_be_written(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """A view of bytes that belongs to the receiver."""
        near, far = pair
        near.send(b"", [bytes(LARGE)])
        [(_, [view])] = exchange.receive(far)
        assert (view.format, view.ndim, view.readonly) == ("B", 1, False)
        view[5] = 7
        assert view[5] == 7

    @pytest.mark.parametrize("hold", [False, True], ids=["at-once", "held"])
    def test_the_sender_may_change_its_memory_once_send_returned(
        self, exchange: Exchange, pair: tuple[End, End], hold: bool
    ) -> None:
        """What arrives is what was there when it was sent."""
        near, far = pair
        memory = bytearray(b"a" * LARGE)
        near.send(b"", [memoryview(memory)], hold=hold)
        memory[:] = b"b" * LARGE
        near.connection.flush()
        [(_, [view])] = exchange.receive(far)
        assert {*view} == {ord("a")}
        view[0] = ord("c")
        assert memory[0] == ord("b")

    def test_a_kept_buffer_does_not_change(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """Messages that come later lie elsewhere."""
        near, far = pair
        for number in range(20):
            near.send(b"", [bytes([number]) * LARGE])
        received = exchange.receive(far, 20)
        assert [view[0] for _, (view,) in received] == [view[-1] for _, (view,) in received] == [*range(20)]

    def test_messages_with_and_without_buffers_keep_their_order(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """A buffer does not let the messages behind it pass."""
        near, far = pair
        bodies = [b"%d" % number for number in range(60)]
        for number, body in enumerate(bodies):
            near.send(body, *([[bytes(LARGE)]] if number % 3 == 0 else []))
        exchange.receive(far, len(bodies))
        assert far.bodies == bodies
        assert [len(buffers) for _, buffers in far.received] == [1, 0, 0] * 20

    def test_receivers_of_a_shared_message_do_not_see_each_other(self, exchange: Exchange) -> None:
        """A message that several peers get is written by each in memory of its own."""
        ends = [exchange.connect() for _ in range(3)]
        cast = message(b"", [bytes(LARGE)])
        for near, _ in ends:
            near.connection.place(cast)
        for near, _ in ends:
            near.connection.send(cast, shared=True)
        cast.close()
        views = [exchange.receive(far)[0][1][0] for _, far in ends]
        views[0][0] = 7
        assert [view[0] for view in views] == [7, 0, 0]

    def test_a_message_that_another_transport_placed_arrives(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Its placement stays as it is, for the peers that the other transport reaches."""
        near, far = pair
        placed = _ElsewherePlaced()
        cast = message(b"", [b"a" * LARGE])
        cast.placement = placed
        near.connection.place(cast)
        near.connection.send(cast, shared=True)
        assert cast.placement is placed
        assert not placed.closed
        [(_, [view])] = exchange.receive(far)
        assert {*view} == {ord("a")}

    def test_a_received_buffer_outlives_its_connection(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Both ends are closed, and it is still there."""
        near, far = pair
        near.send(b"", [b"a" * LARGE])
        [(_, [view])] = exchange.receive(far)
        near.close()
        far.close()
        assert {*view} == {ord("a")}

    def test_memory_comes_back_when_the_receiver_drops_its_buffers(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """However much passes, neither memory nor descriptors pile up."""
        near, far = pair
        size, rounds = 4 << 20, 40
        content = bytes(size)
        before, open_before = resident_bytes(), len(descriptors())
        for _ in range(rounds):
            near.send(b"", [content])
            exchange.receive(far)
            far.received.clear()
        assert resident_bytes() - before < size * rounds / 2
        assert len(descriptors()) - open_before < rounds / 2

    def test_placing_where_nothing_is_left_fails_before_anything_is_sent(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """`place` raises OSError or succeeds; the connection goes on either way."""
        near, far = pair
        refused = message(b"refused", [bytes(3 * LARGE)])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            with contextlib.suppress(OSError):
                near.connection.place(refused)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        refused.close()
        near.send(b"next", [b"a" * LARGE])
        [(envelope, [view])] = exchange.receive(far)
        assert (envelope.body, view[0]) == (b"next", ord("a"))
