"""The collector may die; actors do not notice."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest

from monarch.actor import Actor, endpoint, shutdown_context, this_host


class Talker(Actor):
    @endpoint
    def say(self, text):
        for _ in range(3):
            print(text)
        print(text, end="", flush=True)
        os.write(1, b"raw\n")
        return True


def collectors():
    """Return the collectors that are children of this process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"_logs.collector" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            pass
    return found


@pytest.fixture(autouse=True)
def _clients_of_their_own():
    shutdown_context().get(30)
    yield
    shutdown_context().get(30)


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_one_that_is_killed_takes_no_actor_along_and_the_next_spawn_starts_another(
    seen, caplog, until, monkeypatch, unbuffered
):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    mesh = this_host().spawn_procs(name="first")
    first = mesh.spawn("first", Talker)
    assert first.say.call_one("a").get(20)
    (collector,) = collectors()
    with caplog.at_level(logging.WARNING):
        os.kill(collector, signal.SIGKILL)
        until(lambda: "the log collector ended" in caplog.text)
    assert first.say.call_one("x" * 100_000).get(20)
    second = this_host().spawn_procs(name="second").spawn("second", Talker)
    assert second.say.call_one("b").get(20)
    seen("[second 0] b\n")
    assert len(collectors()) == 1
    mesh.stop().get(8)  # it is not killed, which would be after ten seconds


def test_one_that_hangs_does_not_hold_up_the_end_of_the_program_for_ever():
    actor = this_host().spawn_procs().spawn("talker", Talker)
    actor.say.call_one("a").get(20)
    (collector,) = collectors()
    os.kill(collector, signal.SIGSTOP)
    shutdown_context().get(20)
    assert collectors() == []
