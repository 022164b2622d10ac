"""Nothing that a program started outlives it, and nothing that a process started outlives the process."""

from __future__ import annotations

import os
import signal

import pytest

# What an actor may start, as commands of a shell; STAY is a script that writes down its number and sleeps.
STARTED = {
    "child": "exec /bin/sh STAY",
    "session": "setsid /bin/sh STAY & wait",
    "daemon": "setsid /bin/sh STAY &",
    "family": "setsid /bin/sh -c 'setsid /bin/sh STAY & wait' & wait",
    "deaf": "trap '' HUP INT TERM; setsid /bin/sh STAY & wait",
}
CLIENT_ENDS = [
    pytest.param("sys.exit(0)", None, id="sys.exit"),
    pytest.param("os._exit(0)", None, id="os._exit"),
    pytest.param("wait_for_ever()", signal.SIGTERM, id="SIGTERM"),
    pytest.param("wait_for_ever()", signal.SIGINT, id="SIGINT"),
]
PROCESS_ENDS = [
    pytest.param("os._exit(3)", id="os._exit"),
    pytest.param("__import__('ctypes').string_at(0)", id="SIGSEGV"),
]
KILLED = "os.kill(os.getpid(), 9)"


@pytest.fixture
def started_by(program, tmp_path, until):
    """Run a program whose actor starts something; return the program, and the number of that."""
    found, stay = tmp_path / "found", tmp_path / "stay"
    stay.write_text(f"echo $$ > {found}.new; mv {found}.new {found}; exec sleep 600")

    def _started_by(what, text, **environment):
        command = ["/bin/sh", "-c", STARTED[what].replace("STAY", str(stay))]
        client = program(
            f"""
mesh = crew(1)
actor = mesh.spawn("worker", Worker)
actor.run.call_one({f"self.child = subprocess.Popen({command})"!r}).get(20)
while not os.path.exists({str(found)!r}):
    time.sleep(0.01)
say("started")
{text}
""",
            **environment,
        )
        client.says("started")
        return client, int(found.read_text())

    return _started_by


@pytest.mark.parametrize("method", ["fork", "exec"])
@pytest.mark.parametrize("what", STARTED)
def test_nothing_is_left_two_seconds_after_a_program_is_killed(started_by, alive, until, what, method):
    client, child = started_by(what, "wait_for_ever()", MONARCH_PROC_START_METHOD=method)
    client.send(signal.SIGKILL)
    client.finish()
    until(lambda: not client.processes() and not alive(child), 2)


@pytest.mark.parametrize(("end", "number"), CLIENT_ENDS)
def test_nothing_is_left_two_seconds_after_a_program_ends(started_by, alive, until, end, number):
    client, child = started_by("daemon", end)
    if number is not None:
        client.send(number)
    client.finish(5)
    until(lambda: not client.processes() and not alive(child), 2)


def dies(how):
    return f"say('died', isinstance(actor.run.call_one({how!r}).exception(20), ProcessDied))\nwait_for_ever()"


@pytest.mark.parametrize("method", ["fork", "exec"])
@pytest.mark.parametrize("what", STARTED)
def test_what_a_process_started_ends_when_it_is_killed(started_by, alive, until, what, method):
    client, child = started_by(what, dies(KILLED), MONARCH_PROC_START_METHOD=method)
    assert client.says("died") == "True"
    until(lambda: not alive(child), 2)


@pytest.mark.parametrize("how", PROCESS_ENDS)
def test_what_a_process_started_ends_however_it_ends(started_by, alive, until, how):
    client, child = started_by("daemon", dies(how))
    assert client.says("died") == "True"
    until(lambda: not alive(child), 2)


@pytest.mark.parametrize("what", ["session", "daemon"])
def test_what_a_process_started_ends_with_its_mesh(started_by, alive, until, what):
    client, child = started_by(what, "mesh.stop().get(20); say('stopped'); wait_for_ever()")
    client.says("stopped")
    until(lambda: not alive(child), 2)


def test_a_daemon_survives_the_end_of_other_processes(started_by, alive):
    client, child = started_by(
        "daemon",
        "workers(1).run.call_one('os._exit(1)').exception(20); workers(1).echo.call_one(1).get(20)\n"
        "say('on'); wait_for_ever()",
    )
    client.says("on")
    assert alive(child)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_stopped_process_ends_with_its_program(program, until, number):
    client = program("""
actor = workers(1)
os.kill(actor.pid.call_one().get(20), signal.SIGSTOP)
say("stopped")
wait_for_ever()
""")
    client.says("stopped")
    client.send(number)
    client.finish(5)
    until(lambda: not client.processes(), 2)


def test_a_stopped_process_ends_with_its_mesh(program):
    client = program("""
from monarch.config import configure
configure(process_exit_timeout=0.3)
mesh = crew(1)
pid = mesh.spawn("worker", Worker).pid.call_one().get(20)
os.kill(pid, signal.SIGSTOP)
mesh.stop().get(20)
say("there", os.path.exists(f"/proc/{pid}"))
""")
    assert client.says("there") == "False"


def test_too_much_memory_is_an_error_of_the_call_where_python_is_told(program):
    client = program("""
actor = workers(1)
limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, -1)); bytes(1 << 32)"
say("error", actor.run.call_one(limit).exception(20))
say("alive", actor.echo.call_one(1).get(20))
""")
    assert "MemoryError" in client.says("error")
    assert client.says("alive") == "1"


def test_a_keeper_that_is_asked_to_end_stays_to_do_its_work(started_by, alive, until):
    client, child = started_by(
        "session",
        "actor.run.call_one('os.kill(os.getppid(), 15); os.kill(os.getppid(), 2)').get(20)\n"
        "say('asked'); wait_for_ever()",
    )
    client.says("asked")
    os.kill(client.pid, signal.SIGKILL)
    until(lambda: not alive(child), 2)
