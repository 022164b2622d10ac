"""Processes of a host: how many, which, and what they have of the program that spawned them."""

from __future__ import annotations

import os
import sys

import pytest

from monarch import config
from monarch.actor import Actor, HostMesh, ProcMesh, context, current_rank, endpoint, this_host, this_proc


class Probe(Actor):
    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def rank(self):
        return dict(current_rank())

    @endpoint
    def look(self, expression):
        return eval(expression)

    @endpoint
    def open_files(self):
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        return [os.readlink(link) for link in links if os.path.lexists(link)]

    @endpoint
    def nested_pid(self):
        mesh = this_host().spawn_procs(name="nested")
        return os.getppid(), mesh.spawn("probe", Probe).look.call_one("(os.getpid(), os.getppid())").get(20)

    @endpoint
    def neighbour_pid(self):
        return this_proc().spawn("neighbour", Probe).pid.call_one().get(20)


class Many(Probe):
    def __init__(self, spawned):
        self.spawned = spawned


@pytest.fixture(scope="module")
def probes():
    """Probes in two processes that are like any others."""
    mesh = this_host().spawn_procs(per_host={"procs": 2}, name="crew")
    yield mesh.spawn("probe", Probe)
    mesh.stop().get(30)


@pytest.fixture
def probe(probes):
    return probes.slice(procs=0)


def test_the_mesh_has_the_given_dimensions(crew):
    mesh = this_host().spawn_procs(per_host={"nodes": 2, "gpus": 1})
    assert dict(mesh.extent) == {"nodes": 2, "gpus": 1}
    mesh.stop().get(20)


def test_the_dimensions_of_the_hosts_come_first(crew):
    host = this_host()
    hosts = HostMesh(host.flatten("hosts")._shape, host._agents)
    mesh = hosts.spawn_procs(per_host={"gpus": 2})
    assert dict(mesh.extent) == {"hosts": 1, "gpus": 2}
    mesh.stop().get(20)


def test_one_process_without_dimensions_is_the_default():
    mesh = this_host().spawn_procs()
    assert (mesh.size(), dict(mesh.extent)) == (1, {})
    mesh.stop().get(20)


def test_each_rank_is_a_process_of_its_own(probes):
    pids = set(probes.pid.call().get(20).values())
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_the_actor_at_each_rank_knows_its_rank(probes):
    assert list(probes.rank.call().get(20).values()) == [{"procs": 0}, {"procs": 1}]


def test_spawn_procs_does_not_wait_for_the_processes(crew, tmp_path):
    gate = tmp_path / "gate"

    def wait_for_gate():
        import time

        while not gate.exists():
            time.sleep(0.01)

    mesh = crew(1, bootstrap=wait_for_gate)
    answer = mesh.spawn("probe", Probe).pid.call_one()
    assert not answer.done()
    gate.touch()
    assert answer.get(20) > 0


def test_initialized_is_true_once_all_processes_run(crew):
    assert crew(2).initialized.get(20) is True


async def awaited(future):
    return await future


def test_initialized_can_be_awaited(crew):
    import asyncio

    assert asyncio.run(awaited(crew(2).initialized)) is True


def test_the_host_is_initialized():
    assert this_host().initialized.get(20) is True


def test_the_mesh_shows_its_name_and_extent(crew):
    assert repr(crew(2, name="crew")) == "<ProcMesh 'crew' {procs: 2}>"


def test_meshes_of_the_same_name_are_different_meshes(crew):
    first, second = (crew(1, name="same").spawn("probe", Probe).pid.call_one().get(20) for _ in range(2))
    assert first != second


def test_the_processes_of_one_host_know_their_host(crew):
    mesh = crew(2)
    assert isinstance(mesh.host_mesh, HostMesh)
    more = mesh.host_mesh.spawn_procs()
    assert more.initialized.get(20) is True
    more.stop().get(20)


def test_an_actor_knows_the_mesh_of_its_process(probes):
    found = probes.look.call("repr(context().actor_instance.proc_mesh)")
    assert set(found.get(20).values()) == {"<ProcMesh 'crew' {procs: 2}>"}


# ---- what the new processes have


def test_modules_on_the_path_of_the_program_can_be_imported(crew, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("ANSWER = 42")
    monkeypatch.syspath_prepend(tmp_path)
    assert crew().spawn("probe", Probe).look.call_one("__import__('only_here').ANSWER").get(20) == 42


def test_the_arguments_of_the_program_are_there(probe):
    assert probe.look.call_one("__import__('sys').argv").get(20) == sys.argv


def test_the_working_directory_is_the_same(probe):
    assert probe.look.call_one("os.getcwd()").get(20) == os.getcwd()


def test_the_environment_of_the_program_is_inherited(crew, monkeypatch):
    monkeypatch.setenv("FROM_THE_PROGRAM", "yes")
    assert crew().spawn("probe", Probe).look.call_one("os.environ['FROM_THE_PROGRAM']").get(20) == "yes"


def test_nothing_of_ours_is_left_in_the_environment(probe):
    names = probe.look.call_one("list(os.environ)").get(20)
    assert set(names) - set(os.environ) == set()


def test_settings_made_before_the_spawn_hold_in_the_processes(crew):
    with config.configured(cleanup_timeout=1.25):
        mesh = crew()
    seen = mesh.spawn("probe", Probe).look.call_one(
        "__import__('monarch.config').config.get('cleanup_timeout')"
    )
    assert seen.get(20) == 1.25


def test_no_descriptor_of_the_program_leaks_into_the_processes(crew, tmp_path):
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        links = crew().spawn("probe", Probe).open_files.call_one().get(20)
    assert not [link for link in links if link.endswith("secret")]


def test_standard_input_is_empty(probe):
    assert probe.look.call_one("__import__('sys').stdin.read()").get(20) == ""


# ---- nesting


def test_an_actor_spawns_processes_on_its_own_host(probe):
    keeper, (nested, parent_of_nested) = probe.nested_pid.call_one().get(30)
    assert keeper == parent_of_nested != os.getpid()
    assert nested != keeper


def test_an_actor_spawns_actors_in_its_own_process(probe):
    probe = probe
    assert probe.neighbour_pid.call_one().get(20) == probe.pid.call_one().get(20)


def test_this_proc_of_the_client_is_the_client():
    assert this_proc().spawn("probe", Probe).pid.call_one().get(20) == os.getpid()


def test_this_proc_is_a_mesh_of_one():
    mesh = this_proc()
    assert isinstance(mesh, ProcMesh)
    assert mesh.size() == 1


def test_a_mesh_of_processes_travels_to_an_actor_who_spawns_on_it(crew):
    mesh = crew(2)
    other = crew().spawn("many", Many, mesh)
    spawned = other.look.call_one(
        "set(self.spawned.spawn('probe', type(self), None).pid.call().get(20).values())"
    )
    assert spawned.get(30) == set(mesh.spawn("probe", Probe).pid.call().get(20).values())


def test_actors_created_in_the_client_and_elsewhere_know_their_creator(probe):
    creator = probe.look.call_one("str(context().actor_instance.creator)").get(20)
    assert context().actor_instance.name in creator
