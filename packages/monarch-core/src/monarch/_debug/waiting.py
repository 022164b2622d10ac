"""What is known of a session that stopped at a breakpoint: one file beside its socket, for whoever lists.

A reader needs nothing of the runtime for it, and no answer of the actor, which may be busy.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = "debug"
"""Below the runtime folder of a client."""

WAITING, ATTACHED = "waiting", "attached"


@dataclass
class Waiting:
    """A session at a breakpoint.

    `id` is unique on its host. `state` is "waiting", or "attached" while a terminal holds it. `since`
    is when it stopped first, in seconds since 1970. `around` are the lines about `line` with their
    numbers; without source, `source` is None and `around` empty. `started` tells two processes with one
    `pid` apart.
    """

    id: str
    actor: str
    rank: int
    coordinates: Mapping[str, int]
    class_name: str
    endpoint: str | None
    function: str
    file: str
    line: int
    source: str | None
    around: list[tuple[int, str]]
    host: str
    pid: int
    started: int
    since: float
    state: str = WAITING

    def place(self) -> str:
        """Return where it stands, as people write it."""
        return f"{os.path.basename(self.file)}:{self.line} in {self.function}()"


def socket_of(folder: Path, waiting: Waiting) -> Path:
    """Return where the session listens."""
    return folder / f"{waiting.id}.sock"


def publish(folder: Path, waiting: Waiting) -> None:
    """Write the description, in one step for whoever reads."""
    unborn = folder / f".{waiting.id}"
    unborn.write_text(json.dumps(asdict(waiting)))
    unborn.replace(_file_of(folder, waiting.id))


def withdraw(folder: Path, waiting: Waiting) -> None:
    """Remove description and socket. The folder may be gone already, with its client."""
    for path in (_file_of(folder, waiting.id), socket_of(folder, waiting)):
        path.unlink(missing_ok=True)


def read_all(folder: Path) -> Iterator[Waiting]:
    """Yield the sessions of a folder; what dead processes left there is removed."""
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(FileNotFoundError):
            waiting = Waiting(**json.loads(path.read_text()))
            if start_of(waiting.pid) == waiting.started:
                yield waiting
            else:
                withdraw(folder, waiting)


def start_of(pid: int) -> int | None:
    """Return when a process started, in ticks since the boot of the host; None if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _file_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"
