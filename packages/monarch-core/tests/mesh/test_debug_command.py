"""`monarch debug` from another terminal, on programs of their own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "import sys; from monarch.cli import main; sys.exit(main())"]

TRAINER = """
class Trainer(Actor):
    @endpoint
    def step(self, x):
        rank = current_rank().rank
        y = x * rank
        if rank in (1, 3):
            breakpoint()
        return y + 1

processes = crew(4)
trainers = processes.spawn("trainer", Trainer)
results = trainers.step.stream(10)
"""
LINE = "            breakpoint()"
FINISH = TRAINER + "say('driver', 'goes on')\nfor each in results:\n    say('got', each.get())\nsay('end')"
WAIT = TRAINER + "say('ready')\nwait_for_ever()"


@pytest.fixture
def monarch(runtime_base):
    """Run the command as from another terminal, with lines through a pipe."""

    def _monarch(*words, typed=""):
        return subprocess.run(
            [*COMMAND, *words],
            input=typed,
            capture_output=True,
            text=True,
            timeout=30,
            env={**os.environ, "XDG_RUNTIME_DIR": str(runtime_base)},
            check=False,
        )

    return _monarch


@pytest.fixture
def sessions(monarch, until):
    """Wait until a program has so many sessions that wait, and return them."""

    def _sessions(client, count):
        def found():
            done = monarch("debug", "list", "--client", str(client.pid), "--json")
            listed = json.loads(done.stdout)["sessions"]
            return sum(each["state"] == "waiting" for each in listed) == count and [listed]

        return until(found)[0]

    return _sessions


class Terminal:
    """A command on a terminal of its own, typed at by a test."""

    def __init__(self, words, environment):
        self._end, theirs = pty.openpty()
        self._child = subprocess.Popen(
            [*COMMAND, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "dumb", **environment},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
        )
        os.close(theirs)
        self.screen = ""

    def shows(self, text, seconds=20.0):
        """Wait until `text` was printed after what was waited for before."""
        deadline = time.monotonic() + seconds
        while text not in self.screen:
            assert self._reads(max(deadline - time.monotonic(), 0)), f"{text!r} did not come: {self.screen!r}"
        before, _, self.screen = self.screen.partition(text)
        return before

    def cancels(self, line, prompt):
        """Type part of a line, and Ctrl-C until the prompt comes again.

        Python misses an interrupt that falls between its last look and its wait for a key.
        """
        self.types(line)
        self.shows(line)
        for _ in range(10):
            self.types("\x03")
            while prompt not in self.screen and self._reads(2.0):
                pass
            if prompt in self.screen:
                break
        self.shows(prompt)

    def _reads(self, seconds):
        """Take what is printed within some seconds; whether anything was."""
        ready, _, _ = select.select([self._end], [], [], seconds)
        if ready:
            try:
                self.screen += os.read(self._end, 65536).decode()
            except OSError:  # how a terminal tells that nobody is at the other end
                raise AssertionError(f"ended early: {self.screen!r}") from None
        return bool(ready)

    def types(self, text):
        os.write(self._end, text.encode())

    def finish(self):
        return self._child.wait(20)

    def close(self):
        self._child.kill()
        self._child.wait(10)
        os.close(self._end)


@pytest.fixture
def terminal(runtime_base):
    started = []

    def _terminal(*words):
        started.append(Terminal(words, {"XDG_RUNTIME_DIR": str(runtime_base)}))
        return started[-1]

    yield _terminal
    for each in started:
        each.close()


def listening_on_tcp(pid):
    inodes = {os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}
    tables = [Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()]
    return [fields for fields in lines if f"socket:[{fields[9]}]" in inodes]


def test_two_of_four_ranks_are_debugged_while_the_driver_goes_on(program, sessions, monarch):
    client = program(FINISH)
    client.says("driver")
    found = sessions(client, 2)
    assert [(each["actor"], each["rank"]) for each in found] == [("trainer", 1), ("trainer", 3)]
    script = Path(found[0]["file"])
    assert script.read_text().splitlines()[found[0]["line"] - 1] == LINE
    assert found[0]["source"] == LINE.strip()
    for text in (f"{script.name}:{found[0]['line']} in step()", "breakpoint()"):
        assert monarch("debug", "list", "--client", str(client.pid)).stdout.count(text) == 2
    for pid in client.processes():
        assert listening_on_tcp(pid) == []
    assert "attach with `monarch debug attach" in client.errors  # of similar notices one is told at once

    third = monarch("debug", "attach", "trainer", "3", typed="p y\ncontinue\n")
    assert (third.returncode, "\n30\n" in third.stdout) == (0, True)
    assert [each["rank"] for each in sessions(client, 1)] == [1]
    first = monarch("debug", "attach", "trainer", "1", typed="list\np y\ncontinue\n")
    assert (first.returncode, "->\t            breakpoint()" in first.stdout) == (0, True)
    client.says("end")
    assert sorted(line for line in client.output.splitlines() if line.startswith("got")) == [
        f"got {number}" for number in (1, 11, 21, 31)
    ]


def test_the_command_finds_its_way_without_words(program, sessions, monarch):
    client = program(FINISH)
    sessions(client, 2)
    assert "trainer" in monarch("debug", "--client", str(client.pid)).stdout
    assert len(json.loads(monarch("debug", "--json", "--client", str(client.pid)).stdout)["sessions"]) == 2


def test_two_programs_are_told_apart(program, sessions, monarch):
    first, second = program(WAIT), program(WAIT)
    ids = {each["id"] for client in (first, second) for each in sessions(client, 2)}
    listed = json.loads(monarch("debug", "list", "--json").stdout)["sessions"]
    assert ids <= {each["id"] for each in listed}
    assert {each["client"] for each in listed} >= {first.pid, second.pid}
    refused = monarch("debug", "attach", "--client", str(first.pid), "trainer")
    assert (refused.returncode, "2 breakpoints wait" in refused.stderr) == (1, True)
    answers = json.loads(monarch("debug", "continue", "--json", "--client", str(second.pid)).stdout)[
        "answers"
    ]
    assert [each["state"] for each in answers] == ["continued", "continued"]
    assert len(sessions(first, 2)) == 2


def test_a_terminal_cancels_lines_detaches_and_comes_back(program, sessions, terminal):
    client = program(FINISH)
    sessions(client, 2)
    screen = terminal("debug", "attach", "--client", str(client.pid), "trainer", "3")
    screen.shows("(Pdb) ")
    screen.types("y = 5\n")
    screen.shows("(Pdb) ")
    screen.cancels("garbage", "(Pdb) ")
    screen.types("p y * 100\n")
    assert "garbage" not in screen.shows("500\r\n")
    screen.shows("(Pdb) ")
    screen.types("\x04")
    screen.shows("detached")
    assert screen.finish() == 0
    sessions(client, 2)
    again = terminal("debug", "attach", "--client", str(client.pid), "trainer", "3")
    again.shows("-> breakpoint()")
    again.types("p y\n")
    again.shows("5\r\n")
    again.types("c\n")
    again.shows("continued")
    assert again.finish() == 0
    assert client.says("got")
    sessions(client, 1)


def test_ctrl_c_while_the_actor_runs_leaves_it(program, sessions, terminal, until, tmp_path):
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    client = program(f"""
class Slow(Actor):
    @endpoint
    def run(self):
        breakpoint()
        open({str(runs)!r}, "w").close()
        while not os.path.exists({str(gate)!r}): time.sleep(0.01)
        return "ran"

