"""The log collector of a host: a program that reads what actor processes write.

It never waits for anybody but the disk, so that no actor waits either: the full text goes to files,
and a view of it, with similar lines folded, to the client as fast as the client takes it. It lives
as long as its client, and a moment longer to read what is left.
"""

from __future__ import annotations

import json
import math
import os
import resource
import select
import socket
import sys
import time
from collections import deque
from typing import Any

from monarch._logs.files import LogFile, LogFolder
from monarch._logs.folding import Fold, bar_text
from monarch._logs.frames import ERR, ERR_STATE, OUT, OUT_STATE
from monarch._logs.lines import Lines, Partial
from monarch._logs.marks import Who
from monarch._logs.view import View

_CHUNK = 1 << 16
_MOST_CHUNKS = 32  # that an ended process can have left in its pipe, and more
_BAR_SECONDS, _PARTIAL_SECONDS = 0.2, 0.5
_TAIL_BYTES = 4096
_LAST_SECONDS = 0.8  # to read what processes write while they end with their client
_LARGEST_REQUEST = 1 << 16
_STATE = {OUT: OUT_STATE, ERR: ERR_STATE}


class Process:
    """An actor process, as far as its output goes."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.mesh: str = request["mesh"]
        self.rank: int = request["rank"]
        self.file_name = f"{self.mesh}-{self.rank}.{request['pid']}"
        self.shown: bool = request["shown"]
        self.window: float = request["window"]
        self.tail: deque[bytes] = deque(maxlen=request["tail"])


class Source:
    """One stream of a process."""

    def __init__(self, process: Process, stream: int, pipe: int) -> None:
        self.process, self.stream, self.pipe = process, stream, pipe
        self.lines = Lines()
        self.states: dict[Who, int] = {}
        """The numbers of unfinished lines of which the client has seen a state."""
        self.file: LogFile | None = None
        self.has_file = True

    def named(self, who: Who) -> tuple[str, int]:
        """Return whom to name in front of a line."""
        return (self.process.mesh, self.process.rank) if who is None else who


class Collector:
    """All of them."""

    def __init__(self, control: socket.socket, view: socket.socket, folder: str, pid: int) -> None:
        self._control = control
        self._view = View(view)
        self._folder = LogFolder(folder, pid, self._view.note)
        self._fold = Fold(self._view.line)
        self._sources: dict[int, Source] = {}
        self._of: dict[str, list[Source]] = {}
        self._states = 0
        self._unshown: list[tuple[Source, Who, Partial]] = []
        self._poll = select.epoll()
        self._poll.register(control, select.EPOLLIN)
        self._poll.register(view, 0)

    def run(self) -> None:
        """Serve until the client is gone."""
        control, view, wants_out = self._control.fileno(), self._view.socket.fileno(), False
        while True:
            ready = self._poll.poll(self._timeout())
            now = time.monotonic()
            for descriptor, events in sorted(ready, key=lambda event: event[0] != control):
                if descriptor == control:
                    if not self._serve():
                        return
                elif descriptor == view and events & select.EPOLLHUP:
                    self._view.close()
                    self._poll.unregister(view)
                elif descriptor in self._sources:
                    self._read(self._sources[descriptor], now)
            if now >= self._fold.next_end:
                self._fold.close_ended(now)
            self._show_partials(now, now)
            self._view.pump()
            if self._view.waits != wants_out and not self._view.closed:
                wants_out = self._view.waits
                self._poll.modify(view, select.EPOLLOUT if wants_out else 0)

    def _timeout(self) -> float:
        due = min((partial.due for _, _, partial in self._unshown if partial.due), default=math.inf)
        due = min(due, self._fold.next_end)
        return -1 if due == math.inf else max(0.0, due - time.monotonic())

    # ---- what processes write

    def _read(self, source: Source, now: float) -> bool:
        """Read one chunk; False if there is none now."""
        try:
            data = os.read(source.pipe, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._finish(source, now)
            self._forget(source)
            return False
        self._take(source, *source.lines.feed(data), now)
        for who, partial in source.lines.partials.items():
            if partial.due is None and source.process.shown:
                partial.due = now + (_BAR_SECONDS if partial.is_bar else _PARTIAL_SECONDS)
                self._unshown.append((source, who, partial))
        return True

    def _take(self, source: Source, text: bytes, parts: list[tuple[Who, list[bytes]]], now: float) -> None:
        if text:
            self._keep(source, text)
        process, stream = source.process, source.stream
        for who, lines in parts:
            if stream == ERR:
                process.tail.extend(lines[-(process.tail.maxlen or 0) or len(lines) :])
            self._end_state(source, who, now)
            if process.shown:
                name, rank = source.named(who)
                self._fold.add(stream, name, rank, lines, process.window, now)

    def _keep(self, source: Source, text: bytes) -> None:
        if source.file is None and source.has_file:
            suffix = "stderr" if source.stream == ERR else "stdout"
            source.file = self._folder.open(f"{source.process.file_name}.{suffix}.log")
            source.has_file = source.file is not None
            self._view.files = self._folder.path
        if source.file is not None:
            source.file.write(text)

    def _finish(self, source: Source, now: float) -> None:
        self._take(source, *source.lines.finish(), now)

    def _forget(self, source: Source) -> None:
        self._poll.unregister(source.pipe)
        os.close(source.pipe)
        del self._sources[source.pipe]
        if source.file is not None:
            source.file.close()

    # ---- lines without an end

    def _show_partials(self, now: float, due: float) -> None:
        """Show the states that are due by then."""
        waiting = []
        for source, who, partial in self._unshown:
            if partial.due is not None and partial.due > due:
                waiting.append((source, who, partial))
            else:
                partial.due = None
                if source.lines.partials.get(who) is partial:
                    self._show_state(source, who, partial, now)
        self._unshown = waiting

    def _show_state(self, source: Source, who: Who, partial: Partial, now: float) -> None:
        name, rank = source.named(who)
        text = partial.text()
        if text and self._fold.leads(source.stream, name, rank, text, now):
            if who not in source.states:
                self._states += 1
                source.states[who] = self._states
            self._view.state(_STATE[source.stream], source.states[who], bar_text(name, rank, text))

    def _end_state(self, source: Source, who: Who, now: float) -> None:
        """A line is complete: it is shown as all are, and no longer as a state."""
        number = source.states.pop(who, None)
        if number is not None:
            self._fold.release(source.stream, *source.named(who), until=now + source.process.window)
            self._view.state(_STATE[source.stream], number, "")

    # ---- what the agent asks for

    def _serve(self) -> bool:
        """Do what one message wants; False if there will be no more."""
        content, descriptors, _, _ = socket.recv_fds(self._control, _LARGEST_REQUEST, 2)
        if not content:  # the client was killed
            self._read_the_rest()
            return False
        request = json.loads(content)
        if request["do"] == "end":
            return False
        getattr(self, f"_on_{request['do']}")(request, descriptors)
        return True

    def _on_attach(self, request: dict[str, Any], pipes: list[int]) -> None:
        process = Process(request)
        sources = []
        for stream, pipe in enumerate(pipes, 1):
            os.set_blocking(pipe, False)
            source = self._sources[pipe] = Source(process, stream, pipe)
            self._poll.register(pipe, select.EPOLLIN)
            sources.append(source)
        self._of[request["key"]] = sources

    def _on_options(self, request: dict[str, Any], _: list[int]) -> None:
        for source in self._of.get(request["key"], ()):
            self._drain(source, time.monotonic())  # what was written before, is treated as before
            source.process.shown, source.process.window = request["shown"], request["window"]

    def _on_ended(self, request: dict[str, Any], _: list[int]) -> None:
        """A process has ended: show all of it, and say what its last errors were."""
        sources = self._of.pop(request["key"], [])
        now = time.monotonic()
        for source in sources:
            self._drain(source, now)
            if source.pipe in self._sources:  # something that it started holds it open
                self._finish(source, now)
        lines = sources[0].process.tail if sources else ()
        tail = b"\n".join(lines)[-_TAIL_BYTES:].decode("utf-8", "replace")
        if request["number"]:
            self._answer(request["number"], tail)

    def _on_flush(self, request: dict[str, Any], _: list[int]) -> None:
        """Show everything that has been written so far."""
        now = time.monotonic()
        for source in list(self._sources.values()):
            self._drain(source, now)
        self._show_partials(now, math.inf)
        self._fold.close_all()
        self._view.barrier(request["number"])

    def _drain(self, source: Source, now: float) -> None:
        for _ in range(_MOST_CHUNKS):
            if source.pipe not in self._sources or not self._read(source, now):
                return

    def _answer(self, number: int, text: str) -> None:
        try:
            self._control.send(json.dumps([number, text]).encode(), socket.MSG_DONTWAIT)
        except OSError:
            pass  # nobody reads answers: they are late, and not wanted any more

    # ---- the end

    def fail(self, error: Exception) -> None:
        """Say what was wrong with us: nobody sees our standard error."""
        self._view.note(f"the log collector failed: {error!r}")
        self._view.pump()

    def _read_the_rest(self) -> None:
        """Keep what processes write while they end; their client sees nothing any more."""
        deadline = time.monotonic() + _LAST_SECONDS
        while self._sources and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in self._poll.poll(left):
                if descriptor in self._sources:
                    self._read(self._sources[descriptor], 0.0)
                else:
                    self._poll.unregister(descriptor)


def main() -> None:
    """Run with the descriptors of two sockets, the folder for files, and the client's process id."""
    control, view, folder, pid = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sockets = socket.socket(fileno=int(control)), socket.socket(fileno=int(view))
    collector = Collector(*sockets, folder, int(pid))
    try:
        collector.run()
    except Exception as error:
        collector.fail(error)
        raise
