"""Channels: ports travel, receivers stay."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any

import pytest

from monarch.actor import Actor, Channel, Port, context, endpoint
from monarch.errors import ActorError, CallCancelled, PicklingError


class Teller(Actor):
    def __init__(self, port: Port | None = None) -> None:
        self.port = port

    @endpoint
    def tell(self, port: Port, count: int) -> None:
        for number in range(count):
            port.send((context().actor_instance.rank.rank, number))

    @endpoint
    def tell_the_first_port(self, value: Any) -> None:
        assert self.port is not None
        self.port.send(value)

    @endpoint
    def fail(self, port: Port) -> None:
        port.exception(KeyError("on purpose"))

    @endpoint
    def send_what_cannot_be_pickled(self, port: Port) -> str:
        with pytest.raises(PicklingError) as caught:
            port.send(threading.Lock())
        return str(caught.value)

    @endpoint
    def receive(self, peer: Any, count: int) -> list[Any]:
        port, receiver = Channel.open()
        peer.tell.broadcast(port, count)
        return [receiver.recv().get(timeout=20) for _ in range(count)]

    @endpoint
    async def receive_async(self, peer: Any) -> Any:
        port, receiver = Channel.open(once=True)
        peer.tell.broadcast(port, 1)
        return await receiver.recv()


@pytest.fixture(scope="module")
def tellers(procs):
    return procs.spawn("tellers", Teller)


def test_values_of_one_sender_arrive_in_order(tellers):
    port, receiver = Channel.open()
    tellers.slice(gpus=1).tell.broadcast(port, 100)
    assert [receiver.recv().get(timeout=20) for _ in range(100)] == [(1, number) for number in range(100)]


def test_values_of_many_senders_arrive_each_in_its_order(tellers):
    port, receiver = Channel.open()
    tellers.tell.broadcast(port, 20)
    values = [receiver.recv().get(timeout=20) for _ in range(60)]
    assert [number for rank in range(3) for who, number in values if who == rank] == [*range(20)] * 3


def test_recv_may_come_before_the_values(tellers):
    port, receiver = Channel.open()
    futures = [receiver.recv() for _ in range(3)]
    tellers.slice(gpus=0).tell.broadcast(port, 3)
    assert [future.get(timeout=20) for future in futures] == [(0, 0), (0, 1), (0, 2)]


def test_a_port_sends_within_its_own_process():
    port, receiver = Channel.open()
    port.send({"from": "client"})
    assert asyncio.run(_await(receiver.recv())) == {"from": "client"}


def test_what_arrives_is_a_copy(tellers):
    port, receiver = Channel.open()
    value = ["sent"]
    port.send(value)
    value.append("changed later")
    assert receiver.recv().get(timeout=20) == ["sent"]


def test_a_port_given_to_a_constructor_is_used_later(procs):
    port, receiver = Channel.open()
    teller = procs.slice(gpus=0).spawn("teller", Teller, port)
    teller.tell_the_first_port.broadcast("now")
    assert receiver.recv().get(timeout=20) == "now"


def test_a_port_sent_through_a_port_still_works():
    outer, receiver = Channel.open()
    inner, answers = Channel.open()
    outer.send(inner)
    receiver.recv().get(timeout=20).send("through")
    assert answers.recv().get(timeout=20) == "through"


@pytest.mark.parametrize("name", ["receive", "receive_async"])
def test_an_actor_opens_channels_of_its_own(tellers, name):
    count = [3] if name == "receive" else []
    peer, actor = tellers.slice(gpus=0), tellers.slice(gpus=1)
    values = getattr(actor, name).call_one(peer, *count).get(timeout=20)
    assert values == ([(0, 0), (0, 1), (0, 2)] if count else (0, 0))


# ---- exceptions


def test_an_exception_sent_is_raised_by_recv_and_the_channel_goes_on(tellers):
    port, receiver = Channel.open()
    tellers.slice(gpus=0).fail.broadcast(port)
    tellers.slice(gpus=0).tell.broadcast(port, 1)
    with pytest.raises(ActorError) as caught:
        receiver.recv().get(timeout=20)
    assert caught.value.exception.args == ("on purpose",)
    assert receiver.recv().get(timeout=20) == (0, 0)


def test_a_value_that_cannot_be_pickled_is_an_error_of_its_sender(tellers):
    port, receiver = Channel.open()
    text = tellers.slice(gpus=0).send_what_cannot_be_pickled.call_one(port).get()
    assert text.startswith("the lock sent to a port cannot be pickled")
    tellers.slice(gpus=0).tell.broadcast(port, 1)
    assert receiver.recv().get(timeout=20) == (0, 0)


# ---- taking


def test_a_timeout_takes_no_value():
    port, receiver = Channel.open()
    future = receiver.recv()
    with pytest.raises(TimeoutError):
        future.get(timeout=0.01)
    port.send("late")
    assert future.get(timeout=20) == "late"


def test_a_cancelled_recv_leaves_the_value_to_the_next():
    port, receiver = Channel.open()
    given_up, wanted = receiver.recv(), receiver.recv()
    given_up.cancel()
    port.send("only")
    assert wanted.get(timeout=20) == "only"
    assert isinstance(given_up.exception(), CallCancelled)


def test_each_value_goes_to_one_of_many_takers():
    port, receiver = Channel.open()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        taken = [pool.submit(lambda: receiver.recv().get(timeout=20)) for _ in range(40)]
        for number in range(40):
            port.send(number)
        assert sorted(each.result() for each in taken) == [*range(40)]


# ---- once


def test_a_second_value_on_a_port_of_one_value_is_ignored_with_a_warning():
    port, receiver = Channel.open(once=True)
    port.send("first")
    with pytest.warns(UserWarning, match="second answer is ignored"):
        port.send("second")
    assert receiver.recv().get(timeout=20) == "first"
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=0)


@pytest.mark.parametrize("opened", [Channel.open, Channel.open_ranked], ids=["open", "open_ranked"])
def test_copies_of_a_port_of_one_value_send_one_value(opened, tellers, caplog, until):
    port, receiver = opened(once=True)
    for rank in (0, 1):
        tellers.slice(gpus=rank).tell.call_one(port, 1).get()
    first = receiver.recv().get(timeout=20)
    until(lambda: "got a second value; it is ignored" in caplog.text)
    assert first in ((0, 0), (1, 0), (0, (0, 0)), (1, (1, 0)))
    with pytest.raises(TimeoutError):
        receiver.recv().get(timeout=0)


# ---- ranked


class Opener(Actor):
    @endpoint
    def open_and_send(self, port: Port) -> None:
        mine, receiver = Channel.open_ranked()
        mine.send("mine")
        port.send(receiver.recv().get(timeout=20))


def test_a_ranked_receiver_says_whose_port_it_was(procs):
    port, receiver = Channel.open()
    procs.spawn("openers", Opener).slice(gpus=2).open_and_send.broadcast(port)
    assert receiver.recv().get(timeout=20) == (2, "mine")


def test_any_receiver_has_a_ranked_view():
    port, receiver = Channel.open()
    port.send("from the client")
    assert receiver.ranked().recv().get(timeout=20) == (0, "from the client")


def test_both_views_of_a_receiver_take_from_the_same_values():
    port, receiver = Channel.open_ranked()
    ranked = receiver.ranked()
    port.send("a")
    port.send("b")
    assert (ranked.recv().get(timeout=20), receiver.recv().get(timeout=20)) == ((0, "a"), (0, "b"))


async def _await(future: Any) -> Any:
    return await future
