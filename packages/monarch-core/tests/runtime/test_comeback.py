"""Restarts of the ranks of one mesh, counted by generations."""

from __future__ import annotations

import asyncio
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from monarch._runtime.comeback import Comeback
from monarch._runtime.restart import Restart
from monarch._runtime.work import Work
from monarch.wire.codec import Envelope

POLICY = Restart("mesh", limit=1000, backoff=0)


def rank_of_a_mesh(*, joining: bool = False) -> Comeback:
    comeback = Comeback(POLICY, joining=joining)
    comeback.birth = Work(Envelope(), (), None)  # type: ignore[arg-type]
    return comeback


@given(st.data())
def test_whatever_the_order_each_rank_restarts_once_for_each_generation_that_failed(
    data: st.DataObject,
) -> None:
    """Ranks fail at random, and hear of each other's failures at random, in the order of each sender."""
    size = 3
    ranks = [rank_of_a_mesh() for _ in range(size)]
    ended: list[list[int]] = [[] for _ in ranks]
    failed = set()
    inbox: dict[tuple[int, int], list[int]] = {(a, b): [] for a in range(size) for b in range(size) if a != b}

    def fail(rank: int) -> None:
        decision = ranks[rank].decide(rank)
        if decision is None:
            return
        ended[rank].append(decision.generation)
        failed.add(decision.generation)
        for (sender, _), waiting in inbox.items():
            if sender == rank:
                waiting.append(decision.generation)

    def hear(sender: int, rank: int) -> None:
        if inbox[sender, rank]:
            decision = ranks[rank].decide(rank, inbox[sender, rank].pop(0))
            if decision is not None:
                ended[rank].append(decision.generation)

    def finish(rank: int) -> None:
        ranks[rank].under_way = False

    steps = [partial(act, rank) for act in (fail, finish) for rank in range(size)]
    steps += [partial(hear, *pair) for pair in inbox]
    for step in data.draw(st.lists(st.sampled_from(steps), max_size=40)):
        step()
    for pair, waiting in inbox.items():
        while waiting:
            hear(*pair)
    assert len({each._generation for each in ranks}) == 1
    for generations in ended:
        assert generations == sorted(set(generations))
        assert failed.issuperset(generations)


def test_a_rank_that_does_not_know_the_generation_restarts_with_the_others_and_learns_it() -> None:
    joined = rank_of_a_mesh(joining=True)
    assert joined.decide(0, heard=7) == (0.0, 7)
    joined.under_way = False
    assert joined.decide(0) == (0.0, 8)


def test_a_failure_in_a_generation_that_is_not_known_is_always_news() -> None:
    assert rank_of_a_mesh(joining=True).decide(0) == (0.0, 0)
    assert rank_of_a_mesh().decide(1, heard=0) == (0.0, 0)


def test_one_that_has_not_begun_begins_with_the_others() -> None:
    assert Comeback(POLICY, joining=False).decide(0, heard=1) is None


def test_what_is_to_stop_does_not_wait() -> None:
    async def stop_meanwhile() -> None:
        comeback = Comeback(POLICY, joining=False)
        waiting = asyncio.create_task(comeback.back_off(1000))
        await asyncio.sleep(0)
        comeback.give_up()
        await asyncio.wait_for(waiting, 20)
        await comeback.back_off(1000)

    asyncio.run(stop_meanwhile())
