"""Writes what actors wrote to the standard streams of the program, whatever they are at the time."""

from __future__ import annotations

import math
import select
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from itertools import groupby
from typing import TextIO

from monarch._logs.frames import ERR, ERR_STATE, OUT, OUT_STATE, Frame

_PIECE = 4096  # bytes that a pipe takes at once if it takes anything
_LOOK = 100  # milliseconds between looks whether to give up
_STATE_SECONDS = 10.0  # between two states of one unfinished line, where it cannot be overwritten
_ERASE = "\r\x1b[K"
_NAMES = {OUT: "stdout", OUT_STATE: "stdout", ERR: "stderr", ERR_STATE: "stderr"}


class Screen:
    """Lines, and on a terminal the state of an unfinished one below them."""

    def __init__(self) -> None:
        self.given_up = threading.Event()
        """Set so that nothing waits any longer for a reader who does not read."""
        self._unfinished: dict[int, tuple[str, str]] = {}
        self._drawn = ""
        self._written: dict[int, float] = {}

    def show(self, frames: Sequence[Frame]) -> None:
        """Write them. Never raises: a stream that fails is the program's own affair."""
        if self._drawn:
            self._write(self._drawn, _ERASE)
            self._drawn = ""
        for name, group in groupby(frames, key=lambda frame: _NAMES[frame.kind]):
            piece = ""
            for frame in group:
                text = self._text(name, frame)
                if piece and len(piece) + len(text) > _PIECE:
                    self._write(name, piece)
                    piece = ""
                piece += text
            if piece:
                self._write(name, piece)
        if self._unfinished:
            self._drawn, text = next(reversed(self._unfinished.values()))
            # The cursor goes back, so that what the program prints itself starts on the left.
            self._write(self._drawn, text[: shutil.get_terminal_size().columns - 1] + "\r")

    def _text(self, name: str, frame: Frame) -> str:
        if frame.kind in (OUT, ERR):
            return frame.text + "\n"
        number = frame.number
        self._unfinished.pop(number, None)
        if not frame.text:
            self._written.pop(number, None)
        elif _is_terminal(getattr(sys, name)):
            self._unfinished[number] = (name, frame.text)
        elif (now := time.monotonic()) - self._written.get(number, -math.inf) >= _STATE_SECONDS:
            self._written[number] = now
            return frame.text + "\n"
        return ""

    def _write(self, name: str, text: str) -> None:
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            return
        try:
            for start in range(0, len(text), _PIECE):
                if not self._wait_writable(stream):
                    return
                piece = text[start : start + _PIECE]
                try:
                    stream.write(piece)
                except UnicodeEncodeError:
                    encoding = stream.encoding
                    stream.write(piece.encode(encoding, "replace").decode(encoding))
                stream.flush()
        except Exception:
            pass  # it is the program's own object, closed or broken in any way; the files have the text

    def _wait_writable(self, stream: TextIO) -> bool:
        """Wait outside of the stream: whoever waits inside holds a lock that the interpreter needs to end."""
        poll = select.poll()
        try:
            poll.register(stream.fileno(), select.POLLOUT)
        except (AttributeError, OSError, ValueError, OverflowError):
            return True  # not a file
        while not self.given_up.is_set():
            if poll.poll(_LOOK):
                return True
        return bool(poll.poll(0))


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except Exception:  # whatever the program has put in place of its standard output
        return False
