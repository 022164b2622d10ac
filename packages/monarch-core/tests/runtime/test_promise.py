"""Promises: settled once, seen by any number of observers."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from monarch._runtime.promise import Promise
from monarch._transport.reactor import Reactor
from monarch.errors import CallCancelled


@pytest.fixture
def reactor():
    reactor = Reactor()
    yield reactor
    reactor.close()


def test_it_is_settled_once():
    promise = Promise()
    assert (promise.settle(lambda: 1), promise.settle(lambda: 2), promise.cancel()) == (True, False, False)
    assert promise.result() == 1


def test_its_outcome_is_computed_once_by_the_first_observer():
    promise, runs = Promise(), []
    promise.settle(lambda: runs.append("run") or len(runs))
    assert runs == []
    assert [promise.result(), promise.result(), runs] == [1, 1, ["run"]]


def test_an_outcome_that_raises_raises_the_same_error_each_time():
    promise = Promise()
    promise.settle(lambda: 1 // 0)
    errors = []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            promise.result()
        errors.append(caught.value)
    assert errors[0] is errors[1]


def test_a_cancelled_promise_raises_and_withdraws_once():
    withdrawn = []

    class Message(Promise):
        def withdraw(self) -> None:
            withdrawn.append(self)

    promise = Message()
    assert (promise.cancel(), promise.cancel(), withdrawn) == (True, False, [promise])
    assert not promise.settle(lambda: 1)
    with pytest.raises(CallCancelled):
        promise.result()


def test_callbacks_run_once_each_in_order_whenever_they_were_added():
    promise, ran = Promise(), []
    promise.add_callback(lambda: ran.append(1))
    promise.add_callback(lambda: ran.append(2))
    promise.settle(lambda: None)
    promise.add_callback(lambda: ran.append(3))
    promise.cancel()
    assert ran == [1, 2, 3]


def test_a_wait_ends_when_it_is_settled(reactor, until):
    promise, seen = Promise(), []
    waiting = [threading.Thread(target=lambda: seen.append(promise.wait(reactor, 20))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    until(lambda: promise._waiters and len(promise._waiters) == 3)
    promise.settle(lambda: 1)
    for thread in waiting:
        thread.join(20)
    assert seen == [True, True, True]
    assert not promise._waiters


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_wait_ends_with_its_timeout(reactor, timeout):
    promise, began = Promise(), time.monotonic()
    assert not promise.wait(reactor, timeout)
    assert time.monotonic() - began < 5
    assert not promise._waiters


def test_a_wait_for_what_is_settled_does_not_wait(reactor):
    promise = Promise()
    promise.settle(lambda: 1)
    assert promise.wait(reactor, None)


def test_of_many_threads_that_settle_one_wins_and_callbacks_run_once():
    for _ in range(200):
        promise, won, ran = Promise(), [], []
        promise.add_callback(lambda ran=ran: ran.append(1))
        start = threading.Barrier(4)

        def settle(number: int, promise: Promise = promise, won: Any = won, start: Any = start) -> None:
            start.wait()
            if promise.settle(lambda: number):
                won.append(number)

        threads = [threading.Thread(target=settle, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ([promise.result()], ran) == (won, [1])
