"""What a program may change about the output of its processes."""

from __future__ import annotations

import logging
import os

import pytest

from monarch import config
from monarch.actor import Actor, endpoint, this_host
from monarch.errors import MeshClosed


class Talker(Actor):
    @endpoint
    def say(self, *words):
        for word in words:
            print(word)

    @endpoint
    def die(self):
        os._exit(3)

    @endpoint
    def log(self, level, text, *args):
        logging.getLogger("somewhere").log(level, text, *args)


@pytest.fixture
def mesh():
    mesh = this_host().spawn_procs({"gpus": 2}, name="crew")
    yield mesh
    mesh.stop().get(20)


def test_what_is_not_streamed_is_not_shown_and_can_be_again(mesh, seen):
    talkers = mesh.spawn("talker", Talker)
    mesh.logging_option(stream_to_client=False).get(20)
    talkers.say.call("hidden").get(20)
    mesh.logging_option(stream_to_client=True).get(20)
    talkers.say.call("shown").get(20)
    assert "hidden" not in seen("shown")


def test_a_window_of_zero_folds_nothing(mesh, seen):
    talkers = mesh.spawn("talker", Talker)
    mesh.logging_option(aggregate_window_sec=0).get(20)
    talkers.say.call(*["same"] * 30, "last").get(20)
    seen("[talker 0] last\n")
    lines = seen("[talker 1] last\n").splitlines()
    assert sorted(lines) == sorted(
        f"[talker {rank}] {word}" for rank in (0, 1) for word in ["same"] * 30 + ["last"]
    )


def test_a_short_window_shows_its_sum_soon(mesh, seen):
    talkers = mesh.spawn("talker", Talker)
    mesh.logging_option(aggregate_window_sec=0.05).get(20)
    talkers.say.call(*["same"] * 30).get(20)
    seen("similar lines, the last: same\n")


async def awaited(future):
    return await future


def test_it_may_be_awaited(mesh):
    import asyncio

    assert asyncio.run(awaited(mesh.logging_option(level=logging.DEBUG))) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"level": -1}, "level .* 0 to 255, not -1", id="level-below"),
        pytest.param({"level": 256}, "level .* 0 to 255, not 256", id="level-above"),
        pytest.param({"level": "INFO"}, "level .* not 'INFO'", id="level-as-text"),
        pytest.param(
            {"stream_to_client": False, "aggregate_window_sec": 1},
            "without stream_to_client",
            id="window-of-nothing",
        ),
        pytest.param({"aggregate_window_sec": -1}, "seconds from 0, not -1", id="window-below"),
        pytest.param({"aggregate_window_sec": float("nan")}, "not nan", id="window-nan"),
        pytest.param({"aggregate_window_sec": "1s"}, "not '1s'", id="window-as-text"),
    ],
)
def test_options_that_make_no_sense_are_refused(mesh, options, words):
    with pytest.raises(ValueError, match=words):
        mesh.logging_option(**options)


def test_options_of_a_mesh_that_is_stopped_are_refused():
    mesh = this_host().spawn_procs()
    mesh.stop().get(20)
    with pytest.raises(MeshClosed):
        mesh.logging_option().get(20)


def test_the_level_lets_records_through(mesh, seen):
    talkers = mesh.slice(gpus=0).spawn("talker", Talker)
    talkers.log.call(logging.INFO, "too low").get(20)
    mesh.logging_option(level=logging.INFO).get(20)
    talkers.log.call(logging.DEBUG, "too low").get(20)
    talkers.log.call(logging.INFO, "%d apples", 5).get(20)
    assert "too low" not in seen("[talker 0] INFO:somewhere:5 apples\n", "stderr")


def test_forwarding_can_be_off_from_the_start(mesh, seen):
    with config.configured(enable_log_forwarding=False):
        quiet = this_host().spawn_procs()
        quiet.spawn("quiet", Talker).say.call("hidden").get(20)
    mesh.spawn("talker", Talker).say.call("shown").get(20)
    assert "hidden" not in seen("shown")
    quiet.stop().get(20)


def test_what_was_chosen_holds_for_a_process_that_takes_the_place_of_another(seen, until):
    mesh = this_host().spawn_procs(name="crew", restart="rank")
    mesh.logging_option(stream_to_client=False).get(20)
    talker = mesh.spawn("talker", Talker)
    assert talker.die.call_one().exception(20)
    until(lambda: talker.say.call_one("hidden").exception(20) is None)
    mesh.logging_option(stream_to_client=True).get(20)
    talker.say.call_one("shown").get(20)
    assert "hidden" not in seen("shown")
    mesh.stop().get(20)
