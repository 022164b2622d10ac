"""Programs that fork after they have become clients."""

from __future__ import annotations

import pytest

CLIENT = """
actors = workers(1)
pid = actors.pid.call_one().get()
"""
AFTER = """
os.waitpid(child, 0)
say("parent", actors.pid.call_one().get(20) == pid)
"""
CHILD_ENDS = [
    pytest.param("os._exit(0)", id="os._exit"),
    pytest.param("sys.exit(0)", id="sys.exit"),
    pytest.param("os.kill(os.getpid(), 9)", id="SIGKILL"),
    pytest.param("shutdown_context().get(20); os._exit(0)", id="shutdown"),
]


@pytest.mark.parametrize("end", CHILD_ENDS)
def test_a_child_that_does_nothing_leaves_the_parent_alone(program, end):
    client = program(f"{CLIENT}\nchild = os.fork()\nif not child:\n    {end}\n{AFTER}")
    assert client.says("parent") == "True"
    assert client.finish() == 0


@pytest.mark.parametrize("end", CHILD_ENDS)
def test_a_child_becomes_a_client_of_its_own(program, until, end):
    client = program(f"""{CLIENT}
child = os.fork()
if not child:
    say("child", workers(1).echo.call_one("works").get(20))
    {end}
{AFTER}""")
    assert client.says("child") == "works"
    assert client.says("parent") == "True"
    assert client.finish() == 0
    until(lambda: not client.processes(), 2)


def test_child_and_parent_have_folders_of_their_own(program, runtime_base):
    client = program(f"""{CLIENT}
child = os.fork()
if not child:
    this_host().initialized.get(20)
    say("folders", len(os.listdir({str(runtime_base)!r})))
    sys.exit(0)
{AFTER}
say("left", len(os.listdir({str(runtime_base)!r})))
""")
    assert client.says("folders") == "2"
    assert client.says("left") == "1"


def test_a_call_in_progress_at_the_fork_is_answered_in_the_parent(program):
    client = program(f"""{CLIENT}
pending = actors.run.call_one("time.sleep(0.3)")
child = os.fork()
if not child:
    os._exit(0)
say("answer", pending.get(20))
""")
    assert client.says("answer") == "None"
    assert client.finish() == 0


def test_a_child_that_lives_on_does_not_keep_the_processes_of_its_parent(program, alive, until):
    client = program(f"""{CLIENT}
say("worker", pid)
heard, told = os.pipe()
if not os.fork():
    say("child", os.getpid())
    os.write(told, b".")
    time.sleep(600)
    os._exit(0)
os.read(heard, 1)
os.kill(os.getpid(), 9)
""")
    client.says("child")
    until(lambda: not alive(int(client.says("worker"))), 2)


def test_many_children_at_once_work(program):
    client = program(f"""{CLIENT}
children = []
for number in range(3):
    child = os.fork()
    if not child:
        os._exit(workers(1).echo.call_one(number).get(30))
    children.append(child)
say("codes", *[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
say("parent", actors.pid.call_one().get(20) == pid)
""")
    assert client.says("codes", 60) == "0 1 2"
    assert client.says("parent") == "True"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_client_in_a_process_of_multiprocessing_ends_in_order(program, method):
    client = program(f"""
import multiprocessing

class Tidy(Worker):
    def __cleanup__(self, error):
        say("cleaned", error)

def use():
    tidy = crew(1).spawn("tidy", Tidy)
    tidy.pid.call_one().get(20)

if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=use)
    child.start()
    child.join()
""")
    assert client.says("cleaned") == "None"
    assert client.finish() == 0


def test_a_fork_of_multiprocessing_is_a_client_of_its_own(program):
    client = program(f"""{CLIENT}
import multiprocessing

def echo(value):
    return workers(1).echo.call_one(value).get(20)

with multiprocessing.get_context("fork").Pool(1) as pool:
    say("pool", pool.apply(echo, (3,)))
say("parent", actors.pid.call_one().get(20) == pid)
""")
    assert client.says("pool") == "3"
    assert client.says("parent") == "True"


def test_an_actor_that_forks_goes_on(program):
    client = program("""
actors = workers(1)
fork = "child = os.fork() or os._exit(0); os.waitpid(child, 0)"
say("forked", actors.run.call_one(fork).get(20))
say("alive", actors.echo.call_one("yes").get(20))
""")
    assert client.says("alive") == "yes"
    assert client.finish() == 0
