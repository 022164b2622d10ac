"""Large buffers go through shared memory, and nobody sees what another does to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monarch._builtin import ipc_transport
from monarch.actor import Actor, Channel, Port, endpoint, this_proc

LARGE = 1 << 20


class Echo(Actor):
    def __init__(self) -> None:
        self.kept: Any = None
        self.log: list[Any] = []

    @endpoint
    def one(self, value: Any) -> Any:
        return value

    @endpoint
    def bump(self, array: Any, by: int = 1) -> Any:
        array += by
        return array

    @endpoint
    def facts(self, value: Any) -> Any:
        return type(value).__name__, memoryview(value).nbytes, memoryview(value).readonly

    @endpoint
    def is_shared(self, array: Any) -> bool:
        return in_shared_memory(array)

    @endpoint
    def keep(self, value: Any) -> None:
        self.kept = value

    @endpoint
    def kept_sum(self) -> int:
        return int(self.kept.sum())

    @endpoint
    def say(self, port: Port, value: Any) -> None:
        port.send(value)


def in_shared_memory(array: Any) -> bool:
    """Whether the memory of an array lies in a segment of some process."""
    address = array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(bound, 16) for bound in line.split()[0].split("-"))
        if first <= address < last:
            return "memfd:monarch" in line
    return False


@pytest.fixture(scope="module")
def echoes(procs):
    return procs.spawn("echoes", Echo)


@pytest.fixture(scope="module")
def echo(echoes):
    return echoes.slice(gpus=0)


@pytest.fixture(scope="module", params=["client", "process"])
def either(request, echo):
    return this_proc().spawn("local", Echo) if request.param == "client" else echo


def test_large_buffers_travel_through_shared_memory_both_ways(echo):
    assert echo.is_shared.call_one(np.ones(LARGE)).get()
    assert in_shared_memory(echo.one.call_one(np.ones(LARGE)).get())
    assert not echo.is_shared.call_one(np.ones(8)).get()


def test_a_segment_comes_back_when_its_reader_is_done_and_is_used_again(echo, until):
    array = np.ones(5 * LARGE, dtype=np.uint8)
    pool, capacity = ipc_transport._pool, 5 * LARGE
    echo.facts.call_one(array).get()
    (segment,) = until(lambda: pool._free[capacity][:])
    for _ in range(10):
        echo.facts.call_one(array).get()
        until(lambda: pool._free[capacity])
    assert pool._free[capacity] == [segment]


def test_a_segment_is_not_used_again_while_its_reader_looks(echo):
    array = np.ones(LARGE, dtype=np.uint8)
    echo.keep.call_one(array).get()
    for number in range(2, 12):
        echo.facts.call_one(np.full(LARGE, number, dtype=np.uint8)).get()
    assert echo.kept_sum.call_one().get() == LARGE


def test_a_result_outlives_the_results_after_it(echo):
    first = echo.one.call_one(np.ones(LARGE)).get()
    part = first[10:20]
    del first
    for number in range(2, 12):
        echo.one.call_one(np.full(LARGE, number)).get()
    assert part.tolist() == [1.0] * 10


def test_what_the_sender_changes_after_sending_is_not_seen(either):
    array = np.ones(LARGE)
    future = either.one.call_one(array)
    array[:] = 2
    assert (future.get() == 1).all()


@pytest.mark.parametrize("count", [8, LARGE], ids=["small", "large"])
def test_what_a_receiver_writes_the_sender_does_not_see(either, count):
    array = np.zeros(count)
    assert (either.bump.call_one(array).get() == 1).all()
    assert not array.any()


@pytest.mark.parametrize("count", [8, LARGE], ids=["small", "large"])
def test_receivers_of_one_cast_do_not_see_what_others_write(echoes, count):
    array = np.zeros(count)
    for by in (1, 2):
        results = echoes.bump.call(array, by).get()
        assert [float(result.sum()) for result in results.values()] == [by * count] * 3
    assert not array.any()


def test_actors_of_one_process_do_not_see_what_others_write(echo, procs):
    array = np.zeros(LARGE)
    echo.keep.call_one(array).get()
    procs.slice(gpus=0).spawn("other", Echo).bump.call_one(array).get()
    assert echo.kept_sum.call_one().get() == 0


def test_a_value_sent_to_a_port_travels_through_shared_memory(echo):
    port, receiver = Channel.open()
    echo.say.broadcast(port, np.ones(LARGE))
    assert in_shared_memory(receiver.recv().get(timeout=20))
