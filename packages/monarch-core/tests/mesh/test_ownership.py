"""Every mesh has an owner, and ends with it."""

from __future__ import annotations

import os
import signal

import pytest

from monarch.actor import Actor, endpoint, this_host, this_proc
from monarch.errors import SupervisionError


class Leaf(Actor):
    def __init__(self, log=None):
        self.log = log

    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def fail(self):
        raise LookupError("on purpose")

    def __cleanup__(self, error):
        if self.log:
            with open(self.log, "a") as file:
                file.write("leaf\n")


class Owner(Actor):
    """Owns a mesh of processes with a leaf, a leaf on processes of somebody else, and one beside itself."""

    def __init__(self, others=None, log=None):
        self.log = log
        self.procs = this_host().spawn_procs({"procs": 1}, name="owned")
        self.far = self.procs.spawn("far", Leaf, log)
        self.near = this_proc().spawn("near", Leaf, log)
        self.lent = None if others is None else others.spawn("lent", Leaf, log)

    @endpoint
    def meshes(self):
        self.far.initialized.get(20)
        return self.far, self.near, self.lent

    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def pid_of_far(self):
        return self.far.pid.call_one().get(20)

    @endpoint
    def fail(self):
        raise LookupError("on purpose")

    @endpoint
    def stop_near(self):
        self.near.stop().get(20)

    def __cleanup__(self, error):
        if self.log:
            with open(self.log, "a") as file:
                file.write("owner\n")


def ended(mesh):
    """Whether calls to a mesh say that it has been stopped, or that its process is gone."""
    try:
        mesh.pid.call_one().get(20)
    except SupervisionError:
        return True
    return False


def stop(owner, failures, until):
    owner.stop().get(20)


def fail(owner, failures, until):
    owner.fail.broadcast()
    until(lambda: failures)


def kill(owner, failures, until):
    os.kill(owner.pid.call_one().get(20), signal.SIGKILL)
    until(lambda: failures)


@pytest.mark.parametrize("end", [stop, fail, kill])
def test_what_an_actor_owns_ends_with_it_wherever_it_runs(crew, failures, until, alive, end):
    owner = crew().spawn("owner", Owner, crew())
    pid = owner.pid_of_far.call_one().get(20)
    _, near, lent = owner.meshes.call_one().get(20)
    end(owner, failures, until)
    until(lambda: ended(near))
    until(lambda: ended(lent))
    until(lambda: not alive(pid))


def test_the_processes_of_others_outlive_an_owner_of_actors_there(crew, until):
    others = crew()
    neighbour = others.spawn("neighbour", Leaf)
    crew().spawn("owner", Owner, others).stop().get(20)
    assert neighbour.pid.call_one().get(20) > 0


def test_what_is_owned_cleans_up_before_its_owner(crew, tmp_path):
    owner = crew().spawn("owner", Owner, None, str(tmp_path / "log"))
    owner.meshes.call_one().get(20)
    owner.stop().get(20)
    assert (tmp_path / "log").read_text().split() == ["leaf", "leaf", "owner"]


def test_that_they_ended_with_their_owner_is_no_failure(crew, failures, until, alive):
    owner = crew().spawn("owner", Owner, crew())
    pid = owner.pid_of_far.call_one().get(20)
    owner.stop().get(20)
    until(lambda: not alive(pid))
    assert failures == []


def test_a_stopped_mesh_is_not_told_of_when_its_process_dies(crew, failures, until):
    procs = crew()
    first, second = procs.spawn("first", Leaf), procs.spawn("second", Leaf)
    pid = first.pid.call_one().get(20)
    second.stop().get(20)
    os.kill(pid, signal.SIGKILL)
    until(lambda: failures)
    assert [failure.mesh_name for failure in failures] == ["first"]


def test_a_rank_that_failed_is_not_told_of_again_when_its_process_dies(crew, failures, until):
    leaf = crew().spawn("leaf", Leaf)
    pid = leaf.pid.call_one().get(20)
    leaf.fail.broadcast()
    until(lambda: failures)
    os.kill(pid, signal.SIGKILL)
    until(lambda: len(failures) == 2)
    assert [(failure.mesh_name, failure.class_name) for failure in failures] == [
        ("leaf", "Leaf"),
        ("procs", "process"),
    ]


def test_a_failure_comes_with_the_mesh_it_is_about(crew, failures, until):
    leaf = crew(2).spawn("leaf", Leaf)
    leaf.slice(procs=1).fail.broadcast()
    until(lambda: failures)
    assert failures[0].mesh.slice(procs=0).pid.call_one().get(20) > 0
