"""Shared memory: lent, handed back, used again, and never seen by the wrong reader."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monarch._transport import segments
from monarch._transport.segments import OwnSegment, PeerSegments, SegmentPool, _round_up, collect_dead_views

SIZE = 256 << 10


@pytest.fixture
def pool():
    return SegmentPool()


@pytest.fixture
def peer():
    """The other side: it maps segments of the pool by their descriptors."""
    peer = PeerSegments()
    yield peer
    gc.collect()
    peer.close()


def _announce(peer: PeerSegments, segment: OwnSegment) -> None:
    peer.announce(segment.id, os.dup(segment.fd), segment.size)


@settings(derandomize=True)
@given(st.integers(0, 1 << 40))
def test_rounding_wastes_at_most_an_eighth_or_one_grain(size):
    rounded = _round_up(size)
    assert size <= rounded <= size + max(64 << 10, size // 8 + 1)
    assert _round_up(rounded) == rounded


def test_a_buffer_lies_in_its_segment_as_the_chunks_one_after_the_other(pool):
    segment = pool.place([[b"abc", memoryview(b"defg")]]).segment
    assert bytes(segment.view[:7]) == b"abcdefg"


def test_the_buffers_of_a_message_share_a_segment_and_are_aligned(pool):
    segment = pool.place([[b"abc"], [b"x" * SIZE]]).segment
    assert (bytes(segment.view[:3]), segment.view[64], segment.view[64 + SIZE - 1]) == (b"abc", 120, 120)


def test_a_segment_is_released_when_the_last_of_its_buffers_dies(pool, peer):
    segment = pool.place([[b"abc"], [b"defg"]]).segment
    _announce(peer, segment)
    first, second = peer.views(segment.id, [3, 4], False)
    assert (bytes(first), bytes(second)) == (b"abc", b"defg")
    del first
    collect_dead_views()
    assert not peer.released
    del second
    collect_dead_views()
    assert list(peer.released) == [segment.id]


def test_a_segment_comes_back_when_sender_and_readers_are_done(pool):
    placement = pool.place([[bytes(SIZE)]])
    segment = placement.segment
    pool.hold(segment)
    pool.hold(segment)
    placement.close()
    pool.release(segment.id)
    assert pool.place([[bytes(SIZE)]]).segment is not segment
    pool.release(segment.id)
    assert pool.place([[bytes(SIZE)]]).segment is segment


def test_a_segment_that_a_reader_may_still_look_at_is_not_used_again(pool):
    placement = pool.place([[bytes(SIZE)]])
    segment = placement.segment
    forgotten: list[int] = []
    segment.forget.append(forgotten.append)
    pool.hold(segment)
    pool.release(segment.id, reuse=False)
    placement.close()
    assert forgotten == [segment.id]
    assert pool.place([[bytes(SIZE)]]).segment is not segment


def test_releasing_what_is_not_in_use_does_nothing(pool):
    placement = pool.place([[bytes(SIZE)]])
    placement.close()
    pool.release(placement.segment.id)
    pool.release(12345)
    assert pool.place([[bytes(SIZE)]]).segment is placement.segment


def test_no_more_than_the_limit_is_kept_free(pool, monkeypatch):
    monkeypatch.setattr(segments, "_KEEP_FREE", SIZE)
    placements = [pool.place([[bytes(SIZE)]]) for _ in range(3)]
    for placement in placements:
        placement.close()
    assert pool._free_bytes == SIZE
    assert len(pool._free[SIZE]) == 1


def test_a_view_shows_what_the_sender_wrote_and_can_be_written(pool, peer):
    segment = pool.place([[b"hello"]]).segment
    _announce(peer, segment)
    view = peer.views(segment.id, [5], False)[0]
    assert bytes(view) == b"hello"
    view[0] = ord("j")
    assert bytes(segment.view[:5]) == b"jello"


def test_views_that_copy_on_write_do_not_see_each_other(pool, peer):
    segment = pool.place([[b"hello"]]).segment
    _announce(peer, segment)
    first, second = peer.views(segment.id, [5], True)[0], peer.views(segment.id, [5], True)[0]
    first[0] = ord("j")
    assert (bytes(first), bytes(second), bytes(segment.view[:5])) == (b"jello", b"hello", b"hello")


def test_a_segment_is_released_when_the_last_part_of_its_view_dies(pool, peer):
    segment = pool.place([[bytes(SIZE)]]).segment
    _announce(peer, segment)
    view = peer.views(segment.id, [SIZE], False)[0]
    part = view[10:20]
    del view
    collect_dead_views()
    assert not peer.released
    del part
    collect_dead_views()
    assert list(peer.released) == [segment.id]


def test_a_view_outlives_its_mapping_and_its_owner(pool, peer):
    segment = pool.place([[b"hello"]]).segment
    _announce(peer, segment)
    view = peer.views(segment.id, [5], False)[0]
    peer.forget(segment.id)
    pool.release(segment.id, reuse=False)
    assert bytes(view) == b"hello"


def test_a_retired_segment_has_no_descriptor_left(pool):
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    placement = pool.place([[bytes(SIZE)]])
    pool.release(placement.segment.id, reuse=False)
    assert len(os.listdir("/proc/self/fd")) == before
