"""What actors and clients know about themselves."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from monarch.actor import (
    Actor,
    ActorAddr,
    ProcId,
    concurrent_endpoint,
    context,
    current_actor_name,
    current_rank,
    current_size,
    endpoint,
    get_or_spawn_controller,
    this_host,
    this_proc,
)
from monarch.errors import MeshClosed, SupervisionError


def _where() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    return dict(current_rank()), dict(context().actor_instance.rank), current_size()


class Aware(Actor):
    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.born_at = dict(current_rank()), current_actor_name()

    @endpoint
    def where(self) -> Any:
        return _where()

    @endpoint
    async def where_async(self) -> Any:
        await asyncio.sleep(0)
        return _where()

    @concurrent_endpoint
    async def where_concurrent(self) -> Any:
        await asyncio.sleep(0)
        return _where()

    @endpoint
    def born(self) -> Any:
        return self.born_at

    @endpoint
    def identity(self) -> tuple[Any, ...]:
        me = context().actor_instance
        return me.name, me.class_name, me.creator, me.actor_id, me.proc_id, os.getpid(), repr(me)

    @endpoint
    def name_in_a_thread(self) -> str:
        names: list[str] = []
        thread = threading.Thread(target=lambda: names.append(current_actor_name()))
        thread.start()
        thread.join()
        return names[0]

    @endpoint
    def spawn_beside(self) -> Any:
        child = this_proc().spawn("child", Aware)
        return child.identity.call_one().get()

    @endpoint
    def spawn_through_the_context(self) -> int:
        return len(context().actor_instance.proc_mesh.spawn("children", Aware).where.call().get())

    @endpoint
    def host_of(self) -> int:
        with_procs = this_host().spawn_procs({"k": 2})
        count = len(with_procs.spawn("kids", Aware).where.call().get())
        with_procs.stop().get()
        return count

    @endpoint
    def log_something(self) -> list[tuple[str, str, str]]:
        records: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = records.append  # type: ignore[method-assign]
        self.logger.addHandler(handler)
        self.logger.warning("something")
        self.logger.removeHandler(handler)
        return [(record.name, record.actor, record.getMessage()) for record in records]  # type: ignore[attr-defined]

    @endpoint
    def threads(self) -> list[str]:
        return [thread.name for thread in threading.enumerate()]

    @endpoint
    def end_yourself(self, verb: str, reason: str | None = None) -> str:
        getattr(context().actor_instance, verb)(reason)
        return "said"

    def __cleanup__(self, error: Exception | None) -> None:
        if self.path is not None:
            self.path.write_text(repr(error))


@pytest.fixture(scope="module")
def aware(procs):
    return procs.spawn("aware", Aware)


ENDPOINTS = ["where", "where_async", "where_concurrent"]


@pytest.mark.parametrize("name", ENDPOINTS)
def test_the_rank_of_a_message_counts_in_the_part_addressed(aware, name):
    part = getattr(aware.slice(gpus=slice(1, 3)), name).call().get()
    assert list(part.values()) == [({"gpus": rank - 1}, {"gpus": rank}, {"gpus": 2}) for rank in (1, 2)]


@pytest.mark.parametrize("name", ENDPOINTS)
def test_an_actor_addressed_alone_has_a_rank_without_dimensions(aware, name):
    assert getattr(aware.slice(gpus=2), name).call_one().get() == ({}, {"gpus": 2}, {})


def test_the_labels_are_those_of_the_view(aware):
    rank, _, size = aware.rename(gpus="dp").where.call().get().item(dp=1)
    assert (rank, size) == ({"dp": 1}, {"dp": 3})


def test_a_constructor_knows_its_rank_and_name(aware):
    assert aware.born.call().get().item(gpus=2) == ({"gpus": 2}, "aware")


def test_an_actor_knows_name_class_and_creator(aware):
    name, class_name, creator, actor_id, proc_id, _, shown = aware.slice(gpus=1).identity.call_one().get()
    assert (name, class_name) == ("aware", "Aware")
    assert creator == context().actor_instance.actor_id
    assert isinstance(actor_id, ActorAddr)
    assert (actor_id.rank, actor_id.actor.label) == (1, "aware")
    assert ProcId.from_string(str(proc_id)) == proc_id
    assert shown == "<Aware 'aware' at {'gpus': 1/3}>"


def test_actors_of_different_processes_have_different_identities(aware):
    identities = list(aware.identity.call().get().values())
    assert len({proc_id for *_, proc_id, _, _ in identities}) == 3
    assert len({pid for *_, pid, _ in identities}) == 3


def test_a_thread_of_an_actor_process_belongs_to_no_actor(aware):
    assert aware.slice(gpus=0).name_in_a_thread.call_one().get() == "proc"


def test_a_client_has_a_context(aware):
    assert current_actor_name() == "client"
    assert (dict(current_rank()), current_size()) == ({}, {})
    assert context().actor_instance.creator is None
    assert context().actor_instance.proc.spawn("here", Aware).identity.call_one().get()[5] == os.getpid()


# ---- spawning from inside


def test_this_proc_of_an_actor_is_its_own_process(aware):
    parent = aware.slice(gpus=1).identity.call_one().get()
    child = aware.slice(gpus=1).spawn_beside.call_one().get()
    assert (child[5], child[4]) == (parent[5], parent[4])
    assert child[2] == parent[3]


def test_the_context_knows_the_whole_process_mesh(aware):
    assert aware.slice(gpus=1).spawn_through_the_context.call_one().get() == 3


def test_an_actor_spawns_processes_on_its_host(aware):
    assert aware.slice(gpus=0).host_of.call_one().get(timeout=30) == 2


class Counter(Actor):
    def __init__(self, start: int) -> None:
        self.value = start

    @endpoint
    def add(self) -> int:
        self.value += 1
        return self.value

    @endpoint
    def where(self) -> int:
        return os.getpid()


class Asker(Actor):
    @endpoint
    def ask(self) -> int:
        return get_or_spawn_controller("counter of this test", Counter, 100).get().add.call_one().get()


def test_a_controller_is_one_for_all_who_ask(procs):
    values = procs.spawn("askers", Asker).ask.call().get().values()
    assert sorted(values) == [101, 102, 103]
    mine = get_or_spawn_controller("counter of this test", Counter, 0).get()
    assert (mine.add.call_one().get(), mine.where.call_one().get()) == (104, os.getpid())


# ---- the end, as an actor wants it


@pytest.fixture
def doomed(procs, tmp_path):
    return procs.slice(gpus=0).spawn("doomed", Aware, tmp_path / "cleanup")


def test_an_actor_that_stops_itself_ends_well(doomed, tmp_path):
    assert doomed.end_yourself.call_one("stop", "enough").get() == "said"
    error = doomed.where.call_one().exception(timeout=20)
    assert isinstance(error, MeshClosed)
    assert "enough" in str(error)
    assert (tmp_path / "cleanup").read_text() == "None"


@pytest.mark.parametrize(("verb", "cleaned"), [("abort", True), ("kill", False)])
def test_an_actor_that_fails_itself_is_a_failure(aware, doomed, verb, cleaned, tmp_path, failures, until):
    doomed.end_yourself.broadcast(verb, "no use")
    error = doomed.where.call_one().exception(timeout=20)
    assert isinstance(error, SupervisionError)
    assert "no use" in str(error)
    (failure,) = until(lambda: failures[:])
    failures.clear()
    assert (failure.mesh_name, failure.endpoint) == ("doomed", "end_yourself")
    until(lambda: "doomed[0]" not in aware.slice(gpus=0).threads.call_one().get())
    assert (tmp_path / "cleanup").exists() is cleaned


def test_log_records_of_an_actor_carry_its_name_and_rank(aware):
    ((name, actor, text),) = aware.slice(gpus=1).log_something.call_one().get()
    assert name.endswith("test_context.Aware")
    assert (actor, text) == ("aware{'gpus': 1}", "something")
