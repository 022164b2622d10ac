"""Which thread reads, and that every waiter is heard."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from monarch._transport.reactor import Reactor, Waiter


@pytest.fixture
def reactor():
    reactor = Reactor()
    yield reactor
    reactor.close()


@pytest.fixture
def stand_by(reactor):
    thread = threading.Thread(target=reactor.stand_by)
    thread.start()
    yield thread
    reactor.close()
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def pipe(reactor):
    """A pipe whose arrivals are read on the leading thread: (write, what arrived and on which thread)."""
    reading, writing = os.pipe()
    arrived: list[tuple[bytes, str]] = []
    hooks: list[Callable[[], None]] = []

    def handle(events: int) -> None:
        arrived.append((os.read(reading, 100), threading.current_thread().name))
        for hook in hooks:
            hook()

    reactor.watch(reading, handle)
    yield lambda content: os.write(writing, content), arrived, hooks
    reactor.forget(reading)
    os.close(reading)
    os.close(writing)


def _start(
    reactor: Reactor, waiter: Waiter, timeout: float | None = 20, name: str = "waiting"
) -> threading.Thread:
    thread = threading.Thread(target=reactor.wait, args=(waiter, timeout), name=name)
    thread.start()
    return thread


def test_a_waiting_thread_reads_what_it_waits_for_itself(reactor, pipe):
    write, arrived, hooks = pipe
    waiter = Waiter()
    hooks.append(lambda: reactor.signal(waiter))
    write(b"answer")
    assert reactor.wait(waiter, 20)
    assert arrived == [(b"answer", threading.current_thread().name)]


def test_a_waiter_signalled_before_it_waits_does_not_wait(reactor):
    waiter = Waiter()
    reactor.signal(waiter)
    assert reactor.wait(waiter)


def test_a_waiter_is_reusable(reactor):
    waiter = Waiter()
    for _ in range(3):
        waiter.reset()
        threading.Timer(0.001, reactor.signal, [waiter]).start()
        assert reactor.wait(waiter, 20)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_wait_that_nobody_signals_ends_with_its_timeout(reactor, eager, timeout):
    began = time.monotonic()
    assert not reactor.wait(Waiter(eager=eager), timeout)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_wait_of_a_follower_ends_with_its_timeout(reactor, timeout, until):
    leading = Waiter()
    leader = _start(reactor, leading)
    until(lambda: leading.leads)
    assert not reactor.wait(Waiter(), timeout)
    reactor.signal(leading)
    leader.join(20)
    assert not leader.is_alive()


def test_a_signal_from_another_thread_wakes_the_leader(reactor, until):
    waiter = Waiter()
    thread = _start(reactor, waiter)
    until(lambda: waiter.leads)
    reactor.signal(waiter)
    thread.join(20)
    assert not thread.is_alive()


def test_when_the_leader_goes_a_follower_leads(reactor, pipe, until):
    write, arrived, hooks = pipe
    waiters = [Waiter(), Waiter()]
    threads = [_start(reactor, waiter, name=f"waiting {n}") for n, waiter in enumerate(waiters)]
    until(lambda: waiters[0].leads or waiters[1].leads)
    first = int(waiters[1].leads)
    reactor.signal(waiters[first])
    threads[first].join(20)
    hooks.append(lambda: reactor.signal(waiters[1 - first]))
    write(b"late")
    threads[1 - first].join(20)
    assert arrived == [(b"late", f"waiting {1 - first}")]


def test_a_patient_leader_gives_way_when_another_thread_got_work(reactor, pipe, until):
    write, arrived, hooks = pipe
    lazy, other = Waiter(eager=False), Waiter(eager=False)
    hooks.append(lambda: reactor.signal(other))
    leader = _start(reactor, lazy, name="leader")
    until(lambda: lazy.leads)
    follower = _start(reactor, other, name="follower")
    write(b"for the follower")
    follower.join(20)
    until(lambda: not lazy.leads)
    reactor.signal(lazy)
    leader.join(20)
    assert arrived == [(b"for the follower", "leader")]


def test_the_stand_by_thread_leads_where_nobody_does(reactor, stand_by, pipe, until):
    write, arrived, _ = pipe
    for number in range(3):
        write(b"x")
        until(lambda number=number: len(arrived) == number + 1)
    assert {name for _, name in arrived} == {stand_by.name}


def test_a_thread_that_waits_is_served_beside_the_stand_by_thread(reactor, stand_by, pipe, until):
    write, arrived, hooks = pipe
    write(b"x")
    until(lambda: arrived)
    for _ in range(50):
        waiter = Waiter()
        hooks[:] = [lambda waiter=waiter: reactor.signal(waiter)]
        write(b"answer")
        assert reactor.wait(waiter, 20)


def test_ticks_come_while_nobody_leads(reactor, until):
    ticks = []
    reactor.on_tick(lambda: ticks.append(1))
    thread = threading.Thread(target=reactor.stand_by)
    thread.start()
    until(lambda: ticks)
    reactor.close()
    thread.join(20)
    assert not thread.is_alive()


def test_a_handler_that_raises_is_logged_and_the_next_runs(reactor, pipe, caplog):
    write, arrived, hooks = pipe
    waiter = Waiter()
    outcomes = [ZeroDivisionError("on purpose"), None]

    def hook() -> None:
        if (error := outcomes.pop(0)) is not None:
            write(b"again")
            raise error
        reactor.signal(waiter)

    hooks.append(hook)
    write(b"first")
    assert reactor.wait(waiter, 20)
    assert len(arrived) == 2
    assert "on purpose" in caplog.text


def test_a_forgotten_descriptor_is_not_read(reactor):
    reading, writing = os.pipe()
    seen = []
    reactor.watch(reading, seen.append)
    reactor.forget(reading)
    reactor.forget(reading)
    os.write(writing, b"x")
    assert not reactor.wait(Waiter(), 0.01)
    assert seen == []
    os.close(reading)
    os.close(writing)


def test_a_writable_descriptor_is_reported_only_while_that_is_wanted(reactor):
    reading, writing = os.pipe()
    waiter, seen = Waiter(), []

    def handle(events: int) -> None:
        seen.append(events)
        reactor.watch_writable(writing, False)
        reactor.signal(waiter)

    reactor.watch(writing, handle)
    reactor.watch_writable(writing, True)
    assert reactor.wait(waiter, 20)
    assert not reactor.wait(Waiter(), 0.01)
    assert len(seen) == 1
    reactor.forget(writing)
    os.close(reading)
    os.close(writing)


def test_closing_lets_every_waiting_thread_go(until):
    reactor = Reactor()
    waiters = [Waiter() for _ in range(3)]
    threads = [_start(reactor, waiter, None) for waiter in waiters]
    until(lambda: any(waiter.leads for waiter in waiters) and len(reactor._followers) == 2)
    reactor.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert not reactor.wait(Waiter())


def test_many_threads_that_wait_at_once_are_all_served(reactor, stand_by):
    served = []

    def serve(number: int) -> None:
        for _ in range(100):
            waiter = Waiter()
            helper = threading.Thread(target=reactor.signal, args=(waiter,))
            helper.start()
            assert reactor.wait(waiter, 20)
            helper.join()
        served.append(number)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(served) == [*range(6)]
