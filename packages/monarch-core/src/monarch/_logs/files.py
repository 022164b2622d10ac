"""The files that keep all output, in a folder for each run of a program.

Nothing that befalls them stops anything: whoever wrote goes on, and a note says what happened.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Callable

KEPT = 20
"""Runs of which the files are kept."""


_RUN = re.compile(r"\d{4}-\d\d-\d\d-\d{6}-\d+")


class LogFolder:
    """The folder of one run, made when there is something to put into it."""

    def __init__(self, base: str, pid: int, note: Callable[[str], None]) -> None:
        self._base = base
        self._name = f"{time.strftime('%Y-%m-%d-%H%M%S')}-{pid}"
        self._note = note
        self._lock: int | None = None
        self.path = ""

    def open(self, name: str) -> LogFile | None:
        """Return a new file; None if files are not wanted, or cannot be had."""
        if not self._base:
            return None
        try:
            path = self._made() + "/" + re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            return LogFile(descriptor, self._note)
        except OSError as error:
            self._base = ""
            self._note(f"output is not kept in files: {error}")
            return None

    def _made(self) -> str:
        if self.path:
            os.makedirs(self.path, 0o700, exist_ok=True)  # somebody may have cleaned up
            return self.path
        try:
            return self._make(self._base)
        except OSError:
            import tempfile  # most often not needed, and not cheap

            return self._make(f"{tempfile.gettempdir()}/monarch-logs-{os.geteuid()}")

    def _make(self, base: str) -> str:
        path = f"{base}/{self._name}"
        os.makedirs(path, 0o700, exist_ok=True)
        # Held while we live, so that no other program takes our files for old ones.
        self._lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = path
        # On a thread: large files take their time.
        threading.Thread(target=_prune, args=(base,), daemon=True).start()
        return path


def _prune(base: str) -> None:
    """Remove the oldest runs that have ended, and nothing else that may be in the user's folder."""
    import shutil

    for name in sorted(filter(_RUN.fullmatch, os.listdir(base)))[:-KEPT]:
        path = f"{base}/{name}"
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(folder)


class LogFile:
    """What one process wrote to one of its streams."""

    def __init__(self, descriptor: int, note: Callable[[str], None]) -> None:
        self._descriptor, self._note = descriptor, note
        self._failed = False

    def write(self, data: bytes) -> None:
        """Append; what cannot be written is left out, and that is said once."""
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._note(f"output is missing from its log file: {error}")

    def close(self) -> None:
        """Let go of it."""
        try:
            os.close(self._descriptor)
        except OSError as error:  # some file systems say only now what they could not write
            self._note(f"output is missing from its log file: {error}")
