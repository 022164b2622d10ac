"""What tests of output share: programs whose actors talk, and the files they leave."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = """\
import logging, os, signal, subprocess, sys, threading, time
import monarch.actor
from monarch.actor import Actor, endpoint, this_host
from monarch.errors import ProcessDied

class Talker(Actor):
    @endpoint
    def run(self, source):
        import logging, os, subprocess, sys, threading, time
        exec(source)
    @endpoint
    def pid(self):
        return os.getpid()

def talkers(count=1):
    actors = this_host().spawn_procs({"gpus": count}, name="crew").spawn("talker", Talker)
    actors.pid.call().get()
    return actors
"""


@pytest.fixture(autouse=True)
def _stays_alive(_hook):
    """A failure that nobody handled does not end the tests."""


class Talk:
    """Programs that run with a log folder of their own."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder / "logs"
        self._script = folder / "program.py"
        monkeypatch.setenv("MONARCH_LOG_FOLDER", str(self.folder))
        monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def start(self, text, **options):
        """Start `PRELUDE` and the text as a program."""
        self._script.write_text(PRELUDE + text)
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([sys.executable, self._script], **{**streams, **options})

    def __call__(self, text, seconds=60.0):
        """Run it and return its lines on standard output and standard error."""
        with self.start(text) as program:
            out, err = (data.decode() for data in program.communicate(timeout=seconds))
        assert program.returncode == 0, err
        return out.splitlines(), err.splitlines()

    def files(self, pattern="*"):
        """Return the contents of the log files whose name fits."""
        return [path.read_bytes() for path in sorted(Path(self.folder).glob(f"*/{pattern}"))]


@pytest.fixture
def talk(tmp_path, monkeypatch):
    """Run programs whose actors talk."""
    return Talk(tmp_path, monkeypatch)


@pytest.fixture
def seen(capsys, until):
    """Wait until the client has shown some text, and return all that it has shown on that stream.

    It is not read by `capsys.readouterr`, which loses what another thread writes at that moment.
    """

    def _seen(text, stream="stdout"):
        until(lambda: text in getattr(sys, stream).getvalue())
        return getattr(sys, stream).getvalue()

    return _seen
