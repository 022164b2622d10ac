"""Processes that end before their time, in every way a process can end."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from monarch import config
from monarch.actor import Actor, BootstrapCommand, endpoint
from monarch.errors import ProcessDied, SupervisionError

CODE, SIGNAL = "exit_code", "signal"
ENDS = [
    pytest.param("import sys; sys.exit(7)", (CODE, 7), id="sys.exit"),
    pytest.param("import sys; sys.exit('no more')", (CODE, 1), id="sys.exit-with-text"),
    pytest.param("import os; os._exit(3)", (CODE, 3), id="os._exit"),
    pytest.param("import os; os._exit(0)", (CODE, 0), id="os._exit-0"),
    pytest.param("import os; os.kill(os.getpid(), 9)", (SIGNAL, 9), id="SIGKILL"),
    pytest.param("import os; os.kill(os.getpid(), 15)", (SIGNAL, 15), id="SIGTERM"),
    pytest.param("import ctypes; ctypes.string_at(0)", (SIGNAL, 11), id="SIGSEGV"),
    pytest.param("import os; os.abort()", (SIGNAL, 6), id="SIGABRT"),
]


class Mortal(Actor):
    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def end(self, how):
        exec(how)

    @endpoint
    async def end_on_the_loop(self, how):
        exec(how)

    @endpoint
    def hang(self):
        threading.Event().wait()

    @endpoint
    def end_other(self, other, how):
        try:
            other.end.call_one(how).get()
        except ProcessDied as error:
            return error


class StillBorn(Actor):
    def __init__(self, how):
        exec(how)

    @endpoint
    def hello(self):
        return "hello"


class OneIsStillBorn(Actor):
    def __init__(self):
        from monarch.actor import current_rank

        if current_rank().rank == 1:
            os._exit(4)

    @endpoint
    def hello(self):
        return "hello"


@pytest.fixture
def mortals(crew):
    def _mortals(count=1):
        return crew(count, name="crew").spawn("mortal", Mortal)

    return _mortals


@pytest.fixture
def survivor(mortals, failures, until):
    """Two actors, the first of which died with nobody looking."""
    both = mortals(2)
    os.kill(both.slice(procs=0).pid.call_one().get(), signal.SIGKILL)
    until(lambda: failures)
    return both


def died(future):
    with pytest.raises(ProcessDied) as caught:
        future.get(10)
    return caught.value


@pytest.mark.parametrize(("how", "fact"), ENDS)
def test_the_pending_call_says_which_process_ended_and_how(mortals, how, fact):
    actor = mortals()
    pid = actor.pid.call_one().get()
    error = died(actor.end.call_one(how))
    assert (error.exit_code, error.signal) == (
        fact[1] if fact[0] == CODE else None,
        fact[1] if fact[0] == SIGNAL else None,
    )
    assert error.pid == pid
    assert error.facts == {"mesh": "crew", "rank": 0}


def test_the_message_names_mesh_rank_pid_and_how(mortals):
    actor = mortals(2)
    pid = actor.slice(procs=1).pid.call_one().get()
    text = str(died(actor.slice(procs=1).end.call_one("os._exit(3)")))
    assert all(word in text for word in ("'crew'", "rank 1", f"pid {pid}", "code 3"))


def test_the_error_names_the_endpoint_that_was_called(mortals):
    assert died(mortals().end.call_one("os._exit(3)")).endpoint == "end"


@pytest.mark.parametrize(("how", "fact"), ENDS)
def test_a_pending_call_fails_well_within_a_second_of_the_death(mortals, how, fact):
    actor = mortals()
    actor.pid.call_one().get()
    start = time.monotonic()
    died(actor.end.call_one(how))
    assert time.monotonic() - start < 1


def test_an_async_endpoint_that_exits_ends_the_process(mortals):
    assert died(mortals().end_on_the_loop.call_one("import sys; sys.exit(7)")).exit_code == 7


def test_a_process_killed_from_outside_fails_the_call_in_progress(mortals):
    actor = mortals()
    pid, pending = actor.pid.call_one().get(), actor.hang.call_one()
    os.kill(pid, signal.SIGKILL)
    assert died(pending).signal == signal.SIGKILL


def test_all_calls_that_wait_for_the_process_fail(mortals):
    actor = mortals()
    pid, pending = actor.pid.call_one().get(), [actor.hang.call_one() for _ in range(20)]
    os.kill(pid, signal.SIGKILL)
    assert {died(future).signal for future in pending} == {signal.SIGKILL}


def test_calls_waiting_on_several_threads_fail(mortals):
    actor, seen = mortals(), []
    pid = actor.pid.call_one().get()
    threads = [threading.Thread(target=lambda: seen.append(died(actor.hang.call_one()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    os.kill(pid, signal.SIGKILL)
    for thread in threads:
        thread.join(10)
    assert [error.signal for error in seen] == [9] * 4


def test_a_call_of_another_actor_fails_there_and_that_actor_goes_on(mortals):
    both = mortals(2)
    first, second = both.slice(procs=0), both.slice(procs=1)
    error = first.end_other.call_one(second, "os._exit(3)").get(10)
    assert (error.exit_code, error.facts["rank"]) == (3, 1)
    assert first.pid.call_one().get(10) > 0


def test_a_call_made_after_the_death_fails_at_once(survivor):
    start = time.monotonic()
    assert died(survivor.slice(procs=0).pid.call_one()).signal == signal.SIGKILL
    assert time.monotonic() - start < 1


def test_every_later_call_fails_in_the_same_way(survivor):
    dead = survivor.slice(procs=0)
    assert [died(dead.pid.call_one()).pid for _ in range(5)] == [died(dead.pid.call_one()).pid] * 5


def test_a_call_to_the_whole_mesh_fails_with_the_dead_rank(survivor):
    assert died(survivor.pid.call()).facts["rank"] == 0


def test_a_stream_gives_the_answers_of_the_living_and_the_error_of_the_dead(survivor):
    outcomes = [future.exception(10) for future in survivor.pid.stream()]
    assert sorted(isinstance(outcome, ProcessDied) for outcome in outcomes) == [False, True]
    assert None in outcomes


def test_a_broadcast_to_the_whole_mesh_reaches_the_living(survivor):
    survivor.end.broadcast("self.seen = True")
    assert survivor.slice(procs=1).end.call_one("assert self.seen").get(10) is None


def test_choose_passes_over_the_dead(survivor):
    alone = survivor.slice(procs=1).pid.call_one().get()
    assert {survivor.pid.choose().get(10) for _ in range(6)} == {alone}


def test_the_other_ranks_keep_working(survivor):
    assert survivor.slice(procs=1).pid.call_one().get(10) > 0


def test_a_live_slice_takes_new_actors(crew, failures, until):
    mesh = crew(2)
    died(mesh.spawn("mortal", Mortal).slice(procs=0).end.call_one("os._exit(3)"))
    assert mesh.slice(procs=1).spawn("new", Mortal).pid.call_one().get(10) > 0


def test_actors_spawned_on_the_whole_mesh_serve_its_live_slice(crew):
    mesh = crew(2)
    died(mesh.spawn("mortal", Mortal).slice(procs=0).end.call_one("os._exit(3)"))
    new = mesh.spawn("new", Mortal)
    assert new.slice(procs=1).pid.call_one().get(10) > 0
    assert died(new.slice(procs=0).pid.call_one()).exit_code == 3


def test_a_death_nobody_waited_for_is_reported_once_with_its_facts(survivor, failures):
    survivor.slice(procs=1).pid.call_one().get()
    [failure] = failures
    assert (failure.mesh_name, failure.rank, failure.signal, failure.exit_code) == ("mortal", 0, 9, None)
    assert dict(failure.coordinates) == {"procs": 0}
    assert failure.observed is False


def test_a_death_that_a_call_raised_is_reported_as_observed(mortals, failures, until):
    died(mortals().end.call_one("os._exit(3)"))
    until(lambda: failures)
    assert [failure.observed for failure in failures] == [True]


def test_several_ranks_that_die_are_reported_one_by_one(mortals, failures, until):
    actors = mortals(3)
    for pid in actors.slice(procs=slice(0, 2)).pid.call().get().values():
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(failures) == 2)
    assert sorted(failure.rank for failure in failures) == [0, 1]
    assert actors.slice(procs=2).pid.call_one().get() > 0


# ---- ends during the start


def test_a_process_that_exits_in_a_constructor_fails_the_calls_to_its_actor(crew):
    assert died(crew().spawn("born", StillBorn, "os._exit(5)").hello.call_one()).exit_code == 5


def test_a_constructor_that_calls_sys_exit_fails_the_calls_to_its_actor(crew):
    with pytest.raises(SupervisionError):
        crew().spawn("born", StillBorn, "import sys; sys.exit(5)").hello.call_one().get(10)


def test_a_rank_that_exits_in_its_constructor_leaves_the_others_alone(crew):
    actors = crew(3).spawn("born", OneIsStillBorn)
    assert died(actors.hello.call()).facts["rank"] == 1
    assert actors.slice(procs=2).hello.call_one().get(10) == "hello"


NOT_STARTING = [
    pytest.param(BootstrapCommand("/bin/false"), (1, None), id="exits-at-once"),
    pytest.param(BootstrapCommand("/bin/true"), (0, None), id="exits-content"),
    pytest.param(BootstrapCommand("/bin/sh", args=["-c", "exit 4"]), (4, None), id="exits-with-a-code"),
    pytest.param(BootstrapCommand("/bin/sh", args=["-c", "kill -9 $$"]), (None, 9), id="is-killed"),
]


@pytest.mark.parametrize(("command", "fact"), NOT_STARTING)
def test_a_program_that_ends_before_it_is_an_actor_process_says_how(crew, command, fact):
    mesh = crew(bootstrap_command=command)
    for future in (mesh.initialized, mesh.spawn("mortal", Mortal).pid.call_one()):
        error = died(future)
        assert (error.exit_code, error.signal) == fact


def test_a_program_that_does_not_exist_is_named(crew):
    mesh = crew(bootstrap_command=BootstrapCommand("/no/such/python"))
    for future in (mesh.initialized, mesh.spawn("mortal", Mortal).pid.call_one()):
        with pytest.raises(SupervisionError, match="/no/such/python.*No such file"):
            future.get(10)


def test_a_program_that_may_not_be_run_is_named(crew, tmp_path):
    file = tmp_path / "not-executable"
    file.write_text("")
    with pytest.raises(SupervisionError, match="not-executable.*Permission denied"):
        crew(bootstrap_command=BootstrapCommand(str(file))).initialized.get(10)


def test_a_process_that_never_started_is_not_said_to_have_exited(crew):
    error = died(crew(bootstrap_command=BootstrapCommand("/no/such/python")).initialized)
    assert (error.exit_code, error.signal, error.pid) == (None, None, None)


def test_the_other_ranks_start_when_one_cannot(crew):
    broken = BootstrapCommand("/no/such/python")
    mesh = crew(2, bootstrap_command=lambda point: broken if point["procs"] == 0 else None)
    assert mesh.spawn("mortal", Mortal).slice(procs=1).pid.call_one().get(20) > 0


def test_a_program_that_never_becomes_an_actor_process_is_given_up(crew):
    with config.configured(proc_start_timeout=0.5, process_exit_timeout=0.5):
        mesh = crew(bootstrap_command=BootstrapCommand("/bin/sleep", args=["600"]))
        with pytest.raises(SupervisionError, match="proc_start_timeout"):
            mesh.initialized.get(10)


# ---- grandchildren

CHILD = "import subprocess; self.child = subprocess.Popen(['/bin/sleep', '600'])"


class Parent(Mortal):
    @endpoint
    def child_pid(self):
        return self.child.pid


@pytest.mark.parametrize(("how", "fact"), ENDS)
def test_what_an_actor_started_ends_with_its_process(crew, alive, until, how, fact):
    actor = crew().spawn("parent", Parent)
    actor.end.call_one(CHILD).get()
    child = actor.child_pid.call_one().get()
    died(actor.end.call_one(how))
    until(lambda: not alive(child), 2)


# ---- programs with the fault hook that they have by default


def test_a_program_that_catches_the_error_goes_on_and_ends_well(program):
    client = program("""
