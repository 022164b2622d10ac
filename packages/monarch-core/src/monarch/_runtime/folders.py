"""The runtime folders of clients: each holds the sockets of one program, and only its user can enter it.

A folder belongs to a living client as long as its lock is held; the file of the lock names the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "monarch-"


def make_folder() -> tuple[str, int]:
    """Make the folder of this client; the lock is held until the returned descriptor is closed."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    if not os.access(base, os.W_OK | os.X_OK):
        base = tempfile.gettempdir()
    _sweep(Path(base))
    # It gets the name that `_sweep` looks for only once its lock is held.
    unborn = tempfile.mkdtemp(prefix=".monarch-", dir=base)
    lock = os.open(f"{unborn}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, str(os.getpid()).encode())
    folder = f"{base}/{_PREFIX}{os.geteuid()}-{os.path.basename(unborn).removeprefix('.monarch-')}"
    os.rename(unborn, folder)
    return folder, lock


def living() -> Iterator[tuple[int, Path]]:
    """Yield the process and the folder of each client of this user that runs on this host.

    Another terminal may have other variables than the program, so every usual place is looked at.
    """
    places = (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{os.geteuid()}", tempfile.gettempdir(), "/tmp")
    for base in dict.fromkeys(filter(None, places)):
        for folder in _folders(Path(base)):
            with contextlib.suppress(OSError, ValueError), _lock_of(folder) as (lock, is_free):
                if not is_free:
                    yield int(os.pread(lock, 20, 0)), folder


def _sweep(base: Path) -> None:
    """Remove folders of clients that were killed: their lock is free."""
    for folder in _folders(base):
        with contextlib.suppress(OSError), _lock_of(folder) as (_, is_free):
            if is_free:
                shutil.rmtree(folder, ignore_errors=True)


def _folders(base: Path) -> Iterator[Path]:
    """Yield the folders in a base that have the name of one of ours, and our user."""
    for folder in base.glob(f"{_PREFIX}{os.geteuid()}-*"):
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid():
                yield folder


@contextlib.contextmanager
def _lock_of(folder: Path) -> Iterator[tuple[int, bool]]:
    """Try to take the lock of a folder: its descriptor, and whether it was free."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield lock, False
        else:
            yield lock, True
    finally:
        os.close(lock)
