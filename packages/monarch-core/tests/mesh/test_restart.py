"""Restart policies: what failed comes back in place, and references to it keep working."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial

import pytest

from monarch import config
from monarch._mesh import host_agent
from monarch._runtime import here
from monarch.actor import (
    Actor,
    BootstrapCommand,
    Channel,
    Restart,
    concurrent_endpoint,
    current_rank,
    endpoint,
    status,
    this_host,
)
from monarch.errors import ActorDied, MeshClosed, ProcessDied, SupervisionError, TransportError, WrongArgument
from monarch.wire.codec import RESTART, Envelope

AT_ONCE = Restart("rank", backoff=0)
ALL_AT_ONCE = Restart("mesh", backoff=0)


class Counter(Actor):
    """Counts, so that one that was created again can be told: it counts from the start."""

    def __init__(self, start=0, log=None):
        self.count = start
        self.log = log
        if log is not None:
            self.note("born")

    def note(self, word):
        with open(self.log, "a") as file:
            file.write(f"{word} {current_rank().rank}\n")

    @endpoint
    def add(self):
        self.count += 1
        return self.count

    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def fail(self):
        raise LookupError("on purpose")

    @endpoint
    def interrupt(self):
        raise KeyboardInterrupt("on purpose")

    @endpoint
    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    @concurrent_endpoint
    async def wait(self):
        import asyncio

        await asyncio.sleep(60)

    def __cleanup__(self, error):
        if self.log is not None:
            self.note("cleaned")


class LoopCounter(Actor):
    def __init__(self, start=0):
        self.count = start

    @endpoint
    async def add(self):
        self.count += 1
        return self.count

    @endpoint
    async def fail(self):
        raise LookupError("on purpose")


class Watcher(Actor):
    """Owns counters that restart, and calls counters of others."""

    def __init__(self, restart):
        self.told = []
        self.counters = this_host().spawn_procs({"procs": 2}, restart=restart).spawn("counter", Counter)

    def __supervise__(self, failure):
        self.told.append((failure.mesh_name, failure.rank, failure.restarting))

    @endpoint
    def kill(self, rank):
        os.kill(self.counters.slice(procs=rank).pid.call_one().get(20), signal.SIGKILL)

    @endpoint
    def heard(self):
        return self.told

    @endpoint
    def mesh(self):
        return self.counters

    @endpoint
    def add(self, counters):
        return counters.add.call_one().get(20)


def replaced(until, pid, actor):
    """Wait until another process answers in place of `pid`."""

    def ask():
        try:
            return actor.pid.call_one().get(20) != pid
        except ProcessDied:
            return False

    until(ask)


def kill(until, actor):
    """Kill the process of an actor and wait for the one that takes its place."""
    pid = actor.pid.call_one().get(20)
    os.kill(pid, signal.SIGKILL)
    replaced(until, pid, actor)


# ---- actors


@pytest.mark.parametrize("cls", [Counter, LoopCounter])
def test_an_actor_that_failed_is_created_again_with_its_arguments(crew, cls):
    counter = crew().spawn("counter", cls, 10, restart=AT_ONCE)
    assert counter.add.call_one().get(20) == 11
    counter.fail.broadcast()
    assert counter.add.call_one().get(20) == 11


def test_messages_sent_meanwhile_wait_for_the_new_actor(crew):
    counter = crew().spawn("counter", Counter, restart=Restart("rank", backoff=0.2))
    counter.fail.broadcast()
    futures = [counter.add.call_one() for _ in range(3)]
    assert [future.get(20) for future in futures] == [1, 2, 3]


def test_a_failure_that_is_mended_does_not_reach_the_root(crew, failures, caplog, until):
    counter = crew().spawn("counter", Counter, restart=AT_ONCE)
    counter.fail.broadcast()
    assert counter.add.call_one().get(20) == 1
    until(lambda: "failed and is restarted" in caplog.text)
    assert caplog.text.count("on purpose") == 1
    assert failures == []


def test_the_caller_of_what_failed_hears_that_it_is_restarted(crew):
    counter = crew().spawn("counter", Counter, restart=AT_ONCE)
    with pytest.raises(ActorDied, match="failed and is restarted: interrupt"):
        counter.interrupt.call_one().get(20)
    assert counter.add.call_one().get(20) == 1


def test_the_actor_cleans_up_before_it_is_created_again(crew, tmp_path):
    counter = crew().spawn("counter", Counter, 0, str(tmp_path / "log"), restart=AT_ONCE)
    counter.fail.broadcast()
    counter.add.call_one().get(20)
    assert (tmp_path / "log").read_text().split("\n")[:3] == ["born 0", "cleaned 0", "born 0"]


def test_concurrent_endpoints_in_progress_are_cancelled(crew):
    counter = crew().spawn("counter", Counter, restart=AT_ONCE)
    waiting = counter.wait.call_one()
    counter.add.call_one().get(20)
    counter.fail.broadcast()
    with pytest.raises(Exception, match="cancelled"):
        waiting.get(20)


def test_the_other_ranks_go_on(crew):
    counters = crew(2).spawn("counter", Counter, restart=AT_ONCE)
    counters.add.call().get(20)
    counters.slice(procs=1).fail.broadcast()
    assert list(counters.add.call().get(20).values()) == [2, 1]


def test_with_its_mesh_every_rank_is_created_again(crew, until):
    counters = crew(3).spawn("counter", Counter, restart=ALL_AT_ONCE)
    counters.add.call().get(20)
    counters.slice(procs=1).fail.broadcast()
    counters.slice(procs=1).add.call_one().get(20)
    until(lambda: list(counters.slice(procs=slice(0, 3, 2)).add.call().get(20).values()) != [2, 2])


def test_one_failure_of_a_mesh_is_one_restart_of_each_rank(crew, tmp_path, until):
    log = tmp_path / "log"
    counters = crew(3).spawn("counter", Counter, 0, str(log), restart=ALL_AT_ONCE)
    counters.add.call().get(20)
    counters.slice(procs=1).fail.broadcast()
    until(lambda: log.read_text().count("born") == 6)
    counters.add.call().get(20)
    assert log.read_text().count("born") == 6


def test_a_rank_that_hears_of_a_failure_before_it_has_begun_begins_once(crew, tmp_path):
    class Busy(Actor):
        @endpoint
        async def hold_the_loop(self):
            while not (tmp_path / "go").exists():
                pass

    class Noted(LoopCounter):
        def __init__(self):
            super().__init__()
            with (tmp_path / "log").open("a") as file:
                file.write("born\n")

    procs = crew()
    procs.spawn("busy", Busy).hold_the_loop.broadcast()
    noted = procs.spawn("noted", Noted, restart=ALL_AT_ONCE)
    target = noted._target
    news = Envelope(kind=RESTART, actor=target.uid, rank=1, sequence=1)
    here.get().peer(target.processes[0]).post(news)
    assert status(noted).get(20).item(procs=0).state == "starting"  # and the news has arrived
    (tmp_path / "go").touch()
    assert noted.add.call_one().get(20) == 1
    assert (tmp_path / "log").read_text() == "born\n"


def test_too_many_failures_are_final(crew, failures, until):
    counter = crew().spawn("counter", Counter, restart=Restart("rank", limit=2, backoff=0))
    for _ in range(3):
        counter.fail.broadcast()
    [failure] = until(lambda: failures)
    assert not failure.restarting
    with pytest.raises(ActorDied, match="on purpose"):
        counter.add.call_one().get(20)


def test_a_constructor_that_keeps_raising_is_final(crew, failures, until, tmp_path):
    class StillBorn(Actor):
        def __init__(self):
            with (tmp_path / "log").open("a") as file:
                file.write("x")
            raise LookupError("still born")

        @endpoint
        def hello(self):
            pass

    actor = crew().spawn("still", StillBorn, restart=Restart("rank", limit=3, backoff=0))
    with pytest.raises(ActorDied, match="still born"):
        actor.hello.call_one().get(20)
    until(lambda: failures)
    assert (tmp_path / "log").read_text() == "xxxx"


def test_the_back_off_is_visible_in_the_status(crew, until):
    counter = crew().spawn("counter", Counter, restart=Restart("rank", backoff=30, longest_backoff=30))
    counter.fail.broadcast()
    until(lambda: status(counter).get(20).item(procs=0).state == "restarting")


def test_an_actor_in_its_back_off_can_be_stopped(crew, until):
    counter = crew().spawn("counter", Counter, restart=Restart("rank", backoff=60, longest_backoff=60))
    counter.fail.broadcast()
    until(lambda: status(counter).get(20).item(procs=0).state == "restarting")
    waiting = counter.add.call_one()
    counter.stop().get(20)
    with pytest.raises(MeshClosed, match="stopped before its restart"):
        waiting.get(20)


def test_a_process_ends_without_waiting_for_the_back_offs_of_its_actors(crew, until, tmp_path):
    procs = crew()
    log = tmp_path / "log"
    patient = Restart("rank", backoff=60, longest_backoff=60)
    counter = procs.spawn("counter", Counter, 0, str(log), restart=patient)
    counter.fail.broadcast()
    until(lambda: status(counter).get(20).item(procs=0).state == "restarting")
    with config.configured(process_exit_timeout=0.5):  # killed then, before the end of the older actor
        procs.stop().get(20)
    assert log.read_text().split("\n")[:-1] == ["born 0", "cleaned 0"]


def test_a_task_that_refuses_to_be_cancelled_does_not_hold_up_a_restart(crew):
    class Stubborn(Counter):
        @concurrent_endpoint
        async def wait(self):
            import asyncio

            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass

    with config.configured(cleanup_timeout=0.1):
        stubborn = crew().spawn("stubborn", Stubborn, restart=AT_ONCE)
    stubborn.wait.broadcast()
    stubborn.add.call_one().get(20)
    stubborn.fail.broadcast()
    assert stubborn.add.call_one().get(20) == 1


def test_ranks_that_fail_together_restart_once(crew, failures, until, tmp_path):
    class Together(Counter):
        @endpoint
        def fail_together(self, folder, size):
            (folder / str(current_rank().rank)).touch()
            while len(list(folder.iterdir())) < size:
                pass
            raise LookupError("on purpose")

    log, folder = tmp_path / "log", tmp_path / "met"
    folder.mkdir()
    once = Restart("mesh", limit=1, backoff=0)
    counters = crew(3).spawn("counter", Together, 0, str(log), restart=once)
    counters.add.call().get(20)
    counters.fail_together.broadcast(folder, 3)
    until(lambda: log.read_text().count("born") == 6)
    counters.add.call().get(20)
    counters.add.call().get(20)
    assert (log.read_text().count("born"), failures) == (6, [])


def test_a_constructor_with_a_parameter_of_that_name_gets_it(crew):
    class Own(Actor):
        def __init__(self, restart):
            self.restart = restart

        @endpoint
        def given(self):
            return self.restart

    assert crew().spawn("own", Own, restart="mine").given.call_one().get(20) == "mine"


# ---- processes


def test_a_process_that_died_comes_back_with_its_actors(crew, until):
    counters = crew(2, restart=AT_ONCE).spawn("counter", Counter, 10)
    counters.add.call().get(20)
    kill(until, counters.slice(procs=1))
    assert list(counters.add.call().get(20).values()) == [12, 11]


def test_it_comes_back_again_and_again(crew, until):
    counter = crew(restart=AT_ONCE).spawn("counter", Counter)
    for _ in range(3):
        kill(until, counter)
        assert counter.add.call_one().get(20) == 1


def test_the_pending_call_hears_how_it_ended_and_that_it_is_restarted(crew):
    counter = crew(restart=AT_ONCE).spawn("counter", Counter)
    with pytest.raises(ProcessDied, match=r"killed by signal 9 \(SIGKILL\) and is restarted") as caught:
        counter.die.call_one().get(20)
    assert (caught.value.restarting, caught.value.signal) == (True, 9)


def test_calls_made_during_the_back_off_wait_for_the_new_process(crew):
    counter = crew(restart=Restart("rank", backoff=0.3)).spawn("counter", Counter)
    with pytest.raises(ProcessDied):
        counter.die.call_one().get(20)
    assert counter.add.call_one().get(20) == 1


def test_all_actors_of_the_process_come_back(crew, until):
    procs = crew(restart=AT_ONCE)
    first, second = procs.spawn("first", Counter, 1), procs.spawn("second", LoopCounter, 2)
    kill(until, first)
    assert (first.add.call_one().get(20), second.add.call_one().get(20)) == (2, 3)


def test_large_arguments_are_kept_as_they_were(crew, until):
    class Holder(Counter):
        def __init__(self, data):
            super().__init__(data[-1])

    data = bytearray(1 << 20)
    holder = crew(restart=AT_ONCE).spawn("holder", Holder, data)
    holder.add.call_one().get(20)
    data[-1] = 100
    kill(until, holder)
    assert holder.add.call_one().get(20) == 1


def test_references_of_other_actors_keep_working(crew, until):
    counter = crew(restart=AT_ONCE).spawn("counter", Counter)
    other = crew().spawn("watcher", Watcher, "never")
    for _ in range(3):
        other.add.call_one(counter).get(20)
    kill(until, counter)
    until(lambda: other.add.call_one(counter).get(20) == 2)


def test_what_the_new_process_sends_is_taken_by_old_receivers(crew, until):
    counter = crew().spawn("counter", Counter)
    caller = crew(restart=AT_ONCE).spawn("caller", Caller, counter)
    assert [caller.add.call_one().get(20) for _ in range(3)] == [1, 2, 3]
    kill(until, caller)
    assert [caller.add.call_one().get(20) for _ in range(3)] == [4, 5, 6]


class Caller(Actor):
    def __init__(self, counter):
        self.counter = counter

    @endpoint
    def add(self):
        return self.counter.add.call_one().get(20)

    @endpoint
    def pid(self):
        return os.getpid()


def test_what_was_meant_for_a_port_of_the_old_process_does_not_reach_the_new_one(crew, until):
    listener = crew(restart=AT_ONCE).spawn("listener", Listener)
    old = listener.own_port.call_one().get(20)
    kill(until, listener)
    new = listener.own_port.call_one().get(20)
    old.send("old")
    new.send("new")
    assert listener.hear.call_one().get(20) == "new"


class Listener(Counter):
    def __init__(self):
        super().__init__()
        self.port, self.receiver = Channel.open()

    @endpoint
    def own_port(self):
        return self.port

    @endpoint
    def hear(self):
        return self.receiver.recv().get(20)


def test_with_its_mesh_every_process_is_started_again(crew, until):
    counters = crew(2, restart=ALL_AT_ONCE).spawn("counter", Counter)
    pids = list(counters.pid.call().get(20).values())
    os.kill(pids[0], signal.SIGKILL)
    for rank, pid in enumerate(pids):
        replaced(until, pid, counters.slice(procs=rank))


def test_calls_that_meet_the_end_of_a_healthy_rank_hear_that_it_comes_back(crew, until, tmp_path):
    class Slow(Counter):
        def __cleanup__(self, error):
            (tmp_path / "cleaning").touch()
            while not (tmp_path / "sent").exists():
                pass

    slow = crew(2, restart=ALL_AT_ONCE).spawn("slow", Slow)
    pids = list(slow.pid.call().get(20).values())
    os.kill(pids[0], signal.SIGKILL)
    until((tmp_path / "cleaning").exists)
    call = slow.slice(procs=1).add.call_one()
    status(slow.slice(procs=1)).get(20)  # the same connection: the call has arrived
    (tmp_path / "sent").touch()
    with pytest.raises(ProcessDied) as caught:
        call.get(20)
    assert caught.value.restarting


def test_a_set_up_that_fails_in_the_new_process_counts_as_its_end(crew, failures, until, tmp_path):
    def set_up():
        if (tmp_path / "broken").exists():
            raise LookupError("no more")

    counter = crew(bootstrap=set_up, restart=Restart("rank", limit=2, backoff=0)).spawn("counter", Counter)
    counter.add.call_one().get(20)
    (tmp_path / "broken").touch()
    with pytest.raises(ProcessDied):
        counter.die.call_one().get(20)
    [failure] = until(lambda: failures)
    assert "no more" in failure.stderr


def test_a_process_that_says_nothing_in_time_is_started_again_up_to_the_limit(crew, failures, caplog, until):
    silent = BootstrapCommand(program="/bin/sleep", args=("60",))
    with config.configured(proc_start_timeout=0.2):
        crew(bootstrap_command=silent, restart=Restart("rank", limit=1, backoff=0))
        [failure] = until(lambda: failures)
    assert "proc_start_timeout" in failure.cause
    assert caplog.text.count("failed and is restarted") == 1


def test_a_process_whose_address_cannot_be_bound_again_is_lost_for_good(crew, failures, monkeypatch):
    def refuse(address):
        raise TransportError("no more descriptors")

    counter = crew(restart=AT_ONCE).spawn("counter", Counter)
    counter.add.call_one().get(20)
    monkeypatch.setattr(host_agent, "_listen", refuse)
    with pytest.raises(ProcessDied, match="cannot be restarted: no more descriptors") as caught:
        counter.die.call_one().get(20)
    assert not caught.value.restarting


def test_an_owner_that_comes_back_owns_what_it_spawns_then(crew, until):
    owner = crew(restart=AT_ONCE).spawn("watcher", Landlord, crew())
    for _ in range(3):
        before = owner.tenant.call_one().get(20)
        before.add.call_one().get(20)
        kill(until, owner)
        assert owner.tenant.call_one().get(20).add.call_one().get(20) == 1
        until(partial(has_ended, before))


class Landlord(Counter):
    """Owns a counter on processes of somebody else."""

    def __init__(self, others):
        super().__init__()
        self.counter = others.spawn("tenant", Counter)

    @endpoint
    def tenant(self):
        return self.counter


def has_ended(mesh):
    try:
        mesh.add.call_one().get(20)
    except SupervisionError:
        return True
    return False


def test_the_owner_is_told_once_of_each_death(crew, until):
    watcher = crew().spawn("watcher", Watcher, AT_ONCE)
    watcher.kill.call_one(1).get(20)
    until(lambda: watcher.heard.call_one().get(20))
    counters = watcher.mesh.call_one().get(20)
    assert until(lambda: counters.slice(procs=1).add.call_one().get(20)) == 1
    assert watcher.heard.call_one().get(20) == [("counter", 1, True)]


def test_too_many_deaths_are_final_and_told_once_as_such(crew, failures, until):
    counter = crew(restart=Restart("rank", limit=1, backoff=0)).spawn("counter", Counter)
    kill(until, counter)
    with pytest.raises(ProcessDied, match="signal 9") as caught:
        counter.die.call_one().get(20)
    assert not caught.value.restarting
    until(lambda: failures)
    with pytest.raises(ProcessDied):
        counter.add.call_one().get(20)
    assert [(each.mesh_name, each.restarting) for each in failures] == [("counter", False)]


def test_processes_without_actors_come_back_too(crew, until):
    procs = crew(restart=AT_ONCE)
    counter = procs.spawn("counter", Counter)
    pid = counter.pid.call_one().get(20)
    counter.stop().get(20)
    os.kill(pid, signal.SIGKILL)
    replaced(until, pid, procs.spawn("again", Counter))


def test_a_stopped_mesh_does_not_come_back(crew, alive, until):
    procs = crew(restart=AT_ONCE)
    pid = procs.spawn("counter", Counter).pid.call_one().get(20)
    procs.stop().get(20)
    until(lambda: not alive(pid))
    with pytest.raises(SupervisionError):
        procs.spawn("again", Counter)


def test_a_process_that_waits_to_be_started_again_can_be_stopped(crew, until, failures):
    procs = crew(restart=Restart("rank", backoff=60, longest_backoff=60))
    counter = procs.spawn("counter", Counter)
    with pytest.raises(ProcessDied):
        counter.die.call_one().get(20)
    procs.stop().get(20)
    with pytest.raises(SupervisionError, match="stopped"):
        counter.add.call_one().get(20)


def test_many_threads_that_call_during_a_restart_all_get_an_outcome(crew):
    counter = crew(restart=AT_ONCE).spawn("counter", Counter)
    counter.add.call_one().get(20)
    outcomes, end = [], threading.Event()

    def call():
        while not end.is_set():
            try:
                outcomes.append(counter.add.call_one().get(20))
            except ProcessDied as error:
                outcomes.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        try:
            counter.die.call_one().get(20)
        except ProcessDied:
            pass
    end.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert counter.add.call_one().get(20) > 0


@pytest.mark.parametrize(
    "given",
    ["always", 3, None, pytest.param({"scope": "rank"}, id="dict")],
)
def test_what_is_no_policy_is_refused_with_those_there_are(crew, given):
    with pytest.raises(WrongArgument, match="'never', 'rank', 'mesh'"):
        crew(restart=given)
    with pytest.raises(WrongArgument, match="'never', 'rank', 'mesh'"):
        crew().spawn("counter", Counter, restart=given)
