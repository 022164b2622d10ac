"""Wrong use of meshes: each error has a type, and names the thing, the fact and the remedy."""

from __future__ import annotations

import os
import threading

import pytest

from monarch.actor import Actor, BootstrapCommand, HostMesh, endpoint, this_host
from monarch.errors import PicklingError


class Probe(Actor):
    def __init__(self, first=None, *, second=None):
        pass

    @endpoint
    def pid(self):
        return os.getpid()

    def plain(self):
        return 1


@pytest.fixture(scope="module")
def mesh():
    mesh = this_host().spawn_procs(per_host={"procs": 2}, name="crew")
    yield mesh
    mesh.stop().get(30)


@pytest.fixture(scope="module")
def probes(mesh):
    return mesh.spawn("probes", Probe)


@pytest.mark.parametrize("size", [0, -1, 1.5, "2", None, True])
def test_sizes_are_whole_numbers_from_one(size):
    with pytest.raises(ValueError, match="per_host gives dimension 'gpus' the size .*whole numbers from 1"):
        this_host().spawn_procs(per_host={"gpus": size})


def test_a_dimension_of_the_hosts_is_not_one_per_host():
    host = this_host()
    hosts = HostMesh(host.flatten("hosts")._shape, host._agents)
    with pytest.raises(ValueError, match="'hosts' of per_host is a dimension of the hosts already"):
        hosts.spawn_procs(per_host={"hosts": 2})


@pytest.mark.parametrize("given", [3, "gpus", [("gpus", 2)]])
def test_per_host_is_a_mapping(given):
    with pytest.raises(TypeError, match="per_host"):
        this_host().spawn_procs(per_host=given)


@pytest.mark.parametrize("command", ["python", 3, lambda point: "python"])
def test_a_bootstrap_command_has_its_own_class(command):
    with pytest.raises(TypeError, match="BootstrapCommand"):
        this_host().spawn_procs(bootstrap_command=command)


def test_a_bootstrap_function_is_a_function():
    with pytest.raises(TypeError, match="bootstrap"):
        this_host().spawn_procs(bootstrap="set_up")


@pytest.mark.parametrize("value", [{1: "x"}, {"X": 1}])
def test_variables_are_text(value):
    with pytest.raises(TypeError, match="variables are text, .*(X|1)"):
        BootstrapCommand("/bin/true").with_env(value)


@pytest.mark.parametrize("given", [object, int, Probe.pid, "Probe", None, Probe.__new__(Probe)])
def test_only_actor_classes_can_be_spawned(mesh, given):
    with pytest.raises(ValueError, match="is no actor class; spawn takes a class that derives from"):
        mesh.spawn("wrong", given)


@pytest.mark.parametrize(
    "name", ["stop", "slice", "split", "flatten", "rename", "size", "sizes", "extent", "initialized"]
)
def test_an_endpoint_may_not_hide_what_every_mesh_has(mesh, name):
    cls = type("Collides", (Actor,), {name: endpoint(lambda self: None)})
    with pytest.raises(ValueError, match=f"endpoint {name!r} of Collides .*rename it"):
        mesh.spawn("wrong", cls)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        pytest.param((1, 2), {}, id="too-many"),
        pytest.param((), {"third": 3}, id="unknown"),
        pytest.param((1,), {"first": 1}, id="twice"),
    ],
)
def test_arguments_that_do_not_fit_the_constructor_are_refused_here(mesh, args, kwargs):
    with pytest.raises(TypeError, match="__init__"):
        mesh.spawn("wrong", Probe, *args, **kwargs)


def test_an_argument_that_cannot_travel_is_refused_here(mesh):
    with pytest.raises(PicklingError, match=r"an argument of Probe\(\).*lock"):
        mesh.spawn("wrong", Probe, threading.Lock())


def test_a_refused_spawn_leaves_the_mesh_usable(mesh):
    with pytest.raises(PicklingError):
        mesh.spawn("wrong", Probe, threading.Lock())
    assert mesh.spawn("right", Probe).pid.call().get(20).size() == 2


def test_an_unknown_endpoint_names_those_there_are(probes):
    with pytest.raises(AttributeError, match="Probe has no endpoint 'pit'.*pid"):
        probes.pit.call()


def test_a_method_that_is_no_endpoint_says_how_to_make_it_one(probes):
    with pytest.raises(RuntimeError, match="Probe.plain is not annotated as an endpoint; decorate it"):
        probes.plain.call()


def test_call_one_on_many_names_their_number(probes):
    with pytest.raises(ValueError, match="call_one requires exactly 1 actor, but mesh 'probes' has 2"):
        probes.pid.call_one()


def parts(mesh, probes):
    return {"host": this_host(), "processes": mesh, "actors": probes}


@pytest.mark.parametrize("kind", ["host", "processes", "actors"])
def test_an_unknown_dimension_names_those_there_are(mesh, probes, kind):
    with pytest.raises(TypeError, match="'rows'"):
        parts(mesh, probes)[kind].slice(rows=0)


@pytest.mark.parametrize("kind", ["processes", "actors"])
@pytest.mark.parametrize("index", [2, -3])
def test_an_index_outside_the_mesh_names_the_size(mesh, probes, kind, index):
    with pytest.raises(IndexError, match="2"):
        parts(mesh, probes)[kind].slice(procs=index)


@pytest.mark.parametrize("timeout", ["1", -1, float("nan"), True])
def test_a_wait_takes_seconds(mesh, timeout):
    with pytest.raises(ValueError, match="timeout"):
        mesh.initialized.get(timeout)


def test_a_process_mesh_on_one_host_has_one_host(mesh):
    assert mesh.slice(procs=0).host_mesh.size() == 1
