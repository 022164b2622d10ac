"""Ends of processes, as one process learns of them from their agent."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from monarch._runtime.fates import Fates
from monarch._runtime.peers import Peer
from monarch._runtime.process import Later
from monarch.errors import MeshClosed, ProcessDied, SupervisionError

ADDRESS, AGENT = "ipc:///x/proc", "ipc:///x/agent"


class Clock:
    """The timers of a process, which run when the test says so."""

    def __init__(self) -> None:
        self.actions: list[Callable[[], object]] = []

    def later(self, seconds: float, action: Callable[[], object]) -> Later:
        self.actions.append(timer := Later(action))
        return timer

    def run(self) -> None:
        actions, self.actions = self.actions, []
        for action in actions:
            action()

    def run_next(self) -> None:
        self.actions.pop(0)()


class Asker:
    """Wants to know how one incarnation ended, and notes what it is told."""

    def __init__(self, fates: Fates, incarnation: int = 0) -> None:
        self.heard: list[SupervisionError] = []
        self.overdue: list[SupervisionError] = []
        peer = Peer(ADDRESS, None)
        peer.incarnation = incarnation
        fates.resolve(peer, self.heard.append, self.overdue.append)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fates(clock: Clock) -> Fates:
    """Those of the agent itself, which hears of the ends by other ways."""
    fates = Fates(SimpleNamespace(address=AGENT, later=clock.later))  # type: ignore[arg-type]
    fates.introduce((ADDRESS,), AGENT)
    return fates


def died(incarnation: int, *, restarting: bool = True) -> ProcessDied:
    return ProcessDied("died", restarting=restarting, incarnation=incarnation)


def test_a_process_that_was_restarted_can_end_again_at_any_time(fates: Fates, clock: Clock) -> None:
    Asker(fates)
    fates.declare(ADDRESS, died(0))
    clock.run()
    again = Asker(fates, 1)
    assert (again.heard, again.overdue) == ([], [])
    second = died(1)
    fates.declare(ADDRESS, second, 1)
    assert again.heard == [second]


def test_an_agent_that_is_slow_keeps_nobody_waiting_and_has_the_last_word(fates: Fates, clock: Clock) -> None:
    asker = Asker(fates)
    clock.run_next()
    assert (len(asker.overdue), asker.heard) == (1, [])
    first = died(0)
    fates.declare(ADDRESS, first)
    assert asker.heard == [first]


def test_without_an_answer_the_process_is_lost_in_the_end(fates: Fates, clock: Clock) -> None:
    asker = Asker(fates)
    clock.run()
    assert asker.heard == []
    clock.run()
    [error] = asker.heard
    assert "nobody saw" in str(error)


def test_who_was_told_in_time_hears_nothing_more(fates: Fates, clock: Clock) -> None:
    asker = Asker(fates)
    fates.declare(ADDRESS, died(0))
    clock.run()
    assert (len(asker.heard), asker.overdue) == (1, [])


def test_after_the_end_for_good_it_does_not_matter_which_incarnation_was_meant(fates: Fates) -> None:
    asker = Asker(fates, 3)
    fates.declare(ADDRESS, died(0))
    assert asker.heard == []
    closed = MeshClosed("stopped")
    fates.declare(ADDRESS, closed, 1)
    assert asker.heard == [closed]
    assert Asker(fates, 7).heard == [closed]


def test_an_end_that_is_long_forgotten_is_told_by_a_later_one(fates: Fates) -> None:
    for incarnation in range(100):
        fates.declare(ADDRESS, died(incarnation), incarnation)
    [error] = Asker(fates, 0).heard
    assert isinstance(error, ProcessDied)
    assert (error.restarting, error.incarnation) == (True, 99)
