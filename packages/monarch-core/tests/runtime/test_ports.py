"""What stands behind a port, and what each kind does with an answer."""

from __future__ import annotations

import pytest

from monarch._runtime.ports import Gather, InArrivalOrder, Inbox, OneAnswer, Ports, raising
from monarch._runtime.promise import Promise


def _value(value):
    return lambda: value


@pytest.fixture
def ports():
    return Ports()


def _give(ports, number, rank, value):
    ports.take(number, rank, _value(value), False)


def _fail(ports, number, rank, error):
    ports.take(number, rank, raising(error), True)


def test_one_answer_settles_and_closes_its_port(ports):
    promise = Promise()
    number = ports.open(OneAnswer(promise))
    _give(ports, number, 0, "first")
    _give(ports, number, 0, "second")
    assert promise.result() == "first"
    assert ports._sinks == {}


def test_ports_have_different_numbers_and_none_has_zero(ports):
    numbers = [ports.open(OneAnswer(Promise())) for _ in range(3)]
    assert len({0, *numbers}) == 4


def test_what_arrives_at_a_closed_port_is_dropped(ports):
    promise = Promise()
    number = ports.open(OneAnswer(promise))
    ports.close(number)
    _give(ports, number, 0, "late")
    _fail(ports, number, 0, ValueError())
    assert not promise.settled


def test_all_answers_together_are_in_the_order_of_ranks(ports):
    promise = Promise()
    number = ports.open(Gather(promise, 3, list))
    for rank in (2, 0, 0, 1):
        assert not promise.settled
        _give(ports, number, rank, f"of {rank}")
    assert promise.result() == ["of 0", "of 1", "of 2"]
    assert ports._sinks == {}


def test_the_first_error_settles_all_answers_and_closes_the_port(ports):
    promise = Promise()
    number = ports.open(Gather(promise, 3, list))
    _give(ports, number, 1, "fine")
    _fail(ports, number, 2, ValueError("first"))
    _fail(ports, number, 0, ValueError("second"))
    with pytest.raises(ValueError, match="first"):
        promise.result()
    assert ports._sinks == {}


def test_answers_in_order_of_arrival_take_the_next_promise_each(ports):
    promises = [Promise() for _ in range(3)]
    number = ports.open(InArrivalOrder(promises))
    _give(ports, number, 2, "a")
    _give(ports, number, 2, "again")
    _fail(ports, number, 0, ValueError("b"))
    _give(ports, number, 1, "c")
    assert (promises[0].result(), promises[2].result()) == ("a", "c")
    with pytest.raises(ValueError, match="b"):
        promises[1].result()
    assert ports._sinks == {}


def test_an_answer_for_a_cancelled_promise_goes_to_the_next(ports):
    promises = [Promise() for _ in range(3)]
    number = ports.open(InArrivalOrder(promises))
    promises[0].cancel()
    for rank in range(3):
        _give(ports, number, rank, rank)
    assert [promise.result() for promise in promises[1:]] == [0, 1]


def test_an_inbox_keeps_values_until_somebody_takes_them(ports):
    inbox = Inbox(once=False, ranked=False)
    number = ports.open(inbox)
    for value in "ab":
        _give(ports, number, 0, value)
    taken = [inbox.next() for _ in range(3)]
    _give(ports, number, 0, "c")
    assert [promise.result() for promise in taken] == ["a", "b", "c"]


def test_an_inbox_of_one_value_ignores_more_with_a_warning(ports, caplog):
    inbox = Inbox(once=True, ranked=True)
    number = ports.open(inbox)
    _give(ports, number, 5, "first")
    _give(ports, number, 6, "second")
    assert inbox.next().result() == (5, "first")
    assert not inbox.next().settled
    assert "second value" in caplog.text


def test_a_view_with_ranks_shares_the_values_of_its_inbox(ports):
    inbox = Inbox(once=False, ranked=False)
    number = ports.open(inbox)
    ranked = inbox.as_ranked()
    for value in "ab":
        _give(ports, number, 7, value)
    assert (ranked.next().result(), inbox.next().result()) == ((7, "a"), "b")


def test_a_cancelled_taker_leaves_the_value_to_the_next(ports):
    inbox = Inbox(once=False, ranked=False)
    number = ports.open(inbox)
    given_up, wanted = inbox.next(), inbox.next()
    given_up.cancel()
    _give(ports, number, 0, "only")
    assert wanted.result() == "only"


def test_an_error_in_an_inbox_is_raised_by_its_taker_alone(ports):
    inbox = Inbox(once=False, ranked=False)
    number = ports.open(inbox)
    _fail(ports, number, 0, KeyError("on purpose"))
    _give(ports, number, 0, "next")
    with pytest.raises(KeyError, match="on purpose"):
        inbox.next().result()
    assert inbox.next().result() == "next"
