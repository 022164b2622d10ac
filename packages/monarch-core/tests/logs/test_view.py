"""What the client does not take is left out, and the count of it is exact."""

from __future__ import annotations

import re
import socket

import pytest

from monarch._logs.frames import OUT, Unpacker
from monarch._logs.view import View


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def take(view, sock):
    """Read all that waits in the queue."""
    unpacker, texts = Unpacker(), []
    sock.setblocking(False)
    while True:
        view.pump()
        try:
            texts += [frame.text for frame in unpacker.feed(sock.recv(1 << 20))]
        except BlockingIOError:
            return texts


def test_a_client_that_does_not_read_loses_lines_and_hears_how_many(ends):
    view = View(ends[0])
    view.files = "/folder"
    for number in range(200_000):
        view.line(OUT, f"a line of some length, number {number}", 1)
        if not number % 1000:
            view.pump()
    texts = take(view, ends[1])
    left_out = [
        re.fullmatch(r"\[monarch\] (\d+) lines not shown: .*; the files in /folder have them", text)
        for text in texts
    ]
    lost = sum(int(match[1]) for match in left_out if match)
    assert lost > 0
    assert lost + sum(not match for match in left_out) == 200_000


def test_a_sum_that_is_left_out_counts_for_all_its_lines(ends):
    view = View(ends[0])
    while not view._left_out:
        view.line(OUT, "x" * 1000, 1)
    view.line(OUT, "sum", 500)
    assert "501 lines not shown" in take(view, ends[1])[-1]


def test_the_queue_is_bounded(ends):
    view = View(ends[0])
    for _ in range(20_000):
        view.line(OUT, "x" * 1000, 1)
        view.state(3, 1, "y" * 1000)
    assert sum(map(len, view._waiting)) < 5 << 20


def test_a_client_that_is_gone_is_no_error(ends):
    view = View(ends[0])
    ends[1].close()
    view.line(OUT, "x", 1)
    view.pump()
    view.line(OUT, "x", 1)
    assert view.closed
    assert not view.waits
