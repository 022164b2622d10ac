"""Failures that nobody waited for, and the owners who are told of them."""

from __future__ import annotations

import os
import signal

import pytest

from monarch.actor import Actor, MeshFailure, current_rank, endpoint, this_host
from monarch.errors import ActorError, SupervisionError


class Leaf(Actor):
    def __init__(self, broken_rank=None):
        if broken_rank == current_rank().rank:
            raise LookupError("broken at birth")

    @endpoint
    def pid(self):
        return os.getpid()

    @endpoint
    def fail(self):
        raise LookupError("on purpose")


class Owner(Actor):
    """Owns two leaves, and remembers what it is told of them."""

    handles = True

    def __init__(self):
        self.told = []
        self.leaves = this_host().spawn_procs(per_host={"procs": 2}, name="leaves").spawn("leaf", Leaf)

    @endpoint
    def pids(self):
        return list(self.leaves.pid.call().get(20).values())

    @endpoint
    def fail_one(self):
        self.leaves.slice(procs=1).fail.broadcast()

    @endpoint
    def facts(self):
        return [(each.mesh_name, each.rank, each.signal, each.exit_code) for each in self.told]

    @endpoint
    def pid_of(self, rank):
        return self.leaves.slice(procs=rank).pid.call_one().get(20)

    def __supervise__(self, failure):
        self.told.append(failure)
        return self.handles


class OwnerOnTheLoop(Owner):
    @endpoint
    async def facts(self):
        return [(each.mesh_name, each.rank, each.signal, each.exit_code) for each in self.told]

    async def __supervise__(self, failure):
        self.told.append(failure)
        return True


class Careless(Owner):
    handles = False


class Helpless(Owner):
    def __supervise__(self, failure):
        raise KeyError("no idea")


@pytest.fixture
def owned(crew):
    def _owned(cls=Owner):
        return crew(1, name="owners").spawn("owner", cls)

    return _owned


# ---- the client is the owner


def test_a_broadcast_that_raises_is_told_once_with_its_facts(crew, failures, until):
    leaves = crew(2).spawn("leaf", Leaf)
    leaves.slice(procs=1).fail.broadcast()
    until(lambda: failures)
    assert leaves.slice(procs=0).pid.call_one().get(20) > 0
    [failure] = failures
    assert (failure.mesh_name, failure.rank, failure.class_name, failure.endpoint) == (
        "leaf",
        1,
        "Leaf",
        "fail",
    )


def test_a_constructor_that_raises_is_told_though_nobody_calls(crew, failures, until):
    crew(3).spawn("leaf", Leaf, 2)
    until(lambda: failures)
    [failure] = failures
    assert (failure.rank, failure.endpoint) == (2, "__init__")
    assert "LookupError: broken at birth" in failure.cause


def test_the_other_ranks_answer_when_a_constructor_raised(crew, failures, until):
    leaves = crew(3).spawn("leaf", Leaf, 1)
    until(lambda: failures)
    assert [leaves.slice(procs=rank).pid.call_one().get(20) > 0 for rank in (0, 2)] == [True, True]
    with pytest.raises(SupervisionError, match="broken at birth"):
        leaves.pid.call().get(20)


def test_a_call_that_raises_is_told_to_its_caller_alone(crew, failures):
    leaves = crew(2).spawn("leaf", Leaf)
    with pytest.raises(ActorError):
        leaves.fail.call().get(20)
    assert leaves.pid.call().get(20).size() == 2
    assert failures == []


def test_a_failure_is_text_for_people(crew, failures, until):
    leaves = crew(2).spawn("leaf", Leaf)
    leaves.slice(procs=1).fail.broadcast()
    until(lambda: failures)
    assert isinstance(failures[0], MeshFailure)
    assert "crashed_ranks=[1]" in str(failures[0])
    assert all(
        word in failures[0].report() for word in ("'leaf'", "Leaf", "fail", "LookupError", "on purpose")
    )


# ---- an actor is the owner


@pytest.mark.parametrize("cls", [Owner, OwnerOnTheLoop])
def test_the_owner_is_told_of_a_dead_process_once(owned, failures, until, cls):
    owner = owned(cls)
    os.kill(owner.pids.call_one().get(20)[1], signal.SIGKILL)
    until(lambda: owner.facts.call_one().get(20))
    assert owner.pid_of.call_one(0).get(20) > 0
    assert owner.facts.call_one().get(20) == [("leaf", 1, 9, None)]


def test_the_owner_is_told_of_each_dead_process(owned, until):
    owner = owned()
    for pid in owner.pids.call_one().get(20):
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(owner.facts.call_one().get(20)) == 2)
    assert sorted(rank for _, rank, _, _ in owner.facts.call_one().get(20)) == [0, 1]


def test_the_owner_is_told_of_a_failed_actor(owned, until):
    owner = owned()
    owner.fail_one.call_one().get(20)
    until(lambda: owner.facts.call_one().get(20))
    assert owner.facts.call_one().get(20) == [("leaf", 1, None, None)]


def test_what_the_owner_handled_goes_no_further(owned, failures, until):
    owner = owned()
    owner.fail_one.call_one().get(20)
    until(lambda: owner.facts.call_one().get(20))
    assert owner.pid_of.call_one(0).get(20) > 0
    assert failures == []


def test_what_the_owner_did_not_handle_fails_it_and_goes_on_up(owned, failures, until):
    owner = owned(Careless)
    owner.fail_one.call_one().get(20)
    until(lambda: failures)
    assert (failures[0].mesh_name, failures[0].because.mesh_name) == ("owner", "leaf")
    with pytest.raises(SupervisionError):
        owner.facts.call_one().get(20)


def test_an_owner_that_raises_fails_with_what_it_raised_and_why(owned, failures, until):
    owned(Helpless).fail_one.call_one().get(20)
    until(lambda: failures)
    assert "no idea" in failures[0].cause
    assert failures[0].because.mesh_name == "leaf"
