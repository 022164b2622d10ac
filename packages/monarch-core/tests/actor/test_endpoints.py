"""How endpoints are declared, found and called."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

from monarch.actor import Actor, Port, as_endpoint, concurrent_endpoint, endpoint


class Base(Actor):
    @endpoint
    def inherited(self) -> str:
        return f"inherited by {type(self).__name__}"


class Worker(Base):
    def __init__(self, start: int = 0, *, step: int = 1) -> None:
        self.value, self.step = start, step
        self.warned: list[str] = []

    @endpoint
    def add(self, n: int = 1, *, times: int = 1) -> int:
        self.value += n * times * self.step
        return self.value

    @endpoint
    def twice(self) -> int:
        return self.add() + self.add()

    @endpoint
    async def later(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    @concurrent_endpoint
    async def beside(self) -> str:
        return "beside"

    @endpoint(propagate="inspect", instrument=False)
    def with_options(self) -> str:
        return "with options"

    def plain(self, n: int) -> int:
        return n + 1

    async def plain_async(self, n: int) -> int:
        return n + 2

    def plain_with_port(self, port: Port, n: int) -> None:
        port.send(n + 3)

    @endpoint(explicit_response_port=True)
    def from_a_thread(self, port: Port, n: int) -> None:
        threading.Thread(target=port.send, args=(n,)).start()

    @endpoint(explicit_response_port=True)
    async def async_with_port(self, port: Port, n: int) -> str:
        port.send(n)
        return "not used"

    @endpoint(explicit_response_port=True)
    def error_through_port(self, port: Port) -> None:
        port.exception(KeyError("on purpose"))

    @endpoint(explicit_response_port=True)
    def answer_twice(self, port: Port) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            port.send("first")
            port.send("second")
            port.exception(ValueError("third"))
        self.warned = [str(warning.message) for warning in caught]

    @endpoint
    def warnings_seen(self) -> list[str]:
        return self.warned


@pytest.fixture(scope="module")
def workers(procs):
    return procs.spawn("workers", Worker, 10, step=2)


@pytest.fixture(scope="module")
def worker(workers):
    return workers.slice(gpus=1)


def test_arguments_of_the_constructor_and_of_a_call_arrive(procs):
    worker = procs.slice(gpus=0).spawn("fresh", Worker, 10, step=2)
    assert worker.add.call_one(3, times=2).get() == 22
    assert worker.add.call_one().get() == 24


def test_an_endpoint_called_on_the_actor_itself_is_the_plain_method(procs):
    worker = procs.slice(gpus=0).spawn("fresh", Worker)
    assert worker.twice.call_one().get() == 1 + 2


def test_variable_arguments_pass_through_an_async_endpoint(worker):
    assert worker.later.call_one(1, "a", k=None).get() == ((1, "a"), {"k": None})


def test_endpoints_of_a_base_class_are_endpoints(worker):
    assert worker.inherited.call_one().get() == "inherited by Worker"


@pytest.mark.parametrize("name", ["beside", "with_options"])
def test_an_endpoint_declared_with_options_is_called_like_any_other(worker, name):
    assert getattr(worker, name).call_one().get() == name.replace("_", " ")


def test_the_decorator_keeps_name_and_docstring():
    class Documented(Actor):
        @endpoint
        def method(self) -> None:
            """What it does."""

    assert (Documented.method.__name__, Documented.method.__doc__) == ("method", "What it does.")


def test_wrong_arguments_are_refused_before_anything_is_sent(worker):
    before = worker.add.call_one(0).get()
    with pytest.raises(TypeError, match=r"add\(\) got an unexpected keyword argument 'm'"):
        worker.add.broadcast(m=1)
    assert worker.add.call_one(0).get() == before


def test_the_response_port_is_not_an_argument_of_the_caller(worker):
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'n'"):
        worker.from_a_thread.call_one()


# ---- methods that are not annotated


@pytest.mark.parametrize(("name", "result"), [("plain", 2), ("plain_async", 3)])
def test_as_endpoint_calls_a_method_that_is_not_annotated(worker, name, result):
    assert as_endpoint(getattr(worker, name)).call_one(1).get() == result


def test_as_endpoint_can_ask_for_the_response_port(worker):
    assert as_endpoint(worker.plain_with_port, explicit_response_port=True).call_one(1).get() == 4


def test_as_endpoint_leaves_an_endpoint_as_it_is(worker):
    assert as_endpoint(worker.add) is worker.add


# ---- explicit response ports


@pytest.mark.parametrize("name", ["from_a_thread", "async_with_port"])
def test_an_explicit_response_port_answers_the_call(workers, name):
    assert list(getattr(workers, name).call(7).get().values()) == [7, 7, 7]


def test_an_exception_sent_to_the_response_port_is_raised_by_the_call(worker):
    error = worker.error_through_port.call_one().exception()
    assert isinstance(error.exception, KeyError)
    assert error.exception.args == ("on purpose",)


def test_a_second_answer_is_ignored_with_a_warning_and_the_actor_lives(worker):
    assert worker.answer_twice.call_one().get() == "first"
    warned = worker.warnings_seen.call_one().get()
    assert len(warned) == 2
    assert all("answered already" in text for text in warned)


def test_an_answer_that_nobody_waits_for_is_no_error(worker):
    worker.answer_twice.broadcast()
    worker.error_through_port.broadcast()
    assert worker.inherited.call_one().get()


class Forwarder(Actor):
    def __init__(self, other: Any = None) -> None:
        self.other = other

    @endpoint(explicit_response_port=True)
    def hand_on(self, port: Port) -> None:
        self.port = port
        self.other.answer.broadcast(port)

    @endpoint
    def answer_late(self) -> None:
        self.port.send("too late")

    @endpoint
    def answer(self, port: Port) -> None:
        port.send("from the other")

    @endpoint
    def alive(self) -> bool:
        return True


def test_a_response_port_may_be_answered_by_another_actor(procs):
    other = procs.slice(gpus=0).spawn("other", Forwarder)
    forwarder = procs.slice(gpus=1).spawn("forwarder", Forwarder, other)
    assert forwarder.hand_on.call_one().get() == "from the other"
    forwarder.answer_late.call_one().get()
    assert forwarder.alive.call_one().get()
    assert other.alive.call_one().get()
