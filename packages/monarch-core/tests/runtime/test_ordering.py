"""Messages of one sender to one receiver are handled in the order of sending, whatever the way."""

from __future__ import annotations

import os
import pickle
import random
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monarch._runtime.ordering import Numbering, Ordering, number_for
from monarch._transport.segments import SegmentPool
from monarch.actor import Actor, Port, endpoint, this_host

SIZE = 4

deterministic = settings(derandomize=True, deadline=None)
ranks = st.lists(st.integers(0, SIZE - 1), min_size=1, unique=True)


def _numbered(casts: list[list[int]]) -> dict[int, list[tuple[int, int]]]:
    """What each rank is sent: (number, message) in the order of sending."""
    numbering = Numbering(SIZE)
    sent: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(SIZE)}
    for message, addressed in enumerate(casts):
        number, exceptions = numbering.take(addressed)
        for rank in addressed:
            sent[rank].append((number_for(rank, number, exceptions), message))
    return sent


@deterministic
@given(st.lists(ranks | st.just([*range(SIZE)])))
def test_each_rank_gets_the_numbers_from_zero_without_a_gap(casts):
    for messages in _numbered(casts).values():
        assert [number for number, _ in messages] == [*range(len(messages))]


@deterministic
@given(st.lists(ranks | st.just([*range(SIZE)])), st.randoms(use_true_random=False))
def test_whatever_the_order_of_arrival_messages_come_out_in_the_order_of_sending(casts, chance):
    for messages in _numbered(casts).values():
        arriving = list(messages)
        chance.shuffle(arriving)
        ordering: Ordering[int] = Ordering()
        out = [due for number, message in arriving for due in ordering.accept(b"me", number, message)]
        assert out == [message for _, message in messages]
        assert not ordering.early()


@deterministic
@given(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 5)), max_size=40))
def test_senders_never_wait_for_each_other_and_repeats_are_dropped(arriving):
    ordering: Ordering[tuple[bytes, int]] = Ordering()
    out = [due for item in arriving for due in ordering.accept(*item, item)]
    for sender in (b"a", b"b"):
        mine = [number for who, number in out if who == sender]
        seen = {number for who, number in arriving if who == sender}
        assert mine == [*range(next(n for n in range(7) if n not in seen))]


def test_a_cast_to_all_costs_one_number():
    numbering = Numbering(1000)
    assert [numbering.take(range(1000)) for _ in range(3)] == [(0, b""), (1, b""), (2, b"")]


def test_numbers_are_level_again_once_every_rank_had_its_own():
    numbering = Numbering(3)
    for rank in range(3):
        numbering.take([rank])
    assert numbering.take(range(3)) == (1, b"")


def test_a_message_held_back_is_early_until_the_gap_closes():
    ordering: Ordering[str] = Ordering()
    assert ordering.accept(b"me", 1, "second") == ()
    assert ordering.early() == ["second"]
    assert list(ordering.accept(b"me", 0, "first")) == ["first", "second"]
    assert ordering.early() == []


# ---- end to end


class Log(Actor):
    def __init__(self) -> None:
        self.log: list[Any] = []

    @endpoint
    def note(self, *message: Any) -> Any:
        self.log.append(message[0] if len(message) == 1 else message)

    @endpoint
    async def note_async(self, message: Any) -> None:
        self.log.append(message)

    @endpoint(explicit_response_port=True)
    def note_with_port(self, port: Port, message: Any) -> None:
        self.log.append(message)
        port.send(None)

    @endpoint
    def take(self) -> list[Any]:
        log, self.log = self.log, []
        return log

    @endpoint
    def send_many(self, mesh: Log, plan: list[tuple[str, int]]) -> None:
        _carry_out(mesh, plan)


@pytest.fixture(scope="module")
def grid():
    procs = this_host().spawn_procs({"x": 2, "y": 2})
    yield procs.spawn("log", Log)
    procs.stop().get(timeout=30)


VIEWS = [
    lambda mesh: mesh,
    lambda mesh: mesh.slice(x=0),
    lambda mesh: mesh.slice(x=1),
    lambda mesh: mesh.slice(y=0),
    lambda mesh: mesh.slice(y=slice(1, 2)),
    lambda mesh: mesh.slice(x=0, y=0),
    lambda mesh: mesh.slice(x=1, y=0),
    lambda mesh: mesh.slice(x=1, y=1),
    lambda mesh: mesh.flatten("all"),
    lambda mesh: mesh.flatten("all").slice(all=slice(1, 4)),
    lambda mesh: mesh.flatten("all").slice(all=slice(0, 4, 3)),
    lambda mesh: mesh.rename(x="dp").slice(dp=slice(0, 1)),
    lambda mesh: mesh.split(y=("u", "v"), u=2).slice(u=1),
    lambda mesh: pickle.loads(pickle.dumps(mesh)),
    lambda mesh: pickle.loads(pickle.dumps(mesh.slice(x=1))).slice(y=1),
]

ADVERBS = ["broadcast", "call", "stream", "choose", "call_one"]
KINDS = ["note", "note_async", "note_with_port"]


def _carry_out(mesh: Log, plan: list[tuple[str, int]]) -> dict[int, list[int]]:
    """Send numbered messages; return what each rank has to have logged, but for those sent by choose."""
    expected: dict[int, list[int]] = {rank: [] for rank in range(SIZE)}
    futures: list[Any] = []
    for number, (adverb, view) in enumerate(plan):
        part: Any = VIEWS[view](mesh)
        if adverb == "call_one" and len(part) > 1:
            adverb = "call"
        result = getattr(getattr(part, KINDS[number % len(KINDS)]), adverb)(number)
        if adverb == "stream":
            futures += result
        elif adverb != "broadcast":
            futures.append(result)
        if adverb != "choose":
            for rank in part._ndslice:
                expected[rank].append(number)
    for future in futures:
        future.get(timeout=30)
    return expected


