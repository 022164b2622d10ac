"""Sync and async endpoints of one class, in one order; concurrent ones beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from monarch.actor import Actor, Channel, Port, concurrent_endpoint, endpoint, status, this_proc


class Mixed(Actor):
    def __init__(self, path: Path | None = None) -> None:
        self.log: list[Any] = []
        self.opened = asyncio.Event()
        self.path = path

    @endpoint
    def sync_note(self, number: int) -> int:
        self.log.append(number)
        return number

    @endpoint
    async def async_note(self, number: int) -> int:
        await asyncio.sleep(0)
        self.log.append(number)
        return number

    @endpoint
    async def slow_note(self, number: int) -> int:
        await asyncio.sleep(0.001)
        self.log.append(number)
        return number

    @endpoint(explicit_response_port=True)
    def port_note(self, port: Port, number: int) -> None:
        self.log.append(number)
        port.send(number)

    @endpoint
    def take(self) -> list[Any]:
        log, self.log = self.log, []
        return log

    @concurrent_endpoint
    async def wait_beside(self, name: str) -> str:
        self.log.append(name)
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.log.append(f"{name} cancelled")
            raise
        return name

    @endpoint
    async def wait_in_turn(self, escape: Port) -> str:
        mine, receiver = Channel.open()
        escape.send(mine)
        ways_out = [receiver.recv().as_asyncio(), asyncio.ensure_future(self.opened.wait())]
        _, pending = await asyncio.wait(ways_out, return_when=asyncio.FIRST_COMPLETED)
        for way in pending:
            way.cancel()
        return "opened" if self.opened.is_set() else "escaped"

    @endpoint
    async def open(self) -> None:
        self.opened.set()

    def __cleanup__(self, error: Exception | None) -> None:
        if self.path is not None:
            self.path.write_text(repr((error, self.log)))


@pytest.fixture(params=["client", "process"])
def mixed(request, procs):
    where = this_proc() if request.param == "client" else procs.slice(gpus=0)
    return where.spawn("mixed", Mixed)


KINDS = ("sync_note", "async_note", "port_note")


def test_a_thousand_mixed_calls_are_handled_in_the_order_of_sending(mixed):
    futures = [getattr(mixed, KINDS[number % 3]).call_one(number) for number in range(1000)]
    assert [future.get(timeout=30) for future in futures] == [*range(1000)]
    assert mixed.take.call_one().get() == [*range(1000)]


def test_a_quick_message_waits_for_the_slow_one_before_it(mixed):
    for number in range(20):
        getattr(mixed, ("slow_note", "sync_note")[number % 2]).broadcast(number)
    assert mixed.take.call_one().get(timeout=20) == [*range(20)]


def test_a_concurrent_endpoint_does_not_hold_up_the_others(mixed):
    waiting = mixed.wait_beside.call_one("a")
    assert mixed.sync_note.call_one(1).get(timeout=20) == 1
    assert mixed.async_note.call_one(2).get(timeout=20) == 2
    mixed.open.call_one().get(timeout=20)
    assert waiting.get(timeout=20) == "a"


def test_concurrent_endpoints_start_in_the_order_of_sending(mixed):
    names = [f"{number}" for number in range(50)]
    futures = [mixed.wait_beside.call_one(name) for name in names]
    mixed.open.call_one().get(timeout=20)
    assert [future.get(timeout=20) for future in futures] == names
    assert mixed.take.call_one().get() == names


def test_a_message_is_handled_after_the_start_of_the_concurrent_one_before_it(mixed):
    sent = []
    for number in range(50):
        mixed.wait_beside.broadcast(f"{number}")
        mixed.sync_note.broadcast(number)
        sent += [f"{number}", number]
    assert mixed.take.call_one().get(timeout=20) == sent


def test_the_same_pair_unmarked_is_shown_as_blocked(mixed, until):
    port, receiver = Channel.open()
    stuck = mixed.wait_in_turn.call_one(port)
    way_out = receiver.recv().get(timeout=20)
    behind = mixed.open.call_one()
    seen = until(lambda: (found := status(mixed).get(timeout=20).item()).seconds > 0.02 and found)
    assert (seen.state, seen.handler, seen.queued) == ("blocked", "wait_in_turn", 1)
    assert until(lambda: status(mixed).get(timeout=20).item().seconds > seen.seconds)
    way_out.send(None)
    assert stuck.get(timeout=20) == "escaped"
    assert behind.get(timeout=20) is None


def test_concurrent_endpoints_are_cancelled_before_cleanup(procs, tmp_path):
    path = tmp_path / "cleanup"
    mixed = procs.slice(gpus=1).spawn("mixed", Mixed, path)
    waiting = mixed.wait_beside.call_one("a")
    mixed.async_note.call_one(1).get(timeout=20)
    mixed.stop().get(timeout=20)
    assert path.read_text() == repr((None, ["a", 1, "a cancelled"]))
    assert "actor is stopped" in str(waiting.exception(timeout=20))


class OnlyAsync(Actor):
    def __init__(self) -> None:
        self.log: list[int] = []

    @endpoint
    async def note(self, number: int) -> None:
        await asyncio.sleep(0.001 * (number % 3))
        self.log.append(number)

    @endpoint
    async def take(self) -> list[int]:
        return self.log


def test_an_actor_of_async_endpoints_handles_one_message_at_a_time(procs):
    actor = procs.slice(gpus=0).spawn("async", OnlyAsync)
    for number in range(30):
        actor.note.broadcast(number)
    assert actor.take.call_one().get(timeout=20) == [*range(30)]


WAITS_AT_THE_END = """
import asyncio
from monarch.actor import Actor, Channel, endpoint, this_proc

class Mixed(Actor):
    @endpoint
    def sync(self):
        return 1

    @endpoint
    async def wait(self, port):
        port.send("waits")
        await asyncio.Event().wait()

port, receiver = Channel.open()
mixed = this_proc().spawn("mixed", Mixed)
mixed.wait.broadcast(port)
print(receiver.recv().get(30))
"""


def test_an_actor_that_waits_when_the_program_ends_has_not_failed(script):
    done = script(WAITS_AT_THE_END)
    assert (done.returncode, done.stdout, done.stderr) == (0, "waits\n", "")
