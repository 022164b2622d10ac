"""Meshes that their own program stops, and what is told to those who use them afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from dataclasses import replace

import pytest

from monarch import config
from monarch._mesh import agents
from monarch._mesh.identities import AGENT
from monarch._runtime import here
from monarch._runtime.ids import new_id
from monarch.actor import Actor, context, endpoint, this_host
from monarch.errors import MeshClosed, ProcessDied, SupervisionError


class Tidy(Actor):
    def __init__(self, folder=None):
        self.folder, self.handled = folder, []

    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def note(self, value):
        self.handled.append(value)
        return list(self.handled)

    @endpoint
    def hang(self):
        threading.Event().wait()

    @endpoint
    def call_to(self, other):
        return str(other.pid.call_one().exception(20))

    @endpoint
    def stop_it(self, mesh):
        mesh.stop("an actor said so").get(20)

    def __cleanup__(self, error):
        with open(f"{self.folder}/{context().actor_instance.name}", "a") as file:
            file.write(f"{error} {self.handled};")


class TidyLater(Tidy):
    async def __cleanup__(self, error):
        await asyncio.sleep(0)
        super().__cleanup__(error)


class Untidy(Tidy):
    def __cleanup__(self, error):
        raise LookupError("lost the broom")


class Stubborn(Tidy):
    def __cleanup__(self, error):
        threading.Event().wait()


@pytest.fixture
def tidy(crew, tmp_path):
    def _tidy(count=1, cls=Tidy):
        mesh = crew(count, name="crew")
        actors = mesh.spawn("tidy", cls, str(tmp_path))
        actors.initialized.get(20)
        return mesh, actors

    return _tidy


def pids_of(actors):
    return list(actors.pid.call().get(20).values())


# ---- processes


def test_stopping_processes_ends_them(tidy, alive):
    mesh, actors = tidy(2)
    pids = pids_of(actors)
    assert mesh.stop().get(20) is None
    assert not any(map(alive, pids))


def test_stopping_is_eager_whoever_drops_the_future(tidy, alive, until):
    mesh, actors = tidy(2)
    pids = pids_of(actors)
    mesh.stop()
    until(lambda: not any(map(alive, pids)))


def test_actors_clean_up_once_when_their_process_is_stopped(tidy, tmp_path):
    mesh, actors = tidy()
    actors.note.call_one(1).get(20)
    for _ in range(2):
        mesh.stop().get(20)
    assert (tmp_path / "tidy").read_text() == "None [1];"


@pytest.mark.parametrize("cls", [Tidy, TidyLater])
def test_sync_and_async_cleanup_are_both_waited_for(tidy, tmp_path, cls):
    mesh, _ = tidy(2, cls)
    mesh.stop().get(20)
    assert (tmp_path / "tidy").read_text() == "None [];" * 2


def test_an_actor_that_cannot_clean_up_does_not_keep_others_from_it(crew, tmp_path):
    mesh = crew()
    for name, cls in (("first", Tidy), ("second", Untidy), ("third", Tidy)):
        mesh.spawn(name, cls, str(tmp_path)).initialized.get(20)
    mesh.stop().get(20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "third"]


def test_calls_after_the_stop_name_mesh_and_reason(tidy):
    mesh, actors = tidy(2)
    mesh.stop("enough for today").get(20)
    for future in (actors.pid.call(), actors.slice(procs=1).pid.call_one(), actors.pid.choose()):
        with pytest.raises(MeshClosed, match="'crew'.*enough for today"):
            future.get(20)


def test_use_after_the_stop_is_a_supervision_error(tidy):
    mesh, actors = tidy()
    mesh.stop().get(20)
    with pytest.raises(SupervisionError):
        actors.pid.call_one().get(20)


def test_a_stopped_mesh_takes_no_new_actors_and_says_why(tidy):
    mesh, _ = tidy(2)
    mesh.stop("enough for today")
    for part in (mesh, mesh.slice(procs=1)):
        with pytest.raises(MeshClosed, match="'late'.*'crew'.*enough for today"):
            part.spawn("late", Tidy)


def test_a_stop_is_no_failure_and_neither_is_use_after_it(tidy, failures):
    mesh, actors = tidy(2)
    mesh.stop().get(20)
    assert isinstance(actors.pid.call().exception(20), MeshClosed)
    assert failures == []


def test_stopping_one_slice_leaves_the_rest(tidy, alive):
    mesh, actors = tidy(3)
    pids = pids_of(actors)
    mesh.slice(procs=1).stop("only you").get(20)
    assert [alive(pid) for pid in pids] == [True, False, True]
    assert actors.slice(procs=2).pid.call_one().get(20) == pids[2]
    with pytest.raises(MeshClosed, match="only you"):
        actors.pid.call().get(20)


def test_a_call_in_progress_on_stopped_processes_ends_with_the_reason(tidy):
    mesh, actors = tidy()
    pending = actors.hang.call_one()
    with config.configured(process_exit_timeout=0.2):
        mesh.stop("no patience").get(20)
    with pytest.raises(MeshClosed, match="no patience"):
        pending.get(20)


def test_a_process_that_does_not_end_in_time_is_killed(tidy, alive):
    mesh, actors = tidy(1, Stubborn)
    [pid] = pids_of(actors)
    with config.configured(process_exit_timeout=0.2):
        mesh.stop().get(20)
    assert not alive(pid)


def test_stopping_a_mesh_with_a_dead_rank_ends_the_others(tidy, alive, failures, until):
    mesh, actors = tidy(2)
    first, second = pids_of(actors)
    os.kill(first, 9)
    until(lambda: failures)
    mesh.stop().get(20)
    assert not alive(second)


def test_processes_that_are_still_starting_can_be_stopped(crew):
    mesh = crew(3)
    assert mesh.stop().get(20) is None


def test_async_with_stops_the_processes(tidy, alive):
    async def use(mesh, actors):
        async with mesh as entered:
            assert entered is mesh
            return list((await actors.pid.call()).values())

    assert not any(map(alive, asyncio.run(use(*tidy(2)))))


def test_an_actor_may_stop_processes_it_was_told_of(tidy, crew):
    mesh, actors = tidy()
    _, other = tidy()
    other.stop_it.call_one(mesh).get(20)
    with pytest.raises(MeshClosed, match="an actor said so"):
        actors.pid.call_one().get(20)


def test_other_processes_learn_the_reason_too(tidy):
    mesh, actors = tidy()
    _, other = tidy()
    mesh.stop("enough for today").get(20)
    assert "enough for today" in other.call_to.call_one(actors).get(20)


# ---- actors


def test_stopped_actors_handle_first_what_was_sent_before(tidy, tmp_path):
    _, actors = tidy()
    for number in range(50):
        actors.note.broadcast(number)
    actors.stop().get(20)
    assert (tmp_path / "tidy").read_text() == f"None {list(range(50))};"


def test_stopping_actors_twice_is_fine_and_cleans_up_once(tidy, tmp_path):
    _, actors = tidy()
    for future in [actors.stop(), actors.stop()]:
        assert future.get(20) is None
    assert (tmp_path / "tidy").read_text() == "None [];"


def test_actors_stopped_before_their_process_clean_up_once(tidy, tmp_path):
    mesh, actors = tidy()
    actors.stop()
    mesh.stop().get(20)
    assert (tmp_path / "tidy").read_text() == "None [];"


def test_dropping_the_future_of_an_actor_stop_stops_it(tidy, tmp_path, until):
    _, actors = tidy()
    actors.stop()
    until(lambda: (tmp_path / "tidy").exists())


def test_calls_to_stopped_actors_name_actor_rank_and_reason(tidy):
    _, actors = tidy(2)
    actors.stop("you are done").get(20)
    with pytest.raises(MeshClosed, match="'tidy' rank 1.*you are done"):
        actors.slice(procs=1).pid.call_one().get(20)


def test_stopping_actors_leaves_their_processes_and_neighbours(tidy):
    mesh, actors = tidy()
    neighbour = mesh.spawn("neighbour", Tidy)
    actors.stop().get(20)
    assert neighbour.pid.call_one().get(20) == mesh.spawn("next", Tidy).pid.call_one().get(20)


def test_stopping_some_actors_leaves_the_others(tidy):
    _, actors = tidy(2)
    actors.slice(procs=0).stop().get(20)
    assert actors.slice(procs=1).note.call_one(1).get(20) == [1]


def test_a_stopped_actor_is_no_failure(tidy, failures):
    _, actors = tidy()
    actors.stop().get(20)
    actors.note.broadcast(1)
    assert isinstance(actors.pid.call_one().exception(20), MeshClosed)
    assert failures == []


def test_stopping_twice_stops_once(tidy):
    _, actors = tidy(2)
    for reason in ("enough", "really"):
        assert actors.stop(reason).get(20) is None
    with pytest.raises(MeshClosed, match="enough"):
        actors.pid.call().get(20)


def test_actors_whose_process_is_gone_count_as_stopped(tidy, failures, until):
    _, actors = tidy(2)
    os.kill(actors.slice(procs=0).pid.call_one().get(20), signal.SIGKILL)
    until(lambda: failures)
    assert actors.stop().get(20) is None
    with pytest.raises(MeshClosed):
        actors.slice(procs=1).pid.call_one().get(20)


# ---- hosts


def test_stopping_a_host_ends_its_processes_and_takes_new_ones(tidy, alive):
    _, actors = tidy(2)
    pids = pids_of(actors)
    host = this_host()
    host.stop().get(20)
    assert not any(map(alive, pids))
    assert host.spawn_procs().spawn("tidy", Tidy).pid.call_one().get(20) > 0
    host.stop().get(20)


def test_shutting_a_host_down_ends_its_processes_for_good(tidy, alive):
    _, actors = tidy(2)
    pids = pids_of(actors)
    host = this_host()
    host.shutdown("going home").get(20)
    assert not any(map(alive, pids))
    for hosts in (host, host.with_python_executable("/usr/bin/python3"), host.flatten("hosts")):
        with pytest.raises(MeshClosed, match="shut down: going home"):
            hosts.spawn_procs()


def test_a_host_that_is_shut_down_is_a_runtime_error():
    host = this_host()
    host.shutdown().get(20)
    with pytest.raises(RuntimeError):
        host.spawn_procs()


def test_async_with_shuts_the_host_down(alive):
    async def use():
        async with this_host() as host:
            return host, await host.spawn_procs().spawn("tidy", Tidy).pid.call_one()

    host, pid = asyncio.run(use())
    assert not alive(pid)
    with pytest.raises(MeshClosed):
        host.spawn_procs()


# ---- races of ends


@pytest.fixture
def agent():
    """The agent of this host."""
    this_host()
    return here.get().cell(AGENT).actor


def test_a_clean_up_may_use_hosts_though_its_process_ends(crew, tmp_path):
    class Host(Actor):
        def __cleanup__(self, error):
            this_host()
            (tmp_path / "cleaned").touch()

    procs = crew()
    procs.spawn("host", Host).initialized.get(20)
    with config.configured(process_exit_timeout=2.0):
        procs.stop().get(20)
    assert (tmp_path / "cleaned").exists()


def test_who_asks_for_an_end_that_has_come_meanwhile_is_answered(crew, agent):
    procs = crew()
    [address] = procs._processes
    running, heard = agent._running[address], []
    procs.stop().get(20)
    agent._when_ended([running], lambda: heard.append("ended"))
    assert heard == ["ended"]


def test_what_was_asked_for_by_a_process_that_is_gone_is_ended(crew, agent, until):
    [address] = crew()._processes
    request = replace(agent._running[address].request, owner_process="ipc:///gone", mesh=new_id())
    here.get().fates.declare("ipc:///gone", ProcessDied("gone"))
    [answer] = agents.ask([here.get().address], "spawn", [(request,)], "the request")
    [[orphan]] = agents.wait([answer], "spawn")
    until(lambda: orphan not in agent._running)


def test_a_mesh_of_processes_that_was_stopped_is_forgotten(crew, until):
    children = here.get().children
    before = set(children._children)
    procs = crew(2)
    assert set(children._children) > before
    procs.stop().get(20)
    until(lambda: set(children._children) == before)
