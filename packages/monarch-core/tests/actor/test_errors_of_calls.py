"""An error of a call belongs to that call; an error that nobody hears of ends the actor."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest

from monarch.actor import Actor, ActorError, Port, SupervisionError, as_endpoint, endpoint
from monarch.errors import ActorDied, MessageTooLarge, PicklingError


class Broken(Exception):
    """Cannot be rebuilt: its constructor takes other arguments than it keeps."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Treacherous(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("no pickling of me")


class Fallible(Actor):
    def __init__(self) -> None:
        self.handled = 0

    @endpoint
    def raise_it(self, error: BaseException) -> None:
        raise error

    @endpoint
    async def raise_async(self, error: Exception) -> None:
        raise error

    @endpoint
    def raise_value_error(self, text: str) -> None:
        self.handled += 1
        raise ValueError(text)

    @endpoint
    def raise_broken(self) -> None:
        raise Broken("bread", "butter")

    @endpoint
    def raise_treacherous(self) -> None:
        raise Treacherous("tongue")

    @endpoint
    def raise_from(self) -> None:
        try:
            raise KeyError("the cause")
        except KeyError as cause:
            raise ValueError("the effect") from cause

    @endpoint
    def a_lock(self) -> Any:
        return [threading.Lock()]

    @endpoint
    def count(self) -> int:
        return self.handled

    @endpoint
    def call_and_catch(self, other: Fallible) -> str:
        try:
            other.raise_value_error.call_one("inner").get()
        except ActorError as error:
            return f"caught {error.exception!r}"
        return "nothing to catch"

    @endpoint
    def call_and_pass_on(self, other: Fallible) -> None:
        other.raise_value_error.call_one("inner").get()

    @endpoint(explicit_response_port=True)
    def raise_before_the_answer(self, port: Port) -> None:
        raise ValueError("before")

    @endpoint(explicit_response_port=True)
    def raise_after_the_answer(self, port: Port) -> None:
        port.send("answered")
        raise ValueError("after")

    def plain(self) -> None:
        raise ValueError("plain")


@pytest.fixture(scope="module")
def actors(procs):
    return procs.spawn("fallible", Fallible)


@pytest.fixture
def actor(actors):
    yield actors.slice(gpus=1)
    assert isinstance(actors.slice(gpus=1).count.call_one().get(timeout=20), int)


def test_a_call_raises_the_remote_exception_with_its_traceback(actor):
    with pytest.raises(ActorError) as caught:
        actor.raise_value_error.call_one("on purpose").get()
    error = caught.value
    assert (type(error.exception), error.exception.args) == (ValueError, ("on purpose",))
    assert "raise ValueError(text)" in error.exception_formatted
    assert "fallible.raise_value_error() on rank 1 raised ValueError: on purpose" in str(error)
    assert error.exception_formatted.rstrip() in str(error)


@pytest.mark.parametrize("name", ["raise_it", "raise_async"])
def test_the_traceback_begins_with_the_code_of_the_actor(actor, name):
    text = getattr(actor, name).call_one(ValueError("on purpose")).exception().exception_formatted
    assert os.path.basename(__file__) in text.splitlines()[1]


def test_the_call_after_an_error_works(actor):
    before = actor.count.call_one().get()
    actor.raise_value_error.call_one("first").exception()
    actor.raise_value_error.call_one("second").exception()
    assert actor.count.call_one().get() == before + 2


@pytest.mark.parametrize(
    "error",
    [
        LookupError("x"),
        OSError(2, "no such file"),
        StopIteration(3),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "r"),
    ],
)
@pytest.mark.parametrize("name", ["raise_it", "raise_async"])
def test_exceptions_keep_type_and_arguments(actor, name, error):
    caught = getattr(actor, name).call_one(error).exception()
    expected = RuntimeError if (name, type(error)) == ("raise_async", StopIteration) else type(error)
    assert type(caught.exception) is expected
    assert expected is RuntimeError or caught.exception.args == error.args


def test_the_cause_is_in_the_traceback(actor):
    text = str(actor.raise_from.call_one().exception())
    assert "KeyError: 'the cause'" in text
    assert "ValueError: the effect" in text


@pytest.mark.parametrize(
    ("name", "text"),
    [("raise_broken", "Broken: bread and butter"), ("raise_treacherous", "Treacherous: tongue")],
)
def test_an_exception_that_cannot_travel_has_a_stand_in(actor, name, text):
    error = getattr(actor, name).call_one().exception()
    assert (type(error.exception), str(error.exception)) == (RuntimeError, text)
    assert text in error.exception_formatted


def test_a_result_that_cannot_be_pickled_is_the_error_of_its_call(actor):
    error = actor.a_lock.call_one().exception()
    assert isinstance(error, ActorError)
    assert isinstance(error.exception, PicklingError)
    assert "the result of a_lock() cannot be pickled" in str(error)


def test_an_argument_that_cannot_be_pickled_is_an_error_of_the_caller(actor):
    with pytest.raises(
        PicklingError, match=r"an argument of fallible.raise_it\(\) cannot be pickled: .*lock"
    ):
        actor.raise_it.broadcast(threading.Lock())