crew(1).spawn("slow", Slow).run.call_one().get()
""")
    [found] = sessions(client, 1)
    screen = terminal("debug", "attach", found["id"])
    screen.shows("(Pdb) ")
    screen.types(f"until {found['line'] + 3}\n")
    until(runs.exists)
    screen.types("\x03")
    screen.shows("detached while it runs")
    assert screen.finish() == 0
    gate.touch()
    [found] = sessions(client, 1)
    assert found["source"] == 'return "ran"'


def test_a_program_that_dies_under_a_terminal_says_so(program, sessions, terminal):
    client = program(WAIT)
    found = sessions(client, 2)
    screen = terminal("debug", "attach", found[0]["id"])
    screen.shows("(Pdb) ")
    os.kill(found[0]["pid"], signal.SIGKILL)
    screen.shows(f"session {found[0]['id']} is lost")
    assert screen.finish() == 1


def test_a_terminal_hears_that_the_actor_is_stopped(program, sessions, terminal, tmp_path):
    gate = tmp_path / "gate"
    client = program(f"""{TRAINER}
while not os.path.exists({str(gate)!r}): time.sleep(0.01)
processes.stop().get()
say('stopped')
""")
    found = sessions(client, 2)
    screen = terminal("debug", "attach", found[0]["id"])
    screen.shows("(Pdb) ")
    gate.touch()
    screen.shows(": stopped")
    assert screen.finish() == 0
    client.says("stopped", 5)


def test_a_second_terminal_is_refused(program, sessions, terminal, monarch):
    client = program(WAIT)
    found = sessions(client, 2)
    terminal("debug", "attach", found[0]["id"]).shows("(Pdb) ")
    refused = monarch("debug", "attach", found[0]["id"])
    assert (refused.returncode, "another terminal is attached" in refused.stderr) == (1, True)
    cast = monarch("debug", "cast", "--json", "--client", str(client.pid), "trainer", "all", "p", "x")
    states = [(each["rank"], each["state"]) for each in json.loads(cast.stdout)["answers"]]
    assert states == [(1, "taken"), (3, "waiting")]


def test_at_a_terminal_it_asks_for_commands(program, sessions, terminal):
    client = program(FINISH)
    sessions(client, 2)
    screen = terminal("debug", "--client", str(client.pid))
    assert screen.shows("monarch debug> ").count("breakpoint()") == 2
    screen.types("attach trainer 1\n")
    screen.shows("(Pdb) ")
    screen.types("detach\n")
    screen.shows("monarch debug> ")
    screen.types("cast trainer ranks(1,3) p y\n")
    assert screen.shows("monarch debug> ").count("30") == 1
    screen.cancels("nonsense", "monarch debug> ")
    screen.types("attach nobody\n")
    screen.shows("no breakpoint waits as 'nobody'")
    screen.types("continue\n")
    screen.shows("[trainer 3] continued")
    client.says("end")
    screen.types("quit\n")
    assert screen.finish() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_program_that_ends_takes_its_sessions_along(program, sessions, until, number):
    client = program(WAIT)
    sessions(client, 2)
    client.send(number)
    client.finish()
    until(lambda: not client.processes(), 3)
    assert sessions(client, 0) == []


def test_sessions_are_for_their_user(program, sessions, runtime_base):
    sessions(program(WAIT), 2)
    [folder] = runtime_base.glob("monarch-*/debug")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.sock")} == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it becomes another user")
def test_another_user_is_refused_whatever_the_permissions(program, sessions, runtime_base):
    client = program(WAIT)
    found = sessions(client, 2)
    [folder] = runtime_base.glob("monarch-*/debug")
    path = folder / f"{found[0]['id']}.sock"
    for each in (runtime_base, folder.parent, folder, path):
        each.chmod(0o777)
    stranger = f"import os, socket; s = socket.socket(socket.AF_UNIX); s.settimeout(20); os.setuid(65534); \
s.connect({str(path)!r}); print(s.recv(1))"
    done = subprocess.run([sys.executable, "-c", stranger], capture_output=True, text=True, timeout=30)
    assert done.stdout == "b''\n", done.stderr
    assert len(sessions(client, 2)) == 2


def test_a_file_that_a_dead_process_left_is_removed(program, sessions, runtime_base):
    client = program(WAIT)
    found = sessions(client, 2)
    [folder] = runtime_base.glob("monarch-*/debug")
    os.kill(found[0]["pid"], signal.SIGKILL)
    sessions(client, 1)
    assert not list(folder.glob(f"{found[0]['id']}.*"))


def test_garbage_from_a_terminal_ends_nothing(program, sessions, monarch, runtime_base):
    client = program(WAIT)
    found = sessions(client, 2)
    [folder] = runtime_base.glob("monarch-*/debug")
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(folder / f"{found[0]['id']}.sock"))
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while stranger.recv(1000):
            pass
    assert "\n10\n" in monarch("debug", "attach", found[0]["id"], typed="p y\n").stdout


CELLS = """
import linecache
helper = 'def helper(x):\\n    breakpoint()\\n    return x\\n'
caller = 'class Cell(Actor):\\n    @endpoint\\n    {kind}def run(self):\\n        return helper(5)\\n'
for name, text in (("<cell 1>", helper), ("<cell 2>", caller)):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"))
say("got", crew(1).spawn("cell", Cell).run.call_one().get())
"""


@pytest.mark.parametrize("kind", ["", "async "], ids=["sync", "async"])
def test_source_that_only_the_program_has_is_shown(program, sessions, monarch, kind):
    """As the cells of a notebook: their files exist in its process alone."""
    client = program(CELLS.replace("{kind}", kind))
    [found] = sessions(client, 1)
    assert (found["file"], found["source"]) == ("<cell 1>", "breakpoint()")
    shown = monarch("debug", "attach", found["id"], typed="list\nup\nc\n").stdout
    assert "3  \t    return x" in shown
    assert "-> return helper(5)" in shown
    assert client.says("got") == "5"


def test_code_without_source_is_debugged_without(program, sessions, monarch):
    client = program("""
class Bare(Actor):
    @endpoint
    def run(self):
        exec("breakpoint()")
        return 5

say("got", crew(1).spawn("bare", Bare).run.call_one().get())
""")
    [found] = sessions(client, 1)
    assert (found["file"], found["source"], found["around"]) == ("<string>", None, [])
    assert "source not available" in monarch("debug", "list", "--client", str(client.pid)).stdout
    assert monarch("debug", "attach", found["id"], typed="up\np self\nc\n").returncode == 0
    assert client.says("got") == "5"
