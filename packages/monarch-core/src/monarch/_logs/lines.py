"""Makes lines of the chunks that come out of a pipe, for a reader at a terminal.

A line is cut after so many bytes, so that one without end costs no memory; of a line that was
overwritten by carriage returns, a progress bar, the last state counts.
"""

from __future__ import annotations

from monarch._logs.marks import Splitter, Who

LONGEST = 8192
"""Bytes of a line that are shown."""


def _cut(head: bytes, more: int) -> bytes:
    return head + b" ... (%d bytes more)" % more if more else head


def _visible(line: bytes) -> bytes:
    """Return what a terminal shows of a whole line."""
    if b"\r" in line:
        line = line.rstrip(b"\r")
        line = line[line.rfind(b"\r") + 1 :]
    return line if len(line) <= LONGEST else _cut(line[:LONGEST], len(line) - LONGEST)


class Partial:
    """A line that has no end yet."""

    def __init__(self) -> None:
        self.is_bar = False
        """It has been overwritten: whoever writes it wants to see it at once."""
        self.due: float | None = None
        """When its state is to be shown; set and cleared by whoever shows it."""
        self._head = b""
        self._more = 0
        self._returned = False

    def add(self, data: bytes) -> None:
        """Append."""
        stripped = data.rstrip(b"\r")
        if stripped:
            returned = stripped.rfind(b"\r")
            if self._returned or returned >= 0:
                self._head, self._more, self.is_bar = b"", 0, True
            piece = stripped[returned + 1 :]
            room = LONGEST - len(self._head)
            self._head += piece[:room]
            self._more += max(0, len(piece) - room)
            self._returned = False
        if len(stripped) < len(data):
            self._returned = True

    def text(self) -> bytes:
        """Return what there is of it."""
        return _cut(self._head, self._more)

    def __bool__(self) -> bool:
        return bool(self._head)


class Lines:
    """One stream of one process, in which several actors may be writing lines at the same time."""

    def __init__(self) -> None:
        self._splitter = Splitter()
        self.partials: dict[Who, Partial] = {}

    def feed(self, data: bytes) -> tuple[bytes, list[tuple[Who, list[bytes]]]]:
        """Return the text without marks, and the lines that are complete now."""
        return self._take(self._splitter.feed(data))

    def finish(self) -> tuple[bytes, list[tuple[Who, list[bytes]]]]:
        """Return what is left, and make lines of what has no end."""
        text, lines = self._take(self._splitter.finish())
        lines += [(who, [partial.text()]) for who, partial in self.partials.items() if partial]
        self.partials.clear()
        return text, lines

    def _take(self, parts: list[tuple[Who, bytes]]) -> tuple[bytes, list[tuple[Who, list[bytes]]]]:
        found = []
        for who, text in parts:
            if lines := self._lines(who, text):
                found.append((who, lines))
        text = parts[0][1] if len(parts) == 1 else b"".join(text for _, text in parts)
        return text, found

    def _lines(self, who: Who, text: bytes) -> list[bytes]:
        pieces = text.split(b"\n")
        last = pieces.pop()
        lines = []
        if pieces:
            partial = self.partials.pop(who, None)
            if partial is None:
                lines = [_visible(line) for line in pieces]
            else:
                partial.add(pieces[0])
                lines = [partial.text(), *(_visible(line) for line in pieces[1:])]
        if last:
            self.partials.setdefault(who, Partial()).add(last)
        return lines