actors = workers(2)
for _ in range(3):
    try:
        actors.slice(procs=0).run.call_one("os._exit(3)").get()
    except ProcessDied as error:
        say("caught", error.exit_code)
say("alive", actors.slice(procs=1).echo.call_one("yes").get())
""")
    assert client.says("alive") == "yes"
    assert client.finish() == 0
    assert client.output.count("caught 3") == 3


def test_catching_is_enough_however_often_processes_die(program):
    client = program("""
for number in range(12):
    try:
        workers(1).run.call_one("import os; os.kill(os.getpid(), 9)").get()
    except SupervisionError:
        say("caught")
""")
    assert client.finish(60) == 0
    assert client.output.count("caught") == 12


def test_a_death_that_nobody_observes_ends_the_program(program):
    client = program("""
pids = workers(2).pid.call().get()
os.kill(pids.item(procs=1), signal.SIGKILL)
wait_for_ever()
""")
    assert client.finish() == 1
    assert all(word in client.errors for word in ("'worker'", "'crew'", "[1]", "signal 9"))


def test_a_program_ended_by_a_failure_runs_its_exit_functions_once(program):
    client = program("""
import atexit
atexit.register(say, "goodbye")
workers(1).run.broadcast("raise ValueError('on purpose')")
wait_for_ever()
""")
    assert client.finish() == 1
    assert client.output.count("goodbye") == 1


def test_several_ranks_that_fail_do_not_cut_each_other_short(program):
    client = program("""
