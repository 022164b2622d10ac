"""Cases that users of systems like this one reported, each as they would meet it: whole programs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

MORE = """
import monarch.actor

class Sleeper(Worker):
    @endpoint
    def sleep(self, seconds):
        time.sleep(seconds)
"""


FOURTH_IS_BORN_DEAD = """
class Fragile(Sleeper):
    def __init__(self):
        if current_rank().rank == 2:
            raise LookupError("no data for this rank")
"""


def test_a_constructor_that_fails_ends_a_program_that_makes_no_call(program):
    client = program(
        MORE
        + FOURTH_IS_BORN_DEAD
        + """
fragile = this_host().spawn_procs(per_host={"procs": 4}).spawn("fragile", Fragile)
time.sleep(60)
"""
    )
    assert client.finish(30) == 1
    assert all(word in client.errors for word in ("'fragile'", "crashed_ranks=[2]", "no data for this rank"))


def test_a_constructor_that_fails_leaves_the_others_to_an_owner_that_handles_it(program):
    client = program(
        MORE
        + FOURTH_IS_BORN_DEAD
        + """
heard = []
monarch.actor.unhandled_fault_hook = heard.append
fragile = this_host().spawn_procs(per_host={"procs": 4}).spawn("fragile", Fragile)
deadline = time.monotonic() + 20
while not heard and time.monotonic() < deadline:
    time.sleep(0.01)
for rank in (0, 1, 3):
    fragile.slice(procs=rank).pid.call_one().get(20)
say([(failure.mesh_name, failure.rank, failure.endpoint) for failure in heard])
"""
    )
    assert client.finish() == 0
    assert client.output == "[('fragile', 2, '__init__')]\n"


@pytest.mark.parametrize(
    ("end", "words"),
    [
        pytest.param("os.kill(os.getpid(), 9)", ["signal 9"], id="SIGKILL"),
        pytest.param("sys.exit(7)", ["code 7"], id="exit"),
        pytest.param("import ctypes; ctypes.string_at(0)", ["signal 11"], id="SIGSEGV"),
        pytest.param(
            "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32)); bytearray(1 << 33)",
            ["MemoryError"],
            id="memory-limit",
        ),
        pytest.param(
            "import resource, signal; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass",
            ["signal 9"],
            id="processor-limit",
        ),
    ],
)
def test_what_ended_a_process_is_named_to_the_caller(program, end, words):
    client = program(
        MORE
        + f"""
workers = this_host().spawn_procs(per_host={{"procs": 4}}, name="crew").spawn("worker", Sleeper)
asleep = workers.slice(procs=1).run.call_one({end!r})
try:
    asleep.get(20)
except (SupervisionError, ActorError) as error:
    say(error)
"""
    )
    assert client.finish() == 0
    assert all(word in client.output for word in [*words, "worker", "run", "rank 1"])


@pytest.fixture
def small_group():
    """A control group for memory whose processes may have 300 MB, of which this test is no part."""
    own = {
        controllers: group.lstrip("/")
        for _, controllers, group in (
            line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()
        )
    }
    base = Path("/sys/fs/cgroup")
    folder, limit = base / own.get("", ""), "memory.max"
    if "memory" in own:
        folder, limit = base / "memory" / own["memory"], "memory.limit_in_bytes"
    group = folder / f"monarch-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(300 << 20))
    except OSError as error:
        pytest.skip(f"needs a control group of its own: {error}")
    yield group
    deadline = time.monotonic() + 10
    while (group / "cgroup.procs").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    group.rmdir()


def test_a_process_that_the_kernel_killed_for_its_memory_is_said_to_be(program, small_group):
    client = program(
        MORE
        + f"""
with open("{small_group}/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
workers = workers(2)
try:
    workers.slice(procs=1).run.call_one("held = bytearray(1 << 30)").get(20)
except ProcessDied as error:
    say(error)
say("alive", workers.slice(procs=0).echo.call_one("yes").get(20))
"""
    )
    assert client.finish() == 0
    assert "killed by signal 9 (SIGKILL) by the kernel, as memory ran out" in client.output
    assert "alive yes" in client.output


def test_a_process_killed_from_outside_is_named_with_its_pid_within_a_second(program):
    client = program(
        MORE
        + """
workers = this_host().spawn_procs(per_host={"procs": 4}, name="crew").spawn("worker", Sleeper)
victim = workers.slice(procs=1)
say("victim", victim.pid.call_one().get(20))
asleep = victim.sleep.call_one(60)
try:
    asleep.get()
except ProcessDied as error:
    say("error", repr(str(error)))
"""
    )
    pid = int(client.says("victim"))
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    said = client.says("error")
    assert time.monotonic() - began < 1
    assert all(word in said for word in ("worker.sleep()", "rank 1", "'crew'", "signal 9", str(pid)))


BLOCKED = {
    "main": "asleep.get()",
    "thread": "thread = threading.Thread(target=asleep.get)\nthread.start()\nthread.join()",
}


def all_threads_wait(pid):
    stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats)


@pytest.mark.parametrize("where", BLOCKED)
def test_one_ctrl_c_ends_a_program_that_waits(program, where, until):
    client = program(
        MORE
        + f"""
workers = this_host().spawn_procs(per_host={{"procs": 2}}).spawn("worker", Sleeper)
asleep = workers.slice(procs=0).sleep.call_one(100)
say("ready")
{BLOCKED[where]}
"""
    )
    client.says("ready")
    until(lambda: all_threads_wait(client.pid))
    began = time.monotonic()
    os.kill(client.pid, signal.SIGINT)
    assert client.finish(10) in (130, -signal.SIGINT)  # a shell shows 130 for either
    assert time.monotonic() - began < 3
    assert client.errors.count("Traceback") <= 1
    assert "loop is closed" not in client.errors
    until(lambda: not client.processes(), 2)


def test_many_rounds_of_spawn_call_and_stop_leave_nothing_behind(program):
    client = program(
        MORE
        + """
def held():  # memory, which varies with what threads do at the time, is measured by a benchmark
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

def one_round():
    processes = this_host().spawn_procs(per_host={"procs": 4})
    actors = [processes.spawn(name, Sleeper) for name in ("first", "second")]
    current[:] = actors[:1]
    for each in actors:
        each.pid.call().get(20)
    processes.stop().get(20)

def poll():
    while not over.is_set():
        try:
            status(current[-1]).get(5)
        except (IndexError, SupervisionError):
            over.wait(0.001)

current, over, heard = [], threading.Event(), []
monarch.actor.unhandled_fault_hook = heard.append
poller = threading.Thread(target=poll)
poller.start()
for _ in range(50):
    one_round()
settled = held()
for _ in range(100):
    one_round()
over.set()
poller.join(20)
end = held()
say([after <= 1.1 * before for before, after in zip(settled, end)], heard, settled, end)
"""
    )
    assert client.finish(100) == 0
    assert client.output.startswith("[True, True] [] ")
