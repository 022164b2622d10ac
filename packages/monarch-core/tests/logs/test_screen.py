"""Lines reach whatever the program's standard streams are; bars stay in their place on a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading

import pytest

from monarch._logs.frames import ERR, OUT, OUT_STATE, Frame
from monarch._logs.screen import Screen


class Terminal(io.StringIO):
    def isatty(self):
        return True


def line(text, kind=OUT):
    return Frame(kind, 0, text)


def state(text, number=1):
    return Frame(OUT_STATE, number, text)


@pytest.fixture
def screen():
    return Screen()


def on_terminal(*batches):
    """Return what a terminal got."""
    screen = Screen()
    with contextlib.redirect_stdout(Terminal()) as stream:
        for batch in batches:
            screen.show(batch)
    return stream.getvalue()


def test_each_stream_gets_its_lines_in_order(screen, capsys):
    screen.show([line("a"), line("oops", ERR), line("b")])
    assert capsys.readouterr() == ("a\nb\n", "oops\n")


def test_output_goes_where_the_program_redirects_it(screen):
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        screen.show([line("here")])
    assert stream.getvalue() == "here\n"


def test_on_a_terminal_a_bar_is_overwritten_by_its_next_state():
    assert on_terminal([state("10%")], [state("20%")]) == "10%\r\r\x1b[K20%\r"


def test_on_a_terminal_lines_go_above_the_bar():
    assert on_terminal([state("10%")], [line("hello")]) == "10%\r\r\x1b[Khello\n10%\r"


def test_on_a_terminal_a_bar_that_is_done_leaves_room_for_its_line():
    assert on_terminal([state("10%")], [state(""), line("100%")]) == "10%\r\r\x1b[K100%\n"


def test_a_bar_is_not_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert on_terminal([state("x" * 50)]) == "x" * 19 + "\r"


def test_elsewhere_a_bar_shows_a_state_now_and_then(screen, capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("monarch._logs.screen.time.monotonic", lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        screen.show([state(f"{second}%")])
    screen.show([state(""), line("100%")])
    assert capsys.readouterr().out.split() == ["0%", "10%", "20%", "100%"]


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(None, id="none"),
        pytest.param(object(), id="no-stream"),
        pytest.param(open(os.devnull), id="not-for-writing"),  # noqa: SIM115
    ],
)
def test_a_stream_that_cannot_be_written_is_no_error(screen, monkeypatch, stream):
    monkeypatch.setattr(sys, "stdout", stream)
    screen.show([line("x"), state("y")])


def test_a_stream_that_lacks_a_character_gets_the_rest(screen, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    screen.show([line("gr\u00fcn")])
    assert raw.getvalue() == b"gr?n\n"


def test_a_reader_who_does_not_read_can_be_given_up(screen, monkeypatch):
    reading, writing = os.pipe()
    with open(reading), open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        thread = threading.Thread(target=screen.show, args=([line("x" * 1000)] * 1000,))
        thread.start()
        screen.given_up.set()
        thread.join(10)
        assert not thread.is_alive()
        monkeypatch.undo()
        os.set_blocking(writing, False)
        os.read(reading, 1 << 20)
