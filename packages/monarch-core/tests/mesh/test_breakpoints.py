"""Actors that stop at `breakpoint()`, and what `monarch debug` does with them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pdb
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from monarch.actor import Actor, ActorError, concurrent_endpoint, current_rank, endpoint, status
from monarch.cli import main
from monarch.errors import MeshClosed


def helper(value):
    inner = value + 1
    breakpoint()
    return inner


class Walker(Actor):
    def __init__(self, where=""):
        if where == "constructor":
            breakpoint()
        self.where = where

    @endpoint
    def walk(self, ranks=(0, 1, 2)):
        rank = current_rank().rank
        here = rank * 10
        if rank in ranks:
            breakpoint()
        here += 1
        return here

    @endpoint
    def twice(self):
        breakpoint()
        breakpoint(header="again")
        return "done"

    @endpoint
    def by_habit(self):
        pdb.set_trace(header="look here")
        return "done"

    @endpoint
    def fail(self):
        breakpoint()
        raise ValueError("on purpose")

    @endpoint
    def in_thread(self):
        found = []
        thread = threading.Thread(target=lambda: found.append(helper(1)))
        thread.start()
        thread.join()
        return found[0]

    @endpoint
    def disabled(self):
        os.environ["PYTHONBREAKPOINT"] = "0"
        breakpoint()
        del os.environ["PYTHONBREAKPOINT"]
        return "done"


class AsyncWalker(Actor):
    @endpoint
    async def walk(self):
        value = 1
        breakpoint()
        await asyncio.sleep(0.01)
        value += 1
        return value


class Lingering(Actor):
    def __init__(self, gate):
        self.gate = gate

    def __cleanup__(self, error):
        while not self.gate.exists():
            time.sleep(0.01)


class Meeting(Actor):
    def __init__(self):
        self.event = asyncio.Event()

    @concurrent_endpoint
    async def wait(self):
        breakpoint()
        await self.event.wait()
        return "first"

    @concurrent_endpoint
    async def go(self):
        breakpoint()
        self.event.set()
        return "second"


class Done:
    """What a command printed, and its exit code."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def debug(capsys, monkeypatch):
    """Run `monarch debug` on the program of the tests, with lines typed into a pipe."""

    def _debug(command, *words, typed=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
        capsys.readouterr()
        code = main(["debug", command, "--client", str(os.getpid()), *words])
        return Done(code, *capsys.readouterr())

    return _debug


@pytest.fixture
def waiting(debug, until):
    """Wait until so many sessions wait, and return them in the order of their ranks."""

    def _waiting(count):
        def found():
            sessions = debug("list", "--json").json["sessions"]
            return len([each for each in sessions if each["state"] == "waiting"]) == count and [sessions]

        return until(found)[0]

    return _waiting


@pytest.fixture
def walkers(procs):
    mesh = procs.spawn("walker", Walker)
    yield mesh
    mesh.stop().get(30)


def line_of(text):
    """Return the number of the line of this file that says `text`."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def test_a_session_says_who_waits_and_where(walkers, waiting, debug):
    pending = walkers.walk.call(ranks=[2])
    [found] = waiting(1)
    assert (found["actor"], found["rank"], found["coordinates"]) == ("walker", 2, {"gpus": 2})
    assert (found["class_name"], found["endpoint"], found["function"]) == ("Walker", "walk", "walk")
    assert (found["file"], found["source"]) == (__file__, "breakpoint()")
    lines = Path(__file__).read_text().splitlines()
    assert lines[found["line"] - 2].strip() == "if rank in ranks:"
    assert [lines[number - 1] for number, _ in found["around"]] == [text for _, text in found["around"]]
    assert debug("attach", found["id"], typed=["continue"]).code == 0
    assert list(pending.get(20).values()) == [1, 11, 21]


def test_people_get_a_table_with_the_source(walkers, waiting, debug):
    pending = walkers.walk.call()
    waiting(3)
    lines = debug("list").out.splitlines()
    assert lines[0].split() == ["ID", "ACTOR", "RANK", "STATE", "FOR", "CLIENT", "AT"]
    assert lines[3].split()[1:5] == ["walker", "1", "(gpus=1)", "waiting"]
    assert lines[4].split(maxsplit=1)[1] == "breakpoint()"
    assert debug("continue").code == 0
    pending.get(20)


def test_a_session_is_chosen_by_actor_and_rank(walkers, waiting, debug):
    pending = walkers.walk.call()
    waiting(3)
    assert "\n10\n" in debug("attach", "walker", "1", typed=["p here", "c"]).out
    assert [each["rank"] for each in waiting(2)] == [0, 2]
    refused = debug("attach", "walker", typed=["c"])
    assert (refused.code, "2 breakpoints wait" in refused.err) == (1, True)
    debug("continue")
    pending.get(20)


def test_who_detaches_finds_it_again_as_he_left_it(walkers, waiting, debug):
    pending = walkers.walk.call(ranks=[1])
    waiting(1)
    first = debug("attach", typed=["here = 70", "next"])
    assert "detached" in first.err
    [found] = waiting(1)
    assert found["source"] == "here += 1"
    again = debug("attach", typed=["p here", "detach"])
    assert "-> here += 1\n70\n" in again.out
    assert debug("attach", typed=["c"]).code == 0
    assert pending.get(20).item(gpus=1) == 71


def test_the_commands_of_pdb_walk_through_the_frames_of_the_actor(walkers, waiting, debug):
    pending = walkers.slice(gpus=0).in_thread.call_one()
    waiting(1)
    out = debug("attach", typed=["where", "up", "p found", "down", "p inner", "step", "return", "c"]).out
    assert "threading.py" not in out
    assert "\n[]\n" in out
    assert "\n2\n" in out
    assert "--Return--" in out
    assert pending.get(20) == 2


def test_an_interactive_interpreter_has_the_names_of_the_frame(walkers, waiting, debug):
    pending = walkers.walk.call(ranks=[1])
    waiting(1)
    out = debug("attach", typed=["interact", "print(here + 5)", "exit()", "p here", "c"]).out
    assert "15" in out
    assert "10\n" in out.partition("15")[2]
    pending.get(20)


def test_a_breakpoint_set_by_hand_stops_once_more(walkers, waiting, debug):
    pending = walkers.walk.call(ranks=[1])
    waiting(1)
    line = line_of("return here")
    out = debug("attach", typed=[f"break {line}", "c", "p here", "c"]).out
    assert f"({line})walk()\n-> return here\n11\n" in out
    assert waiting(0) == []
    assert pending.get(20).item(gpus=1) == 11
    again = walkers.walk.call(ranks=[])
    assert again.get(20).item(gpus=1) == 11


def test_quit_forgets_breakpoints_and_the_actor_lives_on(walkers, waiting, debug):
    pending = walkers.walk.call(ranks=[1])
    waiting(1)
    assert debug("attach", typed=[f"break {line_of('return here')}", "q"]).code == 0
    assert pending.get(20).item(gpus=1) == 11


def test_the_next_breakpoint_waits_anew(walkers, waiting, debug):
    pending = walkers.slice(gpus=0).twice.call_one()
    [first] = waiting(1)
    debug("attach", typed=["c"])
    [second] = waiting(1)
    assert (second["id"] == first["id"], second["line"]) == (False, first["line"] + 1)
    debug("attach", typed=["c"])
    assert pending.get(20) == "done"


def test_stepping_over_the_next_breakpoint_stays_in_the_session(walkers, waiting, debug):
    pending = walkers.slice(gpus=0).twice.call_one()
    waiting(1)
    out = debug("attach", typed=["step", "step", "p 'still here'", "c"]).out
    assert "again\n> " in out
    assert "--Call--" not in out
    assert out.count("still here") == 1
    assert pending.get(20) == "done"


def test_pdb_set_trace_does_the_same(walkers, waiting, debug):
    pending = walkers.slice(gpus=0).by_habit.call_one()
    assert waiting(1)[0]["source"] == 'pdb.set_trace(header="look here")'
    assert debug("attach", typed=["c"]).out.startswith("look here\n> ")
    assert pending.get(20) == "done"


def test_an_exception_stops_who_walks_through_it(walkers, waiting, debug):
    pending = walkers.slice(gpus=0).fail.call_one()
    waiting(1)
    assert "ValueError: on purpose\n" in debug("attach", typed=["n", "n", "w", "c"]).out
    assert isinstance(pending.exception(20), ActorError)


def test_a_constructor_can_be_debugged(procs, waiting, debug):
    mesh = procs.slice(gpus=0).spawn("walker", Walker, "constructor")
    [found] = waiting(1)
    assert found["endpoint"] == "__init__"
    debug("attach", typed=["where = 'elsewhere'", "c"])
    assert mesh.walk.call_one(ranks=[]).get(20) == 1
    mesh.stop().get(30)


def test_an_asynchronous_endpoint_is_followed_over_its_awaits(procs, waiting, debug):
    mesh = procs.slice(gpus=0).spawn("walker", AsyncWalker)
    pending = mesh.walk.call_one()
    waiting(1)
    out = debug("attach", typed=["n", "n", "n", "p value", "n", "n"]).out
    assert "-> return value\n2\n" in out
    assert pending.get(20) == 2
    assert waiting(0) == []
    mesh.stop().get(30)


def test_two_coroutines_of_a_loop_share_a_session(procs, waiting, debug):
    mesh = procs.slice(gpus=0).spawn("meeting", Meeting)
    first = mesh.wait.call_one()
    waiting(1)
    second = mesh.go.call_one()
    # The first is left at its await; the loop runs on to the breakpoint of the second.
    assert "-> self.event.set()" in debug("attach", typed=["n", "n", "n", "c"]).out
    assert (second.get(20), first.get(20)) == ("second", "first")
    third = mesh.go.call_one()
    waiting(1)
    debug("attach", typed=["n", "n", "c"])
    assert third.get(20) == "second"
    mesh.stop().get(30)


def test_the_variable_of_python_turns_breakpoints_off(walkers):
    assert walkers.slice(gpus=0).disabled.call_one().get(20) == "done"


def test_the_client_keeps_the_hook_of_python(walkers):
    assert sys.breakpointhook is sys.__breakpointhook__


def test_other_actors_of_the_process_work_on(procs, walkers, waiting, debug):
    other = procs.spawn("other", Walker)
    pending = walkers.walk.call()
    waiting(3)
    assert list(other.walk.call(ranks=[]).get(20).values()) == [1, 11, 21]
    debug("continue")
    pending.get(20)
    other.stop().get(30)


def test_much_output_arrives_whole(walkers, waiting, debug):
    pending = walkers.walk.call(ranks=[1])
    waiting(1)
    assert "x" * 3_000_000 in debug("attach", typed=["print('x' * 3_000_000)", "c"]).out
    pending.get(20)


def test_a_command_is_cast_to_some_ranks(walkers, waiting, debug):
    pending = walkers.walk.call()
    waiting(3)
    answers = debug("cast", "--json", "walker", "ranks(0,gpus=0:2)", "p", "here").json["answers"]
    assert [(each["rank"], each["output"], each["state"]) for each in answers] == [(0, "0\n", "waiting")]
    answers = debug("cast", "--json", "walker", "1:", "p", "here").json["answers"]
    assert [each["output"] for each in answers] == ["10\n", "20\n"]
    assert "[walker 1] continued" in debug("cast", "walker", "all", "c").out
    assert list(pending.get(20).values()) == [1, 11, 21]


def test_what_is_not_there_is_refused_with_a_stable_code(debug):
    done = debug("cast", "--json", "nobody", "all", "c")
    assert (done.code, done.json["error"]["code"]) == (1, "NoSuchSession")
    assert "nobody" in done.err
    assert (debug("attach", "nobody").code, debug("list", "--json").json) == (1, {"sessions": []})
    assert debug("continue", "--json").json == {"answers": []}


@pytest.mark.parametrize("kind", [Walker, AsyncWalker])
def test_stopping_the_mesh_ends_an_endpoint_that_waits(crew, waiting, kind):
    processes = crew(1)
    pending = processes.spawn("walker", kind).walk.call_one()
    waiting(1)
    processes.stop().get(5)
    error = pending.exception(20)
    assert isinstance(getattr(error, "exception", error), MeshClosed)
    assert waiting(0) == []


def test_an_actor_that_is_stopped_at_a_breakpoint_has_not_failed(crew, waiting, failures, until, tmp_path):
    processes, gate = crew(1), tmp_path / "gate"
    processes.spawn("lingering", Lingering, gate)
    born = processes.spawn("born", Walker, "constructor")
    called = processes.spawn("called", Walker)
    called.walk.broadcast()
    waiting(2)
    stopping = processes.stop()
    # The process itself answers, and on the connection that news of a failure would have come by.
    until(lambda: [status(mesh).get(20).item(procs=0) for mesh in (born, called)] == [None, None])
    until(lambda: not any(thread.name == "monarch-fault-hook" for thread in threading.enumerate()))
    assert failures == []
    gate.touch()
    stopping.get(5)


def test_two_sessions_of_one_process_have_breakpoints_of_their_own(procs, waiting, debug):
    meshes = [procs.slice(gpus=0).spawn(f"walker{number}", Walker) for number in range(2)]
    first = meshes[0].walk.call_one()
    waiting(1)
    debug("attach", typed=[f"break {line_of('return here')}"])
    second = meshes[1].walk.call_one()
    waiting(2)
    assert debug("attach", "walker1", typed=["break", "c"]).code == 0
    assert second.get(20) == 1
    assert "-> return here" in debug("attach", "walker0", typed=["c", "c"]).out
    assert first.get(20) == 1
    for mesh in meshes:
        mesh.stop().get(30)


def test_a_session_of_a_killed_process_is_not_listed(crew, waiting, failures, until):
    processes = crew(1)
    pending = processes.spawn("walker", Walker).walk.call_one(ranks=[0])
    [found] = waiting(1)
    os.kill(found["pid"], signal.SIGKILL)
    assert waiting(0) == []
    assert pending.exception(20) is not None
