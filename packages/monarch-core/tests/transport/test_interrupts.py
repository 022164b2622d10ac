"""Ctrl-C comes between messages, never inside one."""

from __future__ import annotations

import signal
import threading

import pytest

from monarch._transport import interrupts


@pytest.fixture
def caught(monkeypatch):
    """The interrupts that reached the program's own handler."""
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    yield caught
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_held_back_until_it_is_let_go(caught):
    assert interrupts.hold()
    signal.raise_signal(signal.SIGINT)
    assert caught == []
    interrupts.let_go()
    assert caught == [signal.SIGINT]


def test_only_the_outermost_hold_lets_go(caught):
    interrupts.hold()
    interrupts.hold()
    signal.raise_signal(signal.SIGINT)
    interrupts.let_go()
    assert caught == []
    interrupts.let_go()
    assert caught == [signal.SIGINT]


def test_several_interrupts_held_back_are_one(caught):
    interrupts.hold()
    for _ in range(3):
        signal.raise_signal(signal.SIGINT)
    interrupts.let_go()
    assert caught == [signal.SIGINT]


def test_an_exposed_wait_is_interrupted_at_once(caught):
    interrupts.hold()
    interrupts.expose(True)
    signal.raise_signal(signal.SIGINT)
    assert caught == [signal.SIGINT]
    interrupts.expose(False)
    interrupts.let_go()
    assert caught == [signal.SIGINT]


def test_afterwards_the_handler_is_the_programs_own(caught):
    before = signal.getsignal(signal.SIGINT)
    interrupts.hold()
    assert signal.getsignal(signal.SIGINT) is not before
    interrupts.let_go()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_program_without_a_handler_is_left_alone(caught, handler):
    signal.signal(signal.SIGINT, handler)
    assert not interrupts.hold()
    assert signal.getsignal(signal.SIGINT) is handler


def test_other_threads_have_nothing_to_hold(caught):
    held: list[bool] = []
    thread = threading.Thread(target=lambda: held.append(interrupts.hold()))
    thread.start()
    thread.join()
    assert held == [False]


ACTOR = """
import signal, threading, time
from monarch.actor import Actor, endpoint, this_host

class Log(Actor):
    def __init__(self): self.log = []
    @endpoint
    def note(self, number): self.log.append(number)
    @endpoint
    def take(self): return self.log
    @endpoint
    def wait(self, path):
        import os
        while not os.path.exists(path): pass
        return "waited"

log = this_host().spawn_procs().spawn("log", Log)
log.take.call_one().get()
main = threading.main_thread().ident
"""


def test_a_program_that_survives_its_ctrl_c_gets_the_answer_afterwards(script, tmp_path):
    done = script(
        ACTOR
        + """
future = log.wait.call_one("go on")
threading.Timer(0.3, signal.pthread_kill, [main, signal.SIGINT]).start()
try:
    future.get()
except KeyboardInterrupt:
    print("interrupted")
open("go on", "w").close()
print(future.get(timeout=20))
"""
    )
    assert done.stdout.split("\n")[:2] == ["interrupted", "waited"], done.stderr


def test_interrupts_at_any_moment_of_sending_lose_no_message_that_was_sent(script):
    done = script(
        ACTOR
        + """
sending, interrupted = threading.Event(), 0

def interrupt():
    for _ in range(100):
        sending.wait()
        time.sleep(0.002)
        sending.clear()
        signal.pthread_kill(main, signal.SIGINT)

def send():
    sending.set()
    for number in numbers:  # goes on where it was interrupted
        log.note.broadcast(number)
        sent.append(number)
        if not interrupter.is_alive():
            break

sent, numbers = [], iter(range(1_000_000))
interrupter = threading.Thread(target=interrupt)
interrupter.start()
while interrupter.is_alive():
    try:
        send()
    except KeyboardInterrupt:
        interrupted += 1
interrupter.join()
got = log.take.call_one().get(timeout=15)
print(got == sorted(got), set(sent) <= set(got), interrupted > 0)
"""
    )
    assert done.stdout == "True True True\n", done.stderr