import atexit
def slow():
    time.sleep(0.3)
    say("goodbye")
atexit.register(slow)
workers(4).run.broadcast("raise ValueError('on purpose')")
wait_for_ever()
""")
    assert client.finish() == 1
    assert client.output.count("goodbye") == 1
    assert client.errors.count("the program ends") == 1
    assert client.errors.count("Traceback") == 1


def test_an_interactive_session_is_told_and_goes_on(program):
    client = program("""
sys.ps1 = "> "
import monarch.actor
told, hook = threading.Event(), monarch.actor.unhandled_fault_hook
monarch.actor.unhandled_fault_hook = lambda failure: (hook(failure), told.set())
actors = workers(2)
actors.slice(procs=0).run.broadcast("raise ValueError('on purpose')")
told.wait()
say("alive", actors.slice(procs=1).echo.call_one("yes").get())
""")
    assert client.says("alive") == "yes"
    assert client.finish() == 0
    assert "monarch: unhandled failure:" in client.errors


def test_a_program_that_catches_what_a_constructor_raised_goes_on(program):
    client = program("""
class Stillborn(Worker):
    def __init__(self):
        raise ValueError("never born")

stillborn = crew(2).spawn("stillborn", Stillborn)
for _ in range(3):
    try:
        stillborn.pid.call().get()
    except ActorDied:
        say("caught")
