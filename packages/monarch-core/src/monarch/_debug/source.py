"""The source text of frames. What only the client has, such as the cell of a notebook, is asked for."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import FrameType

_AROUND = 3  # lines before and after

ask: Callable[[str], list[str]] | None = None
"""Return the lines of a file as the client knows it. Set by `hook.install`."""

_asked: set[str] = set()


def around(frame: FrameType) -> tuple[str | None, list[tuple[int, str]]]:
    """Return the current line of a frame, and those around it with their numbers."""
    line, lines = frame.f_lineno, _lines(frame)
    if not 0 < line <= len(lines):
        return None, []
    numbered = list(enumerate((text.rstrip() for text in lines), 1))
    return lines[line - 1].strip(), numbered[max(line - 1 - _AROUND, 0) : line + _AROUND]


def load(frame: FrameType, last: FrameType | None) -> None:
    """See to it that pdb finds the source of a frame, and of its callers up to the frame `last`."""
    above: FrameType | None = frame
    while above is not None:
        _lines(above)
        above = None if above is last else above.f_back


def _lines(frame: FrameType) -> list[str]:
    file = frame.f_code.co_filename
    lines = linecache.getlines(file, frame.f_globals)
    if not lines and ask is not None and file not in _asked:
        _asked.add(file)
        lines = ask(file)
        # Without a time of change, as from a loader, it is not looked for on the disk.
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    return lines
