"""What tests of meshes share: meshes that are stopped, and programs that are watched from outside."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

import monarch.actor
from monarch.actor import shutdown_context, this_host

MARK = "MONARCH_TEST_PROGRAM"

PRELUDE = """\
import os, signal, subprocess, sys, threading, time
from monarch.actor import *
from monarch.errors import *

class Worker(Actor):
    @endpoint
    def pid(self):
        return os.getpid()
    @endpoint
    def echo(self, value):
        return value
    @endpoint
    def run(self, source):
        import os, signal, subprocess, sys, threading, time
        exec(source)

def say(*words):
    print(*words, flush=True)

def wait_for_ever():
    threading.Event().wait()

def crew(count):
    return this_host().spawn_procs(per_host={"procs": count}, name="crew")

def workers(count):
    return crew(count).spawn("worker", Worker)
"""


@pytest.fixture(scope="session")
def alive():
    """Whether a process runs; one that only waits to be reaped does not."""

    def _alive(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return _alive


_failures = []


@pytest.fixture(scope="module", autouse=True)
def _client():
    """A client for each module, whose unhandled failures are recorded instead of ending the tests."""
    before = monarch.actor.unhandled_fault_hook
    monarch.actor.unhandled_fault_hook = _failures.append
    yield
    shutdown_context().get(30)
    monarch.actor.unhandled_fault_hook = before


@pytest.fixture
def failures():
    """What reaches the root of the supervision tree during this test."""
    _failures.clear()
    return _failures


@pytest.fixture
def crew():
    """Spawn processes along one dimension, `procs`; they are stopped after the test."""
    meshes = []

    def _crew(count=1, **options):
        mesh = this_host().spawn_procs(per_host={"procs": count}, **options)
        meshes.append(mesh)
        return mesh

    yield _crew
    for future in [mesh.stop() for mesh in meshes]:
        future.get(30)


@pytest.fixture
def runtime_base():
    """An empty folder with a short path, for runtime folders."""
    base = tempfile.mkdtemp(prefix="mt-")
    yield Path(base)
    shutil.rmtree(base, ignore_errors=True)


class Program:
    """A client in a process of its own. Its output goes to files, so that nothing of it ever waits for us."""

    def __init__(self, script, folder, environment, alive, until):
        self._mark = uuid.uuid4().hex
        self._out, self._err = folder / f"{self._mark}.out", folder / f"{self._mark}.err"
        self._alive, self._until = alive, until
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._child = subprocess.Popen(
                [sys.executable, script],
                env={**os.environ, **environment, MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.pid = self._child.pid

    @property
    def output(self):
        return self._out.read_text()

    @property
    def errors(self):
        return self._err.read_text()

    def says(self, word, seconds=20.0):
        """Wait for a line that starts with `word`, and return the rest of it."""
        self._until(lambda: self._line(word) or self._child.poll() is not None, seconds)
        line = self._line(word)
        assert line, f"ended with {self._child.poll()} and did not say {word!r}: {self.output}{self.errors}"
        return line.removeprefix(word).strip()

    def _line(self, word):
        """Return a line of the program, or of one of its actors, without the name of that one."""
        complete = [re.sub(r"^\[\w+ \d+\] ", "", line) for line in self.output.split("\n")[:-1]]
        return next((line for line in complete if line.split(" ")[0] == word), "")

    def send(self, number):
        os.kill(self.pid, number)

    def finish(self, seconds=20.0):
        """Wait for the end and return the exit status."""
        return self._child.wait(seconds)

    def processes(self):
        """Return the living processes that inherited this program's environment, itself included."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._owns(pid)]

    def _owns(self, pid):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return f"{MARK}={self._mark}".encode() in environment.split(b"\0") and self._alive(pid)

    def close(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._child.wait(10)


@pytest.fixture
def program(tmp_path, runtime_base, alive, until):
    """Start a program that consists of `first`, `PRELUDE` and the given text, in its own runtime base."""
    started = []

    def _program(text, first="", **environment):
        script = tmp_path / f"program{len(started)}.py"
        script.write_text(f"{first}\n{PRELUDE}{text}")
        environment = {"XDG_RUNTIME_DIR": str(runtime_base), **environment}
        started.append(Program(str(script), tmp_path, environment, alive, until))
        return started[-1]

    yield _program
    for each in started:
        each.close()
