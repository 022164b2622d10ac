"""Lines as a reader at a terminal would see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monarch._logs.lines import LONGEST, Lines
from monarch._logs.marks import REST, mark


def read(*chunks):
    """Return the lines of a stream, and what is kept of it in a file."""
    lines, text, found = Lines(), b"", []
    for chunk in chunks:
        more, parts = lines.feed(chunk)
        text += more
        found += [(who, line) for who, many in parts for line in many]
    more, parts = lines.finish()
    return text + more, found + [(who, line) for who, many in parts for line in many]


def lines_of(*chunks):
    return [line for _, line in read(*chunks)[1]]


@given(st.binary(max_size=200).filter(lambda data: b"\x1b" not in data), st.integers(0, 200))
def test_a_cut_changes_neither_the_lines_nor_the_text(data, cut):
    assert read(data[:cut], data[cut:]) == read(data)
    assert read(data)[0] == data


@given(st.lists(st.text("ab ", min_size=1)))
def test_each_line_is_there_once(texts):
    data = "".join(f"{text}\n" for text in texts).encode()
    assert lines_of(data) == [text.encode() for text in texts]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([b"a\r\nb\r\n"], [b"a", b"b"], id="windows-ends"),
        pytest.param([b"a\r", b"\nb"], [b"a", b"b"], id="windows-end-that-was-cut"),
        pytest.param([b"\r  1%\r 50%", b"\r100%\n"], [b"100%"], id="bar"),
        pytest.param([b" 1%\r", b"50%\r", b"\n"], [b"50%"], id="bar-with-returns-behind"),
        pytest.param([b"\r 10%"], [b" 10%"], id="bar-without-end"),
        pytest.param([b"wait... ", b"done\n"], [b"wait... done"], id="in-two-pieces"),
        pytest.param([b"no end"], [b"no end"], id="no-end"),
        pytest.param([b"\n\n"], [b"", b""], id="empty"),
    ],
)
def test_a_line_is_what_a_terminal_shows_of_it(chunks, lines):
    assert lines_of(*chunks) == lines


@pytest.mark.parametrize("pieces", [1, 3], ids=["at-once", "in-pieces"])
@pytest.mark.parametrize("end", [b"", b"\n"], ids=["without-end", "with-end"])
def test_a_long_line_is_cut_and_says_how_much_is_missing(pieces, end):
    size = 3 * LONGEST
    line = lines_of(*[b"x" * (size // pieces)] * pieces, end)[0]
    assert line == b"x" * LONGEST + b" ... (%d bytes more)" % (size - LONGEST)


def test_what_is_overwritten_does_not_count_towards_the_length():
    assert lines_of(*[b"\r%05d" % number for number in range(10_000)]) == [b"09999"]


def test_lines_of_two_actors_that_interrupt_each_other_stay_whole():
    data = f"{mark('a', 0)}one {mark('b', 1)}uno {mark('a', 0)}two\n{mark('b', 1)}dos\n{REST}raw\n"
    text, lines = read(data.encode())
    assert lines == [(("a", 0), b"one two"), (("b", 1), b"uno dos"), (None, b"raw")]
    assert text == b"one uno two\ndos\nraw\n"