def test_a_call_of_a_mesh_raises_one_error_and_all_members_live(actors, actor):
    with pytest.raises(ActorError, match="ValueError: all"):
        actors.raise_value_error.call("all").get()
    assert len(actors.count.call().get()) == 3


def test_a_caller_that_catches_goes_on(actors, actor):
    assert actor.call_and_catch.call_one(actors.slice(gpus=0)).get() == "caught ValueError('inner')"


def test_an_error_passed_on_is_the_error_of_the_outer_call(actors, actor):
    error = actor.call_and_pass_on.call_one(actors.slice(gpus=0)).exception()
    assert isinstance(error.exception, ActorError)
    assert "ValueError: inner" in str(error)
    assert actors.slice(gpus=0).count.call_one().get() >= 1


def test_an_error_before_the_explicit_answer_is_the_answer(actor):
    error = actor.raise_before_the_answer.call_one().exception(timeout=20)
    assert str(error.exception) == "before"


def test_an_error_of_a_method_called_by_as_endpoint_is_that_of_the_call(actor):
    assert str(as_endpoint(actor.plain).call_one().exception().exception) == "plain"


def test_a_program_that_catches_the_error_ends_well(script):
    done = script("""
from monarch.actor import Actor, ActorError, endpoint, this_host

class A(Actor):
    @endpoint
    def fail(self): raise ValueError("on purpose")

a = this_host().spawn_procs().spawn("a", A)
try:
    a.fail.call_one().get()
except ActorError as error:
    print(repr(error.exception))
""")
    assert (done.returncode, done.stdout) == (0, "ValueError('on purpose')\n"), done.stderr


# ---- errors that end an actor


@pytest.fixture
def mortal(procs):
    return procs.spawn("mortal", Fallible)


def _died(future: Any, failures: list[Any], until: Any) -> Any:
    """The one failure there is; a second would have come before an answer of the same process."""
    error = future.exception(timeout=20)
    assert isinstance(error, SupervisionError)
    (failure,) = until(lambda: failures[:])
    failures.clear()
    return failure


def test_a_broadcast_that_raises_ends_the_actor_and_its_owner_hears_once(mortal, actors, failures, until):
    mortal.slice(gpus=1).raise_value_error.broadcast("unheard")
    failure = _died(mortal.slice(gpus=1).count.call_one(), failures, until)
    assert (failure.class_name, failure.mesh_name, failure.rank) == ("Fallible", "mortal", 1)
    assert (failure.endpoint, failure.coordinates) == ("raise_value_error", {"gpus": 1})
    assert "ValueError: unheard" in failure.cause
    assert "crashed_ranks=[1]" in str(failure)
    assert actors.slice(gpus=1).count.call_one().get(timeout=20) >= 0
    assert not failures


def test_calls_to_an_actor_that_ended_fail_at_once_and_say_why(mortal, failures, until):
    mortal.slice(gpus=1).raise_value_error.broadcast("unheard")
    _died(mortal.slice(gpus=1).count.call_one(), failures, until)
    began = time.monotonic()
    for call in (mortal.slice(gpus=1).count.call_one, mortal.count.call):
        with pytest.raises(ActorDied, match="'mortal' .* rank 1 failed: .*ValueError: unheard"):
            call().get(timeout=20)
    assert time.monotonic() - began < 1
    assert list(mortal.slice(gpus=slice(0, 3, 2)).count.call().get().values()) == [0, 0]


def test_calls_that_wait_behind_the_end_fail_too(mortal, failures, until):
    one = mortal.slice(gpus=0)
    one.raise_value_error.broadcast("unheard")
    futures = [one.count.call_one() for _ in range(20)]
    assert _died(futures[0], failures, until).observed
    assert {type(future.exception(timeout=20)) for future in futures} == {ActorDied}


def test_an_error_after_the_explicit_answer_ends_the_actor(mortal, failures, until):
    one = mortal.slice(gpus=2)
    assert one.raise_after_the_answer.call_one().get(timeout=20) == "answered"
    failure = _died(one.count.call_one(), failures, until)
    assert (failure.endpoint, failure.rank) == ("raise_after_the_answer", 2)


def test_what_is_no_exception_ends_the_actor_and_fails_the_call(mortal, failures, until):
    future = mortal.slice(gpus=0).raise_it.call_one(KeyboardInterrupt("stop"))
    failure = _died(future, failures, until)
    assert "KeyboardInterrupt: stop" in failure.cause
    assert failure.observed


def test_a_constructor_that_raises_fails_the_mesh_and_its_calls(procs, failures, until):
    class Stillborn(Fallible):
        def __init__(self) -> None:
            raise ValueError("never born")

    one = procs.slice(gpus=0).spawn("stillborn", Stillborn)
    failure = _died(one.count.call_one(), failures, until)
    assert (failure.endpoint, failure.class_name) == ("__init__", "Stillborn")
    assert failure.observed
    assert isinstance(one.initialized.exception(timeout=20), ActorDied)


def test_the_errors_name_their_tree():
    assert issubclass(MessageTooLarge, ValueError)
    assert issubclass(ActorDied, SupervisionError)
    assert not issubclass(ActorError, SupervisionError)
