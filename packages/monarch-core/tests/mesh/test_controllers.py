"""Controllers: one actor for each name in the whole program."""

from __future__ import annotations

import os
import threading
import uuid

import pytest

from monarch.actor import Actor, endpoint, get_or_spawn_controller, this_host
from monarch.errors import ActorError, MonarchError


class Counter(Actor):
    def __init__(self, start=0):
        self.value, self.identity = start, uuid.uuid4().hex

    @endpoint
    def next(self):
        self.value += 1
        return self.value

    @endpoint
    def facts(self):
        return os.getpid(), self.identity

    @endpoint
    def fail(self):
        raise LookupError("on purpose")

    @endpoint
    def fall(self):
        raise SystemExit(1)


class Fragile(Counter):
    def __init__(self, flag):
        super().__init__()
        if not os.path.exists(flag):
            raise LookupError("not yet")


class Asker(Actor):
    @endpoint
    def ask(self, name):
        return get_or_spawn_controller(name, Counter).get(20).facts.call_one().get(20)

    @endpoint
    async def ask_on_the_loop(self, name):
        return await (await get_or_spawn_controller(name, Counter)).facts.call_one()


@pytest.fixture(scope="module")
def askers():
    mesh = this_host().spawn_procs(per_host={"procs": 3})
    yield mesh.spawn("asker", Asker)
    mesh.stop().get(30)


@pytest.fixture
def name():
    return f"counter-{uuid.uuid4().hex}"


def get(name, cls=Counter, *args):
    return get_or_spawn_controller(name, cls, *args).get(20)


def identity(controller):
    return controller.facts.call_one().get(20)[1]


def test_the_same_name_is_the_same_controller(name):
    assert [get(name).next.call_one().get(20) for _ in range(3)] == [1, 2, 3]


def test_another_name_is_another_controller(name):
    assert identity(get(name)) != identity(get(name + "-other"))


def test_arguments_are_those_of_the_first_to_ask(name):
    get(name, Counter, 10)
    assert get(name, Counter, 20).next.call_one().get(20) == 11


def test_it_lives_in_the_client_whoever_asks(askers, name):
    assert {pid for pid, _ in askers.ask.call(name).get(30).values()} == {os.getpid()}


@pytest.mark.parametrize("way", ["ask", "ask_on_the_loop"])
def test_several_processes_that_ask_at_once_get_one(askers, name, way):
    answers = [getattr(askers, way).call(name) for _ in range(5)]
    mine = identity(get(name))
    assert {found for answer in answers for _, found in answer.get(30).values()} == {mine}


def test_several_threads_that_ask_at_once_get_one(name):
    found = []
    threads = [threading.Thread(target=lambda: found.append(identity(get(name)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert len(set(found)) == 1


def test_an_error_of_a_call_does_not_replace_it(name):
    controller = get(name)
    with pytest.raises(ActorError):
        controller.fail.call_one().get(20)
    assert identity(get(name)) == identity(controller)


@pytest.mark.parametrize("end", ["fail", "fall"])
def test_one_that_failed_is_replaced(name, failures, until, end):
    controller = get(name)
    before = identity(controller)
    getattr(controller, end).broadcast()
    until(lambda: controller.facts.call_one().exception(20))
    assert identity(get(name)) != before


def test_a_failed_controller_does_not_take_the_others_with_it(name, failures, until):
    failing, other = get(name), get(name + "-other")
    before = identity(other)
    failing.fail.broadcast()
    until(lambda: failing.facts.call_one().exception(20))
    assert identity(get(name + "-other")) == before
    assert identity(get(name + "-new")) != before


def test_one_that_was_stopped_is_replaced(name):
    controller = get(name)
    before = identity(controller)
    controller.stop().get(20)
    assert identity(get(name)) != before


def test_a_failed_constructor_is_not_remembered(name, failures, tmp_path):
    flag = tmp_path / "flag"
    with pytest.raises(MonarchError, match="not yet"):
        get(name, Fragile, str(flag)).facts.call_one().get(20)
    flag.touch()
    assert get(name, Fragile, str(flag)).next.call_one().get(20) == 1


def test_a_class_that_is_no_actor_is_refused_with_its_name(name):
    with pytest.raises((MonarchError, ValueError), match="is no actor class"):
        get(name, int)
    assert get(name).next.call_one().get(20) == 1


def test_a_failure_of_a_controller_is_heard_at_the_root(name, failures, until):
    get(name).fail.broadcast()
    until(lambda: failures)
    assert name in "".join(failure.report() for failure in failures)
