"""Futures: eager, and seen by any number of threads and loops any number of times."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
import time
import warnings
from typing import Any

import pytest

from monarch.actor import (
    Actor,
    ActorError,
    Channel,
    Future,
    concurrent_endpoint,
    endpoint,
    returns_future,
    this_proc,
)
from monarch.errors import CallCancelled, DeadlockError


class Slow(Actor):
    def __init__(self) -> None:
        self.log: list[Any] = []
        self.gate = asyncio.Event()

    @endpoint
    def note(self, text: Any) -> Any:
        self.log.append(text)
        return text

    @endpoint
    def notes(self) -> list[Any]:
        return self.log

    @endpoint
    def fail(self) -> None:
        raise ValueError("on purpose")

    @endpoint
    def hold(self, port: Any) -> str:
        """Keep the actor busy until the client says so."""
        mine, receiver = Channel.open()
        port.send(mine)
        receiver.recv().get(timeout=20)
        self.log.append("held")
        return "held"

    @concurrent_endpoint
    async def wait(self) -> str:
        await self.gate.wait()
        return "opened"

    @endpoint
    async def open(self) -> None:
        self.gate.set()


@pytest.fixture
def slow(procs):
    return procs.slice(gpus=0).spawn("slow", Slow)


class Hold:
    """An actor kept busy until `release`."""

    def __init__(self, actor: Any) -> None:
        port, receiver = Channel.open()
        self.future = actor.hold.call_one(port)
        self._port = receiver.recv().get(timeout=20)

    def release(self) -> None:
        self._port.send(None)


# ---- repeatable


def test_a_call_is_made_whether_or_not_anybody_looks_at_its_future(slow):
    slow.note.call_one("unseen")
    assert slow.notes.call_one().get() == ["unseen"]


def test_a_future_is_read_any_number_of_times(slow):
    future = slow.note.call_one("x")
    assert (future.get(), future.result(), future.get(timeout=1), future.result(1)) == ("x",) * 4
    assert future.exception() is None
    assert slow.notes.call_one().get() == ["x"]


def test_the_same_error_is_raised_every_time(slow):
    future = slow.fail.call_one()
    seen = [future.exception(), future.exception(timeout=1)]
    for _ in range(2):
        with pytest.raises(ActorError) as caught:
            future.get()
        seen.append(caught.value)
    assert len(set(map(id, seen))) == 1


def test_many_threads_and_loops_see_one_result(slow):
    future = slow.wait.call_one()

    async def awaited() -> Any:
        return await future, await future.as_asyncio()

    observers = [future.get, future.get, lambda: asyncio.run(awaited()), lambda: asyncio.run(awaited())]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(observer) for observer in observers]
        slow.open.call_one().get()
        results = [each.result(timeout=20) for each in waiting]
    assert results == ["opened", "opened", ("opened", "opened"), ("opened", "opened")]


def test_a_future_is_awaited_again_in_a_later_loop(slow):
    future = slow.note.call_one("x")

    async def awaited() -> Any:
        return await future, await asyncio.gather(future, future)

    assert [asyncio.run(awaited()) for _ in range(2)] == [("x", ["x", "x"])] * 2


def test_as_asyncio_returns_a_future_of_the_running_loop(slow):
    async def main() -> Any:
        future = slow.note.call_one("x").as_asyncio()
        assert isinstance(future, asyncio.Future)
        return await asyncio.wait_for(future, 20)

    assert asyncio.run(main()) == "x"


def test_as_asyncio_needs_a_running_loop(slow):
    with pytest.raises(RuntimeError, match="no running event loop"):
        slow.note.call_one("x").as_asyncio()


def test_a_loop_that_is_closed_meanwhile_does_no_harm(slow):
    future = slow.wait.call_one()

    async def look() -> None:
        future.as_asyncio()

    asyncio.run(look())
    slow.open.call_one().get()
    assert future.get(timeout=20) == "opened"


def test_done_says_whether_the_result_is_there(slow, until):
    future = slow.wait.call_one()
    assert (future.done(), repr(future)) == (False, "<Future pending>")
    slow.open.call_one().get()
    until(future.done)
    assert repr(future) == "<Future done>"


# ---- timeouts


def test_a_timeout_neither_consumes_nor_cancels(slow):
    future = slow.wait.call_one()
    for look in (future.get, future.result, future.exception):
        with pytest.raises(TimeoutError, match="goes on and may be awaited again"):
            look(timeout=0.01)
    slow.open.call_one().get()
    assert future.get(timeout=20) == "opened"


def test_a_timeout_of_asyncio_does_not_cancel_the_call(slow):
    future = slow.wait.call_one()

    async def main() -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(future, 0.01)
        await slow.open.call_one()
        return await future

    assert asyncio.run(main()) == "opened"


@pytest.mark.parametrize("timeout", [0, 0.0, 1e300, float("inf")])
def test_any_timeout_from_zero_on_will_do_for_a_result_that_is_there(slow, timeout):
    future = slow.note.call_one("x")
    future.get()
    assert future.get(timeout=timeout) == "x"


def test_a_timeout_without_end_waits_for_the_result(slow):
    assert slow.note.call_one("x").get(timeout=float("inf")) == "x"


# ---- cancel


def test_cancel_drops_a_message_that_has_not_started(slow):
    hold = Hold(slow)
    dropped = slow.note.call_one("dropped")
    kept = slow.note.call_one("kept")
    assert dropped.cancel()
    hold.release()
    assert kept.get() == "kept"
    assert slow.notes.call_one().get() == ["held", "kept"]


def test_a_cancelled_call_raises_wherever_it_is_observed(slow):
    hold = Hold(slow)
    future = slow.note.call_one("dropped")
    future.cancel()
    hold.release()
    assert isinstance(future.exception(), CallCancelled)
    with pytest.raises(concurrent.futures.CancelledError):
        future.get()

    async def main() -> None:
        with pytest.raises(CallCancelled):
            await future

    asyncio.run(main())


def test_cancel_does_not_stop_what_has_started(slow):
    hold = Hold(slow)
    assert hold.future.cancel()
    hold.release()
    assert slow.notes.call_one().get() == ["held"]


def test_cancel_comes_too_late_for_a_result_that_is_there(slow):
    future = slow.note.call_one("x")
    future.get()
    assert not future.cancel()
    assert future.get() == "x"


def test_cancel_twice_is_cancel_once(slow):
    future = slow.wait.call_one()
    assert (future.cancel(), future.cancel()) == (True, False)


def test_cancel_wakes_whoever_waits(slow, until):
    future = slow.wait.call_one()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(future.exception)
        until(lambda: future._promise._waiters)
        future.cancel()
        assert isinstance(waiting.result(timeout=20), CallCancelled)


def test_cancelling_a_call_of_a_mesh_drops_it_everywhere(procs):
    mesh = procs.spawn("mesh", Slow)
    holds = [Hold(mesh.slice(gpus=rank)) for rank in range(3)]
    dropped = mesh.note.call("dropped")
    assert dropped.cancel()
    for hold in holds:
        hold.release()
    assert list(mesh.notes.call().get().values()) == [["held"]] * 3


def test_cancelling_one_call_leaves_order_to_the_others(slow):
    hold = Hold(slow)
    futures = [slow.note.call_one(number) for number in range(100)]
    for future in futures[::3]:
        future.cancel()
    hold.release()
    kept = [number for number in range(100) if number % 3]
    assert slow.notes.call_one().get() == ["held", *kept]


# ---- on a running loop


def test_get_on_a_running_loop_warns_and_works(slow):
    async def main() -> Any:
        with pytest.warns(UserWarning, match="use await instead"):
            return slow.note.call_one("x").get()

    assert asyncio.run(main()) == "x"


def test_get_of_a_result_that_is_there_does_not_warn(slow):
    async def main() -> Any:
        future = slow.note.call_one("x")
        await future
        return future.get()

    assert asyncio.run(main()) == "x"


class Loner(Actor):
    """Every endpoint asynchronous: it lives on the loop of its process."""

    @endpoint
    async def number(self) -> int:
        return 1

    @endpoint
    async def get_from(self, other: Loner) -> Any:
        return _outcome(other.number.call_one().get)

    @endpoint
    async def await_from(self, other: Loner) -> int:
        return await other.number.call_one()

    @concurrent_endpoint
    async def await_self(self, me: Loner) -> int:
        return await me.number.call_one()

    @endpoint
    async def await_self_in_turn(self, me: Loner) -> Any:
        try:
            return await me.number.call_one()
        except DeadlockError as error:
            return str(error)


class Selfish(Actor):
    @endpoint
    def number(self) -> int:
        return 1

    @endpoint
    def ask_self(self, me: Selfish, timeout: float | None) -> Any:
        return _outcome(lambda: me.number.call_one().get(timeout))

    @endpoint
    def ask_mesh(self, mesh: Selfish) -> Any:
        return _outcome(lambda: mesh.number.call().get())

    @endpoint
    def call_method(self) -> int:
        return self.number()


def _outcome(function: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except DeadlockError as error:
            return str(error)


@pytest.fixture(params=["client", "process"])
def place(request, procs):
    return this_proc() if request.param == "client" else procs.slice(gpus=0)


@pytest.fixture
def loner(place):
    return place.spawn("loner", Loner)


def test_get_that_needs_the_loop_it_blocks_is_refused(place, loner):
    answer = loner.get_from.call_one(place.spawn("other", Loner)).get(timeout=20)
    assert "blocks the event loop that actor 'other'" in answer
    assert "use await" in answer


def test_get_on_the_loop_from_another_process_works(procs):
    near, far = (procs.slice(gpus=rank).spawn("loner", Loner) for rank in (0, 1))
    assert near.get_from.call_one(far).get(timeout=20) == 1


def test_await_on_the_loop_works(loner, procs):
    assert loner.await_from.call_one(procs.slice(gpus=0).spawn("other", Loner)).get(timeout=20) == 1


def test_a_concurrent_endpoint_may_await_its_own_actor(loner):
    assert loner.await_self.call_one(loner).get(timeout=20) == 1


def test_an_endpoint_that_awaits_its_own_actor_is_refused(loner):
    answer = loner.await_self_in_turn.call_one(loner).get(timeout=20)
    assert "waits for a message to itself" in answer
    assert "concurrent_endpoint and use await" in answer


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_an_actor_that_waits_for_itself_is_refused(procs, timeout):
    selfish = procs.slice(gpus=0).spawn("selfish", Selfish)
    answer = selfish.ask_self.call_one(selfish, timeout).get(timeout=4)
    assert "'selfish' waits for a message to itself" in answer
    assert "call the method directly" in answer
    assert selfish.call_method.call_one().get() == 1


def test_an_actor_that_waits_for_its_whole_mesh_is_refused(procs):
    mesh = procs.spawn("selfish", Selfish)
    assert "itself" in mesh.slice(gpus=1).ask_mesh.call_one(mesh).get(timeout=20)


# ---- made by hand


def test_a_future_is_not_constructed():
    with pytest.raises(TypeError, match="comes from a call"):
        Future()


@returns_future
async def doubled(actor: Any, value: int) -> int:
    """Double it."""
    return 2 * await actor.note.call_one(value)


def test_a_function_that_returns_a_future_serves_get_and_await(slow):
    future = doubled(slow, 4)
    assert isinstance(future, Future)
    assert (future.get(), asyncio.run(_await(doubled(slow, 5)))) == (8, 10)
    assert (doubled.__name__, inspect.getdoc(doubled)) == ("doubled", "Double it.")


def test_a_function_that_returns_a_future_starts_when_it_is_called(slow, until):
    doubled(slow, 4)
    until(lambda: slow.notes.call_one().get() == [4])


def test_a_function_that_returns_a_future_raises_when_it_is_observed():
    @returns_future
    async def fails() -> None:
        raise KeyError("late")

    future = fails()
    with pytest.raises(KeyError, match="late"):
        future.get()


async def _await(future: Any) -> Any:
    return await future


# ---- how long


def test_a_thousand_waiting_threads_are_not_needed(slow):
    futures = [slow.note.call_one(number) for number in range(1000)]
    began = time.monotonic()
    assert [future.get() for future in reversed(futures)] == list(reversed(range(1000)))
    assert time.monotonic() - began < 10
    assert threading.active_count() < 50
