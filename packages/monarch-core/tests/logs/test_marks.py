"""Marks go into a stream and come out of it, however the stream is cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from monarch._logs.marks import REST, Splitter, mark

names = st.text(st.characters(codec="utf-8"), max_size=20)
who = st.none() | st.tuples(names, st.integers(0, 10_000))
texts = st.binary(max_size=20) | st.sampled_from([b"\x1b", b"\x1b[31m", b"\x1b_", b"\n", b"a\rb"])


def written(parts):
    return b"".join((REST if who is None else mark(*who)).encode() + text for who, text in parts)


def merged(parts):
    """Join neighbours of one actor and leave out what is empty."""
    result = []
    for who, text in parts:
        if text and result and result[-1][0] == who:
            result[-1] = (who, result[-1][1] + text)
        elif text:
            result.append((who, text))
    return result


@given(st.lists(st.tuples(who, texts)), st.lists(st.integers(0, 400)))
def test_each_gets_back_what_it_wrote_wherever_the_stream_was_cut(parts, cuts):
    data, splitter, found = written(parts), Splitter(), []
    bounds = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for start, end in pairwise(bounds):
        found += splitter.feed(data[start:end])
    found += splitter.finish()
    assert merged(found) == merged(parts)


def test_what_only_looks_like_a_mark_is_text():
    for text in (
        b"\x1b_monarch:nonsense\x1b\\x",
        b"\x1b_monarch:[1,2]\x1b\\x",
        b"\x1b_monarch:" + b"x" * 2000,
    ):
        splitter = Splitter()
        assert merged([*splitter.feed(text), *splitter.finish()]) == [(None, text)]


def test_text_without_marks_is_not_copied():
    data = b"x" * 1000
    assert Splitter().feed(data)[0][1] is data


def test_the_beginning_of_a_mark_is_held_back_only_until_it_cannot_be_one():
    splitter = Splitter()
    assert splitter.feed(b"red \x1b") == [(None, b"red ")]
    assert splitter.feed(b"[31m") == [(None, b"\x1b[31m")]
