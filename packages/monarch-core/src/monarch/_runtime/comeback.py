"""Whether one actor comes back after a failure, and when: alone, or with its mesh."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import NamedTuple

from monarch._runtime.restart import Budget, Restart
from monarch._runtime.work import Work


class Decision(NamedTuple):
    """The seconds to wait before a restart, or None if there is none, and the generation that has ended."""

    delay: float | None
    generation: int


FINAL = Decision(None, 0)


class Comeback:
    """The restarts of one actor: how many are left, which one is under way, and what may end it.

    Ranks of a mesh that restarts as a whole tell each other in which generation they failed. Those
    that fail together then restart once. A rank in a restarted process does not know the generation;
    it is 0 until another rank tells it.
    """

    def __init__(self, policy: Restart, *, joining: bool) -> None:
        self.birth: Work | None = None
        """The message that created the actor, where it may be created again."""
        self.under_way = False
        self.is_to_stop = False
        """A stop is on its way: the actor does not come back any more."""
        self._budget = Budget(policy)
        self._generation = 0 if joining else 1
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._hurry = asyncio.Event()

    def decide(self, rank: int, heard: int | None = None) -> Decision | None:
        """Decide what follows from a failure of this actor, or of another rank in the generation `heard`.

        None if nothing does: a restart is under way, or this actor has begun since. Called on any thread.
        """
        with self._lock:
            if heard is None and self.under_way:
                return None
            ended = self._generation if heard is None else heard
            if 0 < ended < self._generation:
                return None
            if ended:
                self._generation = ended + 1
            if self.under_way or (heard is not None and self.birth is None):
                return None
            delay = self._budget.spend(rank)
            self.under_way = delay is not None
            return Decision(delay, ended)

    async def back_off(self, delay: float) -> None:
        """Wait before a restart, unless the actor is to stop."""
        self._loop = asyncio.get_running_loop()
        if not self.is_to_stop:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), delay)
        self._loop = None

    def give_up(self) -> None:
        """The actor is to stop; called on any thread."""
        self.is_to_stop = True
        if (loop := self._loop) is not None:
            loop.call_soon_threadsafe(self._hurry.set)
