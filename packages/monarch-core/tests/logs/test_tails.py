"""A failure carries the last lines of the process's standard error."""

from __future__ import annotations

import pytest

from monarch import config
from monarch.actor import Actor, endpoint, this_host
from monarch.errors import ProcessDied


class Victim(Actor):
    @endpoint
    def die(self, text):
        import os

        os.write(2, text.encode())
        os.kill(os.getpid(), 9)


@pytest.fixture
def die():
    """Let a process write and be killed, and return what the call raised."""

    def _die(text):
        error = this_host().spawn_procs().spawn("victim", Victim).die.call_one(text).exception(30)
        assert isinstance(error, ProcessDied)
        return error

    return _die


def test_the_error_of_a_call_has_it_in_text_and_attribute(die):
    error = die("one\nlast words")
    assert error.stderr == "one\nlast words"
    assert str(error).endswith("The end of its stderr:\n  one\n  last words")


def test_an_error_without_last_words_says_nothing_of_them(die):
    error = die("")
    assert error.stderr == ""
    assert "stderr" not in str(error)


def test_it_has_no_more_than_the_last_lines(die):
    with config.configured(tail_log_lines=2):
        assert die("".join(f"{number}\n" for number in range(9))).stderr == "7\n8"


def test_it_may_be_turned_off(die):
    with config.configured(tail_log_lines=0):
        assert die("word\n").stderr == ""


def test_it_is_never_long(die):
    assert len(die("x" * 100_000).stderr) <= 4096


def test_an_owner_hears_it_too(failures, until):
    mesh = this_host().spawn_procs()
    mesh.spawn("victim", Victim).die.broadcast("last words\n")
    failure = until(lambda: failures and failures.pop())
    assert failure.stderr == "last words"
    assert failure.report().endswith("stderr:\n    last words")