plans = st.lists(st.tuples(st.sampled_from(ADVERBS), st.integers(0, len(VIEWS) - 1)), min_size=1, max_size=30)


def _check(plan: list[tuple[str, int]], expected: dict[int, list[int]], logs: list[list[int]]) -> None:
    chosen = {number for number, (adverb, _) in enumerate(plan) if adverb == "choose"}
    for rank, log in enumerate(logs):
        assert log == sorted(log)
        assert [number for number in log if number not in chosen] == expected[rank]
    assert sorted(number for log in logs for number in log if number in chosen) == sorted(chosen)


@settings(deterministic, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plans)
def test_casts_and_single_messages_of_one_sender_stay_in_order(grid, plan):
    expected = _carry_out(grid, plan)
    _check(plan, expected, list(grid.take.call().get(timeout=30).values()))


def test_an_actor_that_sends_keeps_its_order_too(grid):
    chance = random.Random(1)
    plan = [(chance.choice(ADVERBS[:3]), chance.randrange(len(VIEWS))) for _ in range(200)]
    expected = {rank: [] for rank in range(SIZE)}
    for number, (_, view) in enumerate(plan):
        for rank in VIEWS[view](grid)._ndslice:
            expected[rank].append(number)
    sender = grid.slice(x=0, y=1)
    sending = this_host().spawn_procs().spawn("sender", Log)
    sending.send_many.call_one(grid, plan).get(timeout=60)
    assert sender.take.call_one().get(timeout=30) == expected[1]
    assert grid.slice(x=1).take.call().get(timeout=30).item(y=1) == expected[3]
    grid.take.call().get(timeout=30)


def test_threads_of_one_client_keep_their_own_order(grid):
    def send(thread: int) -> None:
        for number in range(100):
            VIEWS[number % 8](grid).note.broadcast(thread, number)
            grid.note.broadcast(thread, number)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    for log in grid.take.call().get(timeout=30).values():
        for who in range(4):
            mine = [number for thread, number in log if thread == who]
            assert mine == sorted(mine)
            assert set(mine) == set(range(100))


def test_large_and_small_messages_keep_their_order(grid):
    one, loads = grid.slice(x=0, y=0), [b"", os.urandom(1 << 20)]
    for number in range(40):
        one.note.broadcast(number, loads[number % 2])
    assert [number for number, _ in one.take.call_one().get(timeout=30)] == [*range(40)]


@pytest.mark.parametrize("error", [OSError(24, "too many open files"), KeyboardInterrupt()], ids=repr)
def test_a_message_that_could_not_be_sent_leaves_no_gap(procs, monkeypatch, error):
    def fail(*args: Any) -> None:
        raise error

    one = procs.slice(gpus=0).spawn("log", Log)
    one.note.call_one("before").get(timeout=30)
    with monkeypatch.context() as patched:
        patched.setattr(SegmentPool, "place", fail)
        with pytest.raises(type(error)):
            one.note.broadcast(os.urandom(1 << 20))
    assert one.take.call_one().get(timeout=5) == ["before"]


# ---- a receiver that takes the place of one that is gone


def test_a_receiver_that_joins_begins_with_the_first_number_it_sees():
    ordering = Ordering(joining=True)
    assert [list(ordering.accept(b"s", number, number)) for number in (17, 18)] == [[17], [18]]


def test_a_receiver_that_joins_keeps_the_order_from_there():
    ordering = Ordering(joining=True)
    ordering.accept(b"s", 17, 17)
    assert ordering.accept(b"s", 19, 19) == ()
    assert list(ordering.accept(b"s", 18, 18)) == [18, 19]


def test_what_another_thread_of_the_sender_sent_at_the_same_time_is_not_lost():
    ordering = Ordering(joining=True)
    ordering.accept(b"s", 17, 17)
    assert list(ordering.accept(b"s", 16, 16)) == [16]


def test_a_number_seen_before_yields_nothing_in_a_receiver_that_joins():
    ordering = Ordering(joining=True)
    ordering.accept(b"s", 17, 17)
    assert ordering.accept(b"s", 17, 17) == ()


def test_a_gap_that_will_not_be_filled_can_be_skipped():
    ordering = Ordering(joining=True)
    ordering.accept(b"s", 17, 17)
    for number in (20, 19):
        ordering.accept(b"s", number, number)
    assert list(ordering.skip()) == [19, 20]
    assert list(ordering.accept(b"s", 21, 21)) == [21]


@given(st.data())
def test_a_receiver_that_joins_loses_and_repeats_nothing(data):
    first = data.draw(st.integers(0, 100))
    numbers = data.draw(st.permutations(range(first, first + 12)))
    ordering = Ordering(joining=True)
    got = [work for number in numbers for work in ordering.accept(b"s", number, number)]
    got += ordering.skip()
    assert sorted(got) == sorted(numbers)


def test_what_was_late_and_not_lost_is_due_when_it_comes() -> None:
    ordering: Ordering[str] = Ordering(joining=True)
    assert ordering.accept(b"s", 4, "four") == ("four",)
    assert ordering.accept(b"s", 6, "six") == ()
    assert ordering.skip() == ["six"]
    assert ordering.accept(b"s", 5, "five") == ("five",)
    assert list(ordering.accept(b"s", 7, "seven")) == ["seven"]
