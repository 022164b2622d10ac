"""Similar lines are folded, and every line is counted exactly once."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monarch._logs.folding import FOLLOWED, Fold, spans

events = st.lists(
    st.tuples(
        st.sampled_from(["trainer", "loader"]),
        st.integers(0, 3),
        st.lists(st.sampled_from([b"step 1", b"step 22", b"saved", b"", b"0xab at 0x12"]), min_size=1),
        st.sampled_from([0.0, 1.0, 3.0]),
        st.floats(0, 2),
    )
)


class Reader:
    def __init__(self):
        self.shown, self.lines = [], 0
        self.fold = Fold(self.show)

    def show(self, stream, text, count):
        self.shown.append(text)
        self.lines += count

    def add(self, rank, *lines, window=3.0, now=0.0):
        self.fold.add(1, "trainer", rank, lines, window, now)


@pytest.fixture
def reader():
    return Reader()


@given(events)
def test_each_line_is_shown_or_counted_once(events):
    reader, written, now = Reader(), 0, 0.0
    for name, rank, lines, window, later in events:
        now += later
        reader.fold.close_ended(now)
        reader.fold.add(1, name, rank, lines, window, now)
        written += len(lines)
    reader.fold.close_all()
    assert reader.lines == written
    said = [re.match(r"\[\w+ [\d,-]+\] (\d+) similar lines", text) for text in reader.shown]
    assert sum(int(match[1]) if match else 1 for match in said) == written


@given(events)
def test_without_a_window_nothing_is_folded(events):
    reader, expected = Reader(), []
    for name, rank, lines, _, _ in events:
        reader.fold.add(1, name, rank, lines, 0.0, 0.0)
        expected += [f"[{name} {rank}] {line.decode()}" for line in lines]
    assert reader.shown == expected


def test_one_rank_is_followed_and_the_others_are_counted(reader):
    for rank in range(8):
        reader.add(rank, b"step %d" % rank)
    assert reader.shown == ["[trainer 0] step 0"]
    reader.fold.close_ended(4.0)
    assert reader.shown[1:] == ["[trainer 1-7] 7 similar lines, the last: step 7"]


def test_the_lines_of_the_followed_rank_are_shown_up_to_a_number(reader):
    reader.add(0, *[b"step %d" % number for number in range(1000)])
    assert reader.shown == [f"[trainer 0] step {number}" for number in range(FOLLOWED)]
    reader.fold.close_all()
    assert reader.shown[FOLLOWED:] == [
        f"[trainer 0] {1000 - FOLLOWED} similar lines, the last: step 999",
    ]


def test_a_single_line_that_was_held_back_is_shown_as_it_is(reader):
    reader.add(0, b"ready")
    reader.add(1, b"ready")
    reader.fold.close_all()
    assert reader.shown == ["[trainer 0] ready", "[trainer 1] ready"]


def test_a_new_window_shows_the_first_line_again(reader):
    reader.add(0, b"step 1")
    reader.add(1, b"step 1")
    reader.fold.close_ended(5.0)
    reader.add(1, b"step 2", now=5.0)
    assert reader.shown[-1] == "[trainer 1] step 2"


@pytest.mark.parametrize(
    ("one", "other", "similar"),
    [
        pytest.param(b"loss 0.25", b"loss -13.5", True, id="numbers"),
        pytest.param(b"<Foo at 0x7fab12cd>", b"<Foo at 0x7FEE00aa>", True, id="addresses"),
        pytest.param(b"id 3f2a9c-b71d", b"id 00ff1e-c0c4", True, id="hexadecimal"),
        pytest.param(b"[  1/100]", b"[100/100]", True, id="padding"),
        pytest.param(b"opened", b"closed", False, id="words"),
        pytest.param("\u958b\u59cb".encode(), "\u7d42\u4e86".encode(), False, id="other-scripts"),
    ],
)
def test_lines_are_similar_if_they_differ_in_numbers(reader, one, other, similar):
    reader.add(0, one)
    reader.add(1, other)
    assert (len(reader.shown) == 1) == similar


def test_streams_and_actors_are_not_mixed(reader):
    for stream, name in [(1, "a"), (2, "a"), (1, "b")]:
        reader.fold.add(stream, name, 0, [b"same"], 3.0, 0.0)
    assert Counter(reader.shown) == {"[a 0] same": 2, "[b 0] same": 1}


def test_many_kinds_take_no_more_than_so_much_memory(reader):
    for number in range(5000):
        word = bytes(ord("g") + int(digit) for digit in str(number))
        reader.add(0, word)
        reader.add(1, word)
    assert len(reader.fold._kinds) <= 2000
    reader.fold.close_all()
    assert reader.lines == 10_000


def test_bytes_that_are_no_text_and_control_characters_are_replaced_and_colours_stay(reader):
    reader.add(0, b"\xff\x00\x07 \x1b[31mred\x1b[0m\ttab")
    assert reader.shown == ["[trainer 0] \ufffd\ufffd\ufffd \x1b[31mred\x1b[0m\ttab"]


def test_of_similar_bars_one_is_followed_and_another_when_that_is_long_done(reader):
    def leads(rank, text, now=0.0):
        return reader.fold.leads(2, "trainer", rank, text, now)

    assert leads(0, b" 10%|#   | 1/10")
    assert not leads(1, b" 90%|####| 9/10")
    assert leads(1, b"another bar")
    reader.fold.release(2, "trainer", 0, until=3.0)
    assert not leads(1, b" 95%|####| 9/10", now=1.0)
    assert leads(1, b" 95%|####| 9/10", now=4.0)


@given(st.sets(st.integers(0, 30)))
def test_ranks_are_written_in_short(ranks):
    text = spans(ranks)
    found = set()
    for part in filter(None, text.partition(",...")[0].split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    assert found == ranks or (found < ranks and text.endswith(f"{len(ranks)} ranks"))
