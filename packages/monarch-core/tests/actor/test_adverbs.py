"""The ways to send a message: call, call_one, choose, broadcast, stream, send, accumulate."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from monarch.actor import (
    Accumulator,
    Actor,
    ActorError,
    Channel,
    Port,
    ValueMesh,
    concurrent_endpoint,
    current_rank,
    endpoint,
    send,
)


class Member(Actor):
    def __init__(self) -> None:
        self.rank = current_rank()
        self.log: list[Any] = []
        self.gate = asyncio.Event()

    @endpoint
    def number(self) -> int:
        return self.rank.rank

    @endpoint
    def note(self, text: str) -> None:
        self.log.append(text)

    @endpoint
    def notes(self) -> list[Any]:
        return self.log

    @concurrent_endpoint
    async def wait(self) -> int:
        await self.gate.wait()
        return self.rank.rank

    @endpoint
    async def open(self) -> None:
        self.gate.set()

    @endpoint
    def fail_on(self, rank: int) -> int:
        if self.rank.rank == rank:
            raise ValueError(f"rank {rank}")
        return self.rank.rank

    @endpoint
    def relay(self, other: Member) -> list[int]:
        return sorted(future.get() for future in other.number.stream())

    @endpoint(explicit_response_port=True)
    def hand_on(self, port: Port, other: Member) -> None:
        other.answer.broadcast(port)

    @endpoint
    def answer(self, port: Port) -> None:
        port.send("handed on")


@pytest.fixture
def members(procs):
    return procs.spawn("members", Member)


# ---- call


def test_call_returns_the_results_in_the_shape_of_the_mesh(members):
    results = members.number.call().get()
    assert isinstance(results, ValueMesh)
    assert [(dict(point), value) for point, value in results] == [({"gpus": rank}, rank) for rank in range(3)]


@pytest.mark.parametrize(
    ("view", "sizes", "ranks"),
    [
        pytest.param(lambda mesh: mesh.slice(gpus=slice(1, 3)), {"gpus": 2}, [1, 2], id="range"),
        pytest.param(lambda mesh: mesh.slice(gpus=slice(0, 3, 2)), {"gpus": 2}, [0, 2], id="step"),
        pytest.param(lambda mesh: mesh.slice(gpus=2), {}, [2], id="one"),
        pytest.param(lambda mesh: mesh.rename(gpus="dp"), {"dp": 3}, [0, 1, 2], id="renamed"),
        pytest.param(lambda mesh: mesh.split(gpus=("a", "b"), b=3), {"a": 1, "b": 3}, [0, 1, 2], id="split"),
    ],
)
def test_a_view_of_the_mesh_is_called_in_its_own_shape(members, view, sizes, ranks):
    results = view(members).number.call().get()
    assert (results.sizes, list(results.values())) == (sizes, ranks)


def test_call_raises_the_error_of_one_member(members):
    error = members.fail_on.call(1).exception()
    assert isinstance(error, ActorError)
    assert str(error.exception) == "rank 1"


def test_an_actor_calls_a_mesh_as_the_client_does(members):
    assert members.slice(gpus=0).relay.call_one(members.slice(gpus=slice(1, 3))).get() == [1, 2]


# ---- choose


def test_choose_takes_members_of_equal_load_in_turn(members):
    assert sorted(members.number.choose().get() for _ in range(3)) == [0, 1, 2]


def test_choose_prefers_the_least_loaded_member(members):
    waiting = [members.slice(gpus=rank).wait.call_one() for rank in (0, 2)]
    assert [members.number.choose().get() for _ in range(6)] == [1] * 6
    members.open.call().get()
    assert [future.get() for future in waiting] == [0, 2]
    assert {members.number.choose().get() for _ in range(3)} == {0, 1, 2}


def test_chosen_calls_in_flight_are_spread(members):
    chosen = [members.wait.choose() for _ in range(6)]
    members.open.call().get()
    assert sorted(future.get() for future in chosen) == [0, 0, 1, 1, 2, 2]


def test_a_call_answered_by_another_process_is_no_load_any_more(members):
    first = members.slice(gpus=0)
    assert first.hand_on.call_one(members.slice(gpus=1)).get() == "handed on"
    assert {members.number.choose().get() for _ in range(6)} == {0, 1, 2}


# ---- broadcast


def test_broadcast_returns_nothing_and_is_handled_before_what_follows(members):
    assert members.note.broadcast("hello") is None
    assert list(members.notes.call().get().values()) == [["hello"]] * 3


def test_a_broadcast_to_a_slice_reaches_the_slice_alone(members):
    members.slice(gpus=slice(0, 2)).note.broadcast("two")
    assert list(members.notes.call().get().values()) == [["two"], ["two"], []]


# ---- stream


def test_stream_yields_answers_in_the_order_of_arrival(members):
    arrivals = members.wait.stream()
    for rank in (2, 0, 1):
        members.slice(gpus=rank).open.broadcast()
        assert next(arrivals).get() == rank
    assert next(arrivals, "no more") == "no more"


def test_stream_sends_when_it_is_called(members):
    unread = members.note.stream("sent")
    assert list(members.notes.call().get().values()) == [["sent"]] * 3
    assert len(list(unread)) == 3


def test_an_error_in_a_stream_is_that_of_one_future(members):
    outcomes = [future.exception() or future.get() for future in members.fail_on.stream(1)]
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ActorError", "int", "int"]


def test_cancelling_one_future_of_a_stream_leaves_the_others(members):
    first, *others = members.wait.stream()
    first.cancel()
    members.open.call().get()
    assert len({future.get(timeout=5) for future in others} & {0, 1, 2}) == 2


# ---- send


def test_send_delivers_answers_to_the_port_with_their_ranks(members):
    port, receiver = Channel.open_ranked()
    send(members.number, (), {}, port=port)
    assert sorted(receiver.recv().get() for _ in range(3)) == [(0, 0), (1, 1), (2, 2)]


def test_send_without_a_port_is_a_broadcast(members):
    send(members.note, ("sent",), {})
    assert list(members.notes.call().get().values()) == [["sent"]] * 3


def test_send_to_a_chosen_member_reaches_exactly_one(members):
    port, receiver = Channel.open()
    send(members.note, (), {"text": "one"}, port=port, selection="choose")
    assert receiver.recv().get() is None
    assert sorted(members.notes.call().get().values()) == [[], [], ["one"]]


def test_an_error_after_send_is_raised_by_the_receiver(members):
    port, receiver = Channel.open()
    send(members.slice(gpus=1).fail_on, (1,), {}, port=port)
    with pytest.raises(ActorError, match="ValueError: rank 1"):
        receiver.recv().get()


class Collector(Actor):
    @endpoint
    def ask(self, port: Port, members: Member) -> None:
        send(members.number, (), {}, port=port)


def test_answers_may_go_to_a_port_of_a_third_process(procs, members):
    collector = procs.slice(gpus=2).spawn("collector", Collector)
    port, receiver = Channel.open()
    collector.ask.call_one(port, members).get()
    assert sorted(receiver.recv().get() for _ in range(3)) == [0, 1, 2]


# ---- accumulate


def test_an_accumulator_folds_the_answers_from_its_identity_on(members):
    assert Accumulator(members.number, 10, lambda a, b: a + b).accumulate().get() == 13


def test_an_accumulator_raises_the_error_of_a_member(members):
    future = Accumulator(members.fail_on, 0, lambda a, b: a + b).accumulate(2)
    with pytest.raises(ActorError, match="rank 2"):
        future.get()


def test_an_accumulator_raises_what_its_function_raises(members):
    with pytest.raises(ZeroDivisionError):
        Accumulator(members.number, 1, lambda a, b: a / 0).accumulate().get()
