"""A client that is ended from within its program, and starts again."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from monarch.actor import Actor, endpoint, shutdown_context, this_host, this_proc
from monarch.errors import SupervisionError


class Worker(Actor):
    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def hang(self):
        threading.Event().wait()

    @endpoint
    def shut_down(self):
        shutdown_context().get(20)


def spawn():
    return this_host().spawn_procs().spawn("worker", Worker)


def test_its_processes_are_gone_when_the_future_is_done(alive):
    pid = spawn().pid.call_one().get(20)
    assert shutdown_context().get(20) is None
    assert not alive(pid)


def test_it_is_eager(alive, until):
    pid = spawn().pid.call_one().get(20)
    shutdown_context()
    until(lambda: not alive(pid))


def test_it_may_be_called_any_number_of_times():
    spawn().pid.call_one().get(20)
    assert [shutdown_context().get(20) for _ in range(3)] == [None] * 3


def test_it_may_be_called_on_many_threads_at_once():
    spawn().pid.call_one().get(20)
    done = []
    threads = [threading.Thread(target=lambda: done.append(shutdown_context().get(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert done == [None] * 4


def test_all_futures_of_one_shutdown_are_done_only_when_it_is_over(alive):
    pid = spawn().pid.call_one().get(20)
    shutdown_context()
    shutdown_context().get(20)
    assert not alive(pid)


def test_the_client_starts_again():
    first = spawn().pid.call_one().get(20)
    shutdown_context().get(20)
    assert spawn().pid.call_one().get(20) != first


def test_the_client_starts_again_right_after_the_call():
    spawn().pid.call_one().get(20)
    shutdown_context()
    assert spawn().pid.call_one().get(20) > 0


def test_it_can_be_awaited(alive):
    async def use():
        pid = await spawn().pid.call_one()
        await shutdown_context()
        return pid

    assert not alive(asyncio.run(use()))


def test_calls_in_progress_fail():
    pending = spawn().hang.call_one()
    shutdown_context(host_timeout=0.2).get(20)
    with pytest.raises(SupervisionError):
        pending.get(20)


def test_old_references_fail_at_once():
    worker = spawn()
    worker.pid.call_one().get(20)
    shutdown_context().get(20)
    with pytest.raises(SupervisionError):
        worker.pid.call_one().get(5)


def test_old_references_fail_when_a_new_client_has_started():
    worker = spawn()
    worker.pid.call_one().get(20)
    shutdown_context().get(20)
    spawn().pid.call_one().get(20)
    with pytest.raises(SupervisionError):
        worker.pid.call_one().get(5)


def test_processes_that_do_not_end_are_killed_after_the_given_time(alive):
    worker = spawn()
    pid = worker.pid.call_one().get(20)
    worker.hang.broadcast()
    shutdown_context(host_timeout=0.2).get(10)
    assert not alive(pid)


def test_in_an_actor_of_another_process_it_ends_nothing():
    worker = spawn()
    worker.shut_down.call_one().get(20)
    assert worker.pid.call_one().get(20) > 0


def test_actors_in_the_client_end_too():
    worker = this_proc().spawn("worker", Worker)
    assert worker.pid.call_one().get(20) == os.getpid()
    shutdown_context().get(20)
    with pytest.raises(SupervisionError):
        worker.pid.call_one().get(5)


def test_before_anything_has_started_it_starts_nothing(program, runtime_base):
    client = program("shutdown_context().get(5)\nsay('threads', threading.active_count())")
    assert client.says("threads") == "1"
    assert list(runtime_base.iterdir()) == []


def test_threads_and_descriptors_do_not_pile_up(program):
    client = program("""
def round():
    workers(1).pid.call_one().get()
    shutdown_context().get()
    deadline = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    return threading.active_count(), len(os.listdir("/proc/self/fd"))

round()
say("first", *round())
for _ in range(4):
    last = round()
say("last", *last)
""")
    assert client.says("last", 60) == client.says("first")


def test_no_folder_is_left(program, runtime_base):
    client = program(
        "workers(1).pid.call_one().get()\nshutdown_context().get()\nsay('done')\nwait_for_ever()"
    )
    client.says("done")
    assert list(runtime_base.iterdir()) == []
