"""What `monarch.actor.status` shows of actors, also of those that are busy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from monarch.actor import Actor, Channel, Port, concurrent_endpoint, endpoint, status


class Busy(Actor):
    def __init__(self, done: Path | None = None) -> None:
        while done is not None and not done.exists():
            pass
        self.gate = asyncio.Event()

    @endpoint
    def spin(self, done: Path) -> None:
        while not done.exists():
            pass

    @endpoint
    def wait_for_a_value(self, port: Port) -> Any:
        mine, receiver = Channel.open()
        port.send(mine)
        return receiver.recv().get(timeout=20)

    @endpoint
    async def wait_async(self) -> None:
        await self.gate.wait()

    @concurrent_endpoint
    async def wait_beside(self) -> None:
        await self.gate.wait()

    @concurrent_endpoint
    async def open(self) -> None:
        self.gate.set()

    @endpoint
    def nothing(self) -> None:
        pass


@pytest.fixture
def busy(procs):
    mesh = procs.spawn("busy", Busy)
    mesh.nothing.call().get(timeout=20)
    return mesh


def _state(one: Busy) -> Any:
    return status(one).get(timeout=20).item()


def test_an_actor_without_messages_is_idle(busy):
    seen = status(busy).get(timeout=20)
    assert seen.sizes == {"gpus": 3}
    for rank, each in enumerate(seen.values()):
        assert (each.name, each.class_name, each.rank) == ("busy", "Busy", rank)
        assert (each.state, each.handler, each.seconds, each.queued) == ("idle", None, 0.0, 0)
    assert len({each.pid for each in seen.values()}) == 3


def test_a_view_shows_its_members_alone(busy):
    seen = status(busy.slice(gpus=slice(1, 3))).get(timeout=20)
    assert [each.rank for each in seen.values()] == [1, 2]


def test_a_busy_actor_is_running_with_its_handler_and_time(busy, tmp_path, until):
    one, done = busy.slice(gpus=1), tmp_path / "done"
    future = one.spin.call_one(done)
    seen = until(lambda: (found := _state(one)).state == "running" and found)
    assert seen.handler == "spin"
    assert until(lambda: _state(one).seconds > seen.seconds)
    done.touch()
    future.get(timeout=20)
    assert until(lambda: _state(one).state == "idle")


def test_a_constructor_in_progress_is_the_handler(procs, tmp_path, until):
    done = tmp_path / "done"
    one = procs.slice(gpus=0).spawn("slow start", Busy, done)
    seen = until(lambda: (found := _state(one)) and found.handler and found)
    assert seen.handler == "__init__"
    done.touch()
    assert one.initialized.get(timeout=20)


def test_an_actor_that_waits_with_nothing_queued_is_waiting(busy, until):
    one = busy.slice(gpus=0)
    port, receiver = Channel.open()
    future = one.wait_for_a_value.call_one(port)
    way_out = receiver.recv().get(timeout=20)
    seen = until(lambda: (found := _state(one)).state == "waiting" and found)
    assert (seen.handler, seen.queued) == ("wait_for_a_value", 0)
    way_out.send("value")
    assert future.get(timeout=20) == "value"


def test_messages_behind_a_waiting_handler_make_it_blocked(busy, until):
    one = busy.slice(gpus=0)
    port, receiver = Channel.open()
    future = one.wait_for_a_value.call_one(port)
    way_out = receiver.recv().get(timeout=20)
    behind = [one.nothing.call_one() for _ in range(3)]
    seen = until(lambda: (found := _state(one)).queued == 3 and found)
    assert (seen.state, seen.handler) == ("blocked", "wait_for_a_value")
    way_out.send("value")
    assert [each.get(timeout=20) for each in (future, *behind)] == ["value", None, None, None]


def test_an_async_handler_that_awaits_is_waiting(procs, until):
    class OnlyAsync(Actor):
        @endpoint
        async def wait(self, port: Port) -> Any:
            mine, receiver = Channel.open()
            port.send(mine)
            return await receiver.recv()

    one = procs.slice(gpus=0).spawn("async", OnlyAsync)
    port, receiver = Channel.open()
    future = one.wait.call_one(port)
    way_out = receiver.recv().get(timeout=20)
    seen = _state(one)
    assert (seen.state, seen.handler) == ("waiting", "wait")
    way_out.send(1)
    assert future.get(timeout=20) == 1


def test_concurrent_endpoints_in_progress_are_counted(busy, until):
    one = busy.slice(gpus=2)
    futures = [one.wait_beside.call_one() for _ in range(4)]
    seen = until(lambda: (found := _state(one)).concurrent == 4 and found)
    assert (seen.state, seen.handler) == ("idle", None)
    one.open.call_one().get(timeout=20)
    assert [future.get(timeout=20) for future in futures] == [None] * 4
    assert until(lambda: _state(one).concurrent == 0)


def test_an_actor_that_ended_has_no_status(busy):
    busy.slice(gpus=1).stop().get(timeout=20)
    seen = list(status(busy).get(timeout=20).values())
    assert [each and each.rank for each in seen] == [0, None, 2]
