"""How many restarts there are, and how long each waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monarch._runtime.restart import NEVER, Budget, Restart
from monarch.errors import WrongArgument


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_the_wait_doubles_up_to_the_longest(clock):
    budget = Budget(Restart("rank", limit=5, backoff=1, longest_backoff=5), clock)
    assert [budget.spend(0) for _ in range(6)] == [1, 2, 4, 5, 5, None]


def test_restarts_that_are_long_ago_do_not_count(clock):
    budget = Budget(Restart("rank", limit=1, within=60, backoff=1), clock)
    budget.spend(0)
    clock.now = 59.9
    assert budget.spend(0) is None
    clock.now = 60.0
    assert budget.spend(0) == 1


def test_each_rank_counts_its_own(clock):
    budget = Budget(Restart("rank", limit=1), clock)
    assert [budget.spend(0), budget.spend(1), budget.spend(0)] == [0.1, 0.1, None]


def test_a_mesh_counts_the_failures_of_all_its_ranks(clock):
    budget = Budget(Restart("mesh", limit=1), clock)
    assert [budget.spend(0), budget.spend(1)] == [0.1, None]


def test_never_is_never(clock):
    assert Budget(NEVER, clock).spend(0) is None


@given(
    limit=st.integers(1, 5),
    pauses=st.lists(st.floats(0, 20), max_size=40),
)
def test_there_are_never_more_than_the_limit_within_the_time(limit, pauses):
    clock = Clock()
    budget = Budget(Restart("rank", limit=limit, within=30), clock)
    restarts = []
    for pause in pauses:
        clock.now += pause
        if budget.spend(0) is not None:
            restarts.append(clock.now)
    for last, moment in enumerate(restarts):
        assert sum(moment - 30 < each <= moment for each in restarts[: last + 1]) <= limit


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("limit", 0),
        ("limit", 1.5),
        ("limit", True),
        ("within", -1),
        ("backoff", "1s"),
        ("backoff", float("inf")),
    ],
)
def test_a_value_out_of_range_is_named(field, value):
    with pytest.raises(WrongArgument, match=field):
        Restart("rank", **{field: value})
