"""Shows one of many similar lines, and says how many there were and from which ranks.

Lines are similar if they differ in numbers only. The rank that writes such a line first is the
one to follow: its lines are shown as they come, up to a few in a window of time. All others are
counted, and the sum is shown when the window closes. Nothing is lost in the count: each line is
shown, or is in exactly one sum.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

FOLLOWED = 10
"""Lines of one kind that are shown of one rank in one window."""

_MOST_KINDS = 2000
_GRAIN = 0.1  # seconds; windows close together, so that there are few looks
_RANGES = 8
_WITHOUT = b"0123456789.+- "
_BAR_WITHOUT = _WITHOUT + b"#=>|\\/,:%" + bytes(range(128, 256))
_IDS = re.compile(rb"\b(?:0x[0-9a-f]+|(?=[a-f]*[0-9])[0-9a-f]{4,})\b", re.IGNORECASE)

Show = Callable[[int, str, int], None]
"""Called with the stream, the text, and how many lines that stands for."""


class _Kind:  # no dataclass: importing those takes as long as all else here
    __slots__ = ("ends", "folded", "last", "lead", "ranks", "room")

    def __init__(self, lead: int, ends: float) -> None:
        self.lead, self.ends, self.room = lead, ends, FOLLOWED
        self.folded = 0
        self.ranks: set[int] = set()
        self.last = (0, b"")


class Fold:
    """The kinds of lines of the last moments."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._kinds: dict[tuple[int, str, bytes], _Kind] = {}
        self._bars: dict[tuple[int, str, bytes], tuple[int, float]] = {}
        self.next_end = math.inf
        """When `close_ended` has something to do."""

    def add(
        self, stream: int, name: str, rank: int, lines: Sequence[bytes], window: float, now: float
    ) -> None:
        """Take lines of an actor of that name and rank; a window of 0 folds nothing."""
        if not window:
            for line in lines:
                self._show(stream, f"[{name} {rank}] {_text(line)}", 1)
            return
        # In passes over all lines that run in C: a million lines take about a second.
        keys = _IDS.sub(b"", b"\n".join(lines)).translate(None, _WITHOUT).split(b"\n")
        last = dict(zip(keys, lines))
        rooms: dict[bytes, int] = {}
        for key, count in Counter(keys).items():
            kind = self._kinds.get((stream, name, key)) or self._open((stream, name, key), rank, window, now)
            if kind.lead == rank and kind.room:
                rooms[key] = min(kind.room, count)
                kind.room -= rooms[key]
                count -= rooms[key]
            if count:
                kind.folded += count
                kind.ranks.add(rank)
                kind.last = (rank, last[key])
        if rooms:
            for key, line in zip(keys, lines):
                if rooms.get(key):
                    rooms[key] -= 1
                    self._show(stream, f"[{name} {rank}] {_text(line)}", 1)

    def _open(self, key: tuple[int, str, bytes], rank: int, window: float, now: float) -> _Kind:
        if len(self._kinds) >= _MOST_KINDS:
            oldest = next(iter(self._kinds))
            self._close(oldest)
        ends = math.ceil((now + window) / _GRAIN) * _GRAIN
        self.next_end = min(self.next_end, ends)
        kind = self._kinds[key] = _Kind(rank, ends)
        return kind

    def _close(self, key: tuple[int, str, bytes]) -> None:
        kind = self._kinds.pop(key)
        stream, name, _ = key
        rank, line = kind.last
        if kind.folded == 1:
            self._show(stream, f"[{name} {rank}] {_text(line)}", 1)
        elif kind.folded:
            what = f"[{name} {spans(kind.ranks)}] {kind.folded} similar lines, the last: {_text(line)}"
            self._show(stream, what, kind.folded)

    def close_ended(self, now: float) -> None:
        """Show the sums of windows that are over."""
        for key in [key for key, kind in self._kinds.items() if kind.ends <= now]:
            self._close(key)
        self.next_end = min((kind.ends for kind in self._kinds.values()), default=math.inf)

    def close_all(self) -> None:
        """Show all sums now."""
        self.close_ended(math.inf)

    # ---- progress bars of several ranks: one is followed

    def leads(self, stream: int, name: str, rank: int, text: bytes, now: float) -> bool:
        """Whether of all similar bars, the one of this rank is shown."""
        key = (stream, name, text.translate(None, _BAR_WITHOUT))
        lead, until = self._bars.get(key, (rank, math.inf))
        if lead != rank and until > now:
            return False
        if len(self._bars) > _MOST_KINDS:
            self._bars.clear()
        self._bars[key] = (rank, math.inf)
        return True

    def release(self, stream: int, name: str, rank: int, until: float) -> None:
        """The bar of this rank is done; those of others, which most often are nearly, stay hidden so long."""
        for key, (lead, _) in self._bars.items():
            if lead == rank and key[:2] == (stream, name):
                self._bars[key] = (lead, until)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").translate(_CONTROLS)


# A stray byte must not ring, move the cursor or clear; escape sequences are wanted: they bring colour.
_CONTROLS = {code: "\ufffd" for code in (*range(32), 127) if chr(code) not in "\t\x1b"}


def spans(ranks: set[int]) -> str:
    """Write ranks in short: 0-2,5."""
    found: list[list[int]] = []
    for rank in sorted(ranks):
        if found and found[-1][1] == rank - 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in found[:_RANGES]]
    return ",".join(parts) + (f",... {len(ranks)} ranks" if len(found) > _RANGES else "")


def bar_text(name: str, rank: int, text: bytes) -> str:
    """Return how the state of an unfinished line is shown."""
    return f"[{name} {rank}] {_text(text)}"
