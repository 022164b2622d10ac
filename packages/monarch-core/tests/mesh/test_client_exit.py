"""Programs that end, in every way a program can end: nothing of them is left."""

from __future__ import annotations

import os
import signal

import pytest

BUSY = """
actors = workers(2)
say("workers", *actors.pid.call().get().values())
"""
BLOCKED = (
    BUSY
    + """
pending = actors.run.call("threading.Event().wait()")
say("ready")
pending.get()
"""
)

ENDS = [
    pytest.param("", 0, id="falls-off-the-end"),
    pytest.param("sys.exit(3)", 3, id="sys.exit"),
    pytest.param("raise RuntimeError('on purpose')", 1, id="exception"),
    pytest.param("os._exit(4)", 4, id="os._exit"),
    pytest.param("os.kill(os.getpid(), 11)", -11, id="SIGSEGV"),
]

ACTOR_IS = [
    pytest.param("pass", id="idle"),
    pytest.param("threading.Event().wait()", id="waiting"),
    pytest.param("while True: pass", id="computing"),
    pytest.param("import ctypes; ctypes.PyDLL(None).sleep(600)", id="holding-the-gil"),
    pytest.param(
        "import ctypes; ctypes.CDLL(None).signal(15, 1); threading.Event().wait()", id="deaf-to-SIGTERM"
    ),
    pytest.param("subprocess.run(['/bin/sleep', '600'])", id="waiting-for-a-child"),
]


@pytest.fixture
def ends_alone(until):
    """Let a program end, and check that everything else of it ends within two seconds."""

    def _ends_alone(client):
        status = client.finish()
        until(lambda: not client.processes(), 2)
        return status

    return _ends_alone


@pytest.mark.parametrize(("end", "status"), ENDS)
def test_a_program_that_ends_leaves_no_process_and_keeps_its_status(program, ends_alone, end, status):
    client = program(BUSY + end)
    assert ends_alone(client) == status
    assert client.output.startswith("workers ")


@pytest.mark.parametrize("state", ACTOR_IS)
def test_a_program_ends_in_time_whatever_its_actors_do(program, ends_alone, state):
    client = program(BUSY + f"actors.run.broadcast({state!r})\nsay('ending')")
    client.says("ending")
    assert client.finish(5) == 0
    assert ends_alone(client) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("state", ACTOR_IS)
def test_a_program_that_is_killed_leaves_no_process(program, ends_alone, number, state):
    client = program(BUSY + f"actors.run.broadcast({state!r})\nsay('ready')\nwait_for_ever()")
    client.says("ready")
    client.send(number)
    assert ends_alone(client) == -number


def test_a_program_that_is_killed_while_it_spawns_leaves_no_process(program, ends_alone):
    client = program("actors = workers(4)\nsay('spawned')\nwait_for_ever()")
    client.says("spawned")
    client.send(signal.SIGKILL)
    assert ends_alone(client) == -signal.SIGKILL


def test_a_program_that_ends_while_it_spawns_leaves_no_process(program, ends_alone):
    client = program("workers(4)")
    assert ends_alone(client) == 0
    assert client.errors == ""


def test_actors_clean_up_once_when_the_program_ends(program, tmp_path):
    trace = tmp_path / "trace"
    client = program(f"""
class Tidy(Actor):
    def __cleanup__(self, error):
        with open({str(trace)!r}, "a") as file:
            file.write(f"{{error}};")
    @endpoint
    def hello(self): pass

crew(2).spawn("tidy", Tidy).hello.call().get()
""")
    assert client.finish() == 0
    assert trace.read_text() == "None;None;"


def test_a_quiet_program_prints_nothing_at_its_end(program):
    client = program("workers(2).echo.call(1).get()")
    assert client.finish() == 0
    assert (client.output, client.errors) == ("", "")


def test_what_actors_started_ends_with_a_program_that_is_killed(program, ends_alone, alive, until):
    client = program(
        BUSY
        + """
child = "self.child = subprocess.Popen(['/bin/sleep', '600']); print('child', self.child.pid, flush=True)"
actors.slice(procs=0).run.call_one(child).get()
wait_for_ever()
"""
    )
    child = int(client.says("child"))
    client.send(signal.SIGKILL)
    assert ends_alone(client) == -signal.SIGKILL
    assert not alive(child)


def test_what_actors_started_ends_with_a_program_that_ends(program, ends_alone):
    client = program(
        BUSY
        + """
actors.run.call("subprocess.Popen(['/bin/sleep', '600'])").get()
say("started")
"""
    )
    client.says("started")
    assert ends_alone(client) == 0


# ---- Ctrl-C


INTERRUPTED = (130, -signal.SIGINT)


def test_ctrl_c_ends_a_program_blocked_in_get(program, ends_alone):
    client = program(BLOCKED)
    client.says("ready")
    client.send(signal.SIGINT)
    assert client.finish(3) in INTERRUPTED
    assert ends_alone(client) in INTERRUPTED


