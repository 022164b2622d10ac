"""Decides which thread reads the sockets of this process.

One thread at a time leads: it waits on all descriptors and runs their handlers. Any thread that
has to wait for something leads meanwhile, so a caller reads its own reply and the thread of an
actor reads its own messages: no hand-over between threads, each of which costs 30 us or more.

When the leader has what it waited for it simply goes: nobody is woken to take over, since most
often it comes back within microseconds. Two things keep that safe. A thread that also waits for
a reply is promoted at once; and a stand-by thread, which sleeps while there is a leader, looks
every few milliseconds and leads where nobody did.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sized

from monarch._transport import interrupts

_log = logging.getLogger(__name__)

_TICK = 0.002  # seconds a vacant lead may last; a hand-over costs a hundredth of it
_LONGEST_TICK = 0.008  # the same while the lead keeps changing hands: each look costs others the processor
_PAUSE = 0.0005  # seconds the stand-by thread lets messages gather that nobody is waiting for

Handler = Callable[[int], None]


class Waiter:
    """What one thread waits for; any thread may `Reactor.signal` it. Reusable after `reset`."""

    __slots__ = ("done", "eager", "leads", "wakeup")

    def __init__(self, *, eager: bool = True) -> None:
        self.done = False
        self.leads = False
        # An eager waiter keeps the lead until it is done; another gives it to the thread that got work.
        self.eager = eager
        self.wakeup = threading.Lock()
        self.wakeup.acquire()

    def reset(self) -> None:
        """Make ready for the next wait."""
        self.done = False

    def wake(self) -> None:
        """Let the thread look again at what it waits for."""
        try:
            self.wakeup.release()
        except RuntimeError:
            pass  # it has been told already


class Reactor:
    """The descriptors of this process, and the thread that waits on them."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._lead = threading.Lock()
        self._terms = 0
        self._polling = False
        self._signalled_other = False
        self.hurried = False
        """Set by a handler that got something that somebody waits for, if not by a `Waiter`."""
        self._followers: deque[Waiter] = deque()
        self._sleepers: set[Waiter] = set()
        self._vacant = threading.Lock()  # held while the stand-by thread need not look
        self._vacant.acquire()
        self._standing_by = True
        self._closed = False
        self._closing = threading.Lock()
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._before_tick: list[Callable[[], None]] = []
        self._put_off: list[tuple[Sized, Callable[[], None]]] = []
        self._close_alarm = weakref.finalize(self, os.close, self._alarm)
        self._close_alarm.atexit = False
        self.watch(self._alarm, self._silence)

    def _silence(self, events: int) -> None:
        os.eventfd_read(self._alarm)

    # ---- descriptors

    def watch(self, descriptor: int, handler: Handler) -> None:
        """Call `handler(events)` on the leading thread whenever `descriptor` is readable."""
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.EPOLLIN)

    def watch_writable(self, descriptor: int, wanted: bool) -> None:
        """Also call the handler while the descriptor is writable, or no longer."""
        events = select.EPOLLIN | (select.EPOLLOUT if wanted else 0)
        try:
            self._poll.modify(descriptor, events)
        except (OSError, ValueError):
            pass  # closed by another thread meanwhile

    def forget(self, descriptor: int) -> None:
        """Stop watching."""
        if self._handlers.pop(descriptor, None) is not None:
            try:
                self._poll.unregister(descriptor)
            except (OSError, ValueError):
                pass

    def on_tick(self, action: Callable[[], None]) -> None:
        """Run `action` about every two milliseconds while nobody leads: what was held back goes out."""
        self._before_tick.append(action)

    def before_sleep(self, put_off: Sized, action: Callable[[], None]) -> None:
        """Run `action` on the leading thread before it sleeps, if `put_off` is not empty then."""
        if all(known is not put_off for known, _ in self._put_off):
            self._put_off.append((put_off, action))

    # ---- waiting

    def signal(self, waiter: Waiter) -> None:
        """Tell a waiter, from any thread, that what it waits for is there."""
        waiter.done = True
        if not waiter.leads:
            self._signalled_other = True
            waiter.wake()
        elif self._polling:
            os.eventfd_write(self._alarm, 1)

    def wait(self, waiter: Waiter, timeout: float | None = None) -> bool:
        """Block until `waiter` is signalled, leading meanwhile if nobody does.

        Returns False if `timeout` seconds went by first.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not waiter.done:
            if self._closed or _expired(deadline):
                return False
            if self._lead.acquire(False):
                self._lead_for(waiter, deadline)
                if waiter.eager:
                    continue
            if not waiter.done and not _expired(deadline):
                self._follow(waiter, deadline)
        return True

    def back_soon(self) -> None:
        """Say that the calling thread, which is busy for a moment, will lead again: no need to stand in."""
        self._terms += 1

    def _follow(self, waiter: Waiter, deadline: float | None) -> None:
        """Sleep until signalled, or, if eager, until promoted to lead."""
        if waiter.eager:
            self._followers.append(waiter)
            if not self._lead.locked():  # it fell vacant before we stood in the queue
                waiter.wake()
        self._sleepers.add(waiter)
        if not (waiter.done or self._closed):
            waiter.wakeup.acquire(True, -1 if deadline is None else max(0.0, deadline - time.monotonic()))
        self._sleepers.discard(waiter)
        if waiter.eager:
            try:
                self._followers.remove(waiter)
            except ValueError:  # we were promoted
                if waiter.done:
                    self._promote()

    def _promote(self) -> None:
        """Give the vacant lead to a thread that waits for a reply; failing that, rouse the stand-by."""
        while self._followers:
            try:
                self._followers.popleft().wake()
                return
            except IndexError:
                break
        if not self._standing_by:
            self._standing_by = True
            self._rouse_stand_by()

    def _rouse_stand_by(self) -> None:
        try:
            self._vacant.release()
        except RuntimeError:
            pass  # it has been roused already

    def _lead_for(self, waiter: Waiter, deadline: float | None, *, patient: bool = False) -> None:
        """Lead until the waiter is done, the deadline is over, or somebody else got work.

        A patient leader pauses after messages that nobody was waiting for. Otherwise it would take
        the interpreter from a thread that is busy sending, for every single answer.
        """
        waiter.leads = True
        self._terms += 1
        handlers, poll = self._handlers, self._poll.poll
        held = interrupts.hold()
        try:
            while True:
                self._signalled_other = False
                for put_off, act in self._put_off:
                    if put_off:
                        act()
                self._polling = True
                if waiter.done or self._closed:
                    break
                ready = self._await_events(poll, deadline, held)
                self._polling = False
                for descriptor, events in ready:
                    handler = handlers.get(descriptor)
                    if handler is not None:
                        try:
                            handler(events)
                        except Exception:
                            _log.exception("a handler of the reactor failed")
                if waiter.done or (self._signalled_other and not waiter.eager) or _expired(deadline):
                    break
                if patient and not self._followers and not self.hurried:
                    time.sleep(_PAUSE)
                self.hurried = False
        finally:
            self._polling = False
            waiter.leads = False
            self._lead.release()
            self._promote()
            if held:
                interrupts.let_go()

    def _await_events(
        self, poll: Callable[[float], list[tuple[int, int]]], deadline: float | None, held: bool
    ) -> list[tuple[int, int]]:
        timeout = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
        if not held:
            return poll(timeout)
        # Nothing has been taken from a socket yet: here Ctrl-C may end the wait.
        try:
            interrupts.expose(True)
            return poll(timeout)
        finally:
            interrupts.expose(False)

    # ---- stand-by

    def stand_by(self) -> None:
        """Lead wherever nobody does, until `close`. The whole life of one thread."""
        waiter = Waiter(eager=False)
        while not self._closed:
            self._tick_until_led(waiter)
            if not self._closed:
                self._vacant.acquire()
        with self._closing, self._lead:  # nobody waits on the descriptors any more
            self._poll.close()
            self._close_alarm()

    def _tick_until_led(self, waiter: Waiter) -> None:
        terms, pause = -1, _TICK
        while not self._closed:
            time.sleep(pause)
            for action in self._before_tick:
                action()
            if self._terms != terms:
                terms = self._terms  # somebody led since the last look
                pause = min(2 * pause, _LONGEST_TICK)
                continue
            pause = _TICK
            if self._lead.acquire(False):
                self._lead_for(waiter, None, patient=True)
                terms = -1
                continue
            # One thread has led for a whole tick: it calls us when it goes.
            self._standing_by = False
            if self._lead.locked():
                return
            self._standing_by = True

    def close(self) -> None:
        """Let every waiting thread go, and the stand-by thread end. Idempotent."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            os.eventfd_write(self._alarm, 1)
        self._rouse_stand_by()
        for waiter in list(self._sleepers):
            waiter.wake()


def _expired(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