""")
    assert client.finish() == 0
    assert client.output.count("caught") == 3


def test_an_actor_that_gives_itself_up_ends_the_program_though_its_call_returned(program):
    client = program("""
workers(1).run.call_one("from monarch.actor import context; context().actor_instance.abort('worn out')").get()
wait_for_ever()
""")
    assert client.finish() == 1
    assert "worn out" in client.errors


def test_a_program_ended_by_a_failure_shows_the_traceback_of_the_actor(program):
    client = program("""
workers(1).run.broadcast("raise ValueError('on purpose')")
wait_for_ever()
""")
    client.finish()
    assert "in run" in client.errors
    assert client.errors.count("Traceback") == 1


def test_a_program_ended_by_a_failure_leaves_no_process(program, until):
    client = program("""
pids = workers(3).pid.call().get()
os.kill(pids.item(procs=1), signal.SIGKILL)
wait_for_ever()
""")
    client.finish()
    until(lambda: not client.processes(), 2)


def test_an_actor_that_cannot_start_its_process_ends_a_program_that_does_not_look(program):
    client = program("""
this_host().spawn_procs(bootstrap_command=BootstrapCommand("/no/such/python"))
wait_for_ever()
""")
    assert client.finish() == 1
    assert "/no/such/python" in client.errors