def test_ctrl_c_shows_one_traceback_that_ends_in_the_users_line(program):
    client = program(BLOCKED)
    client.says("ready")
    client.send(signal.SIGINT)
    client.finish()
    assert client.errors.count("Traceback") == 1
    assert "pending.get()" in client.errors
    assert client.errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param("asyncio.run(awaited(pending))", id="await"),
        pytest.param(
            "thread = threading.Thread(target=pending.get, daemon=True); thread.start(); thread.join()",
            id="thread",
        ),
        pytest.param("time.sleep(600)", id="elsewhere"),
        pytest.param("Channel.open()[1].recv().get()", id="channel"),
    ],
)
def test_ctrl_c_ends_a_program_wherever_it_waits(program, ends_alone, wait):
    client = program(
        BLOCKED.replace(
            "pending.get()",
            f"""
import asyncio
async def awaited(future):
    return await future
{wait}
""",
        )
    )
    client.says("ready")
    client.send(signal.SIGINT)
    assert client.finish(3) in INTERRUPTED
    assert ends_alone(client) in INTERRUPTED


def test_ctrl_c_of_a_terminal_does_not_reach_the_actors(program):
    """A terminal sends the signal to the whole process group of the program."""
    client = program(
        BLOCKED.replace(
            "pending.get()",
            """
try:
    pending.get()
except KeyboardInterrupt:
    say("alive", *procs.spawn("second", Worker).pid.call().get(10).values())
""",
        ).replace("actors = workers(2)", "procs = crew(2)\nactors = procs.spawn('worker', Worker)")
    )
    client.says("ready")
    os.killpg(client.pid, signal.SIGINT)
    assert client.says("alive") == client.says("workers")


def test_the_future_that_ctrl_c_interrupted_still_gets_its_result(program):
    client = program("""
actor = workers(1)
future = actor.run.call_one("print('in', flush=True); time.sleep(0.5)")
try:
    future.get()
except KeyboardInterrupt:
    say("again", future.get(10))
""")
    client.says("in")
    client.send(signal.SIGINT)
    assert client.says("again") == "None"
    assert client.finish() == 0


STORM = """
import random

class Storm(threading.Thread):
    '''Sends one Ctrl-C at a time, at any moment of the main thread's work.'''
    def __init__(self, count):
        super().__init__(daemon=True)
        self.count, self.sent, self.seen = count, 0, 0
        self.ready = threading.Semaphore(0)

    def run(self):
        for _ in range(self.count):
            self.ready.acquire()
            time.sleep(random.random() * 0.003)
            os.kill(os.getpid(), signal.SIGINT)

    def allow(self):
        if self.sent == self.seen and self.sent < self.count:
            self.sent += 1
            self.ready.release()

storm = Storm(300)
storm.start()
"""


@pytest.mark.parametrize(
    ("actors", "call", "value"),
    [
        pytest.param("workers(1)", "actors.echo.call_one(number)", "future.get(10)", id="call_one"),
        pytest.param("workers(2)", "actors.echo.call(number)", "future.get(10).item(procs=1)", id="call"),
        pytest.param(
            "workers(1)", "actors.echo.call_one([number, bytes(100_000)])", "future.get(10)[0]", id="large"
        ),
        pytest.param(
            "this_proc().spawn('worker', Worker)",
            "actors.echo.call_one(number)",
            "future.get(10)",
            id="local",
        ),
    ],
)
def test_no_message_is_lost_to_ctrl_c(program, actors, call, value):
    client = program(f"""
actors = {actors}
actors.echo.call(0).get()
{STORM}
number, future = 0, None
while storm.seen < storm.count:
    try:
        storm.allow()
        if future is None:
            future = {call}
        value = {value}
        assert value == number, (value, number)
        number, future = number + 1, None
    except KeyboardInterrupt:
        storm.seen += 1
say("calls", number)
""")
    assert int(client.says("calls", 60)) > 0
    assert client.finish() == 0


def test_new_meshes_can_be_spawned_after_ctrl_c(program):
    client = program(
        BLOCKED.replace(
            "pending.get()",
            """
try:
    pending.get()
except KeyboardInterrupt:
    say("new", workers(1).echo.call_one("works").get(20))
""",
        )
    )
    client.says("ready")
    client.send(signal.SIGINT)
    assert client.says("new") == "works"
    assert client.finish() == 0


def test_a_handler_of_the_program_for_ctrl_c_is_called(program):
    client = program(
        BLOCKED.replace(
            "pending.get()",
            """
signal.signal(signal.SIGINT, lambda number, frame: say("handled"))
say("armed")
pending.get()
""",
        )
    )
    client.says("armed")
    client.send(signal.SIGINT)
    assert client.says("handled", 3) == ""


def test_a_program_that_ignores_ctrl_c_goes_on(program):
    client = program(
        "signal.signal(signal.SIGINT, signal.SIG_IGN)"
        + BLOCKED.replace(
            "pending.get()",
            """
os.kill(os.getpid(), signal.SIGINT)
say("on", workers(1).echo.call_one(1).get())
""",
        )
    )
    assert client.says("on") == "1"


def test_actors_in_the_process_of_the_program_clean_up_when_it_ends(program):
    client = program("""
class Tidy(Worker):
    def __cleanup__(self, error):
        # In one piece: the two do this at the same time.
        os.write(1, f"cleaned {context().actor_instance.name} {error}\\n".encode())

this_proc().spawn("local", Tidy).pid.call_one().get()
get_or_spawn_controller("single", Tidy).get().pid.call_one().get()
""")
    assert client.finish() == 0
    assert sorted(client.output.splitlines()) == ["cleaned local None", "cleaned single None"]


def test_an_actor_in_the_process_of_the_program_does_not_keep_it(program, ends_alone):
    client = program("""
local = this_proc().spawn("local", Worker)
local.run.call_one("wait_for_ever()")
say("ready")
""")
    assert ends_alone(client) == 0
