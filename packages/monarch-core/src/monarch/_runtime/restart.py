"""Restart policies: what happens to the ranks of a mesh when one of them fails."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from monarch.errors import WrongArgument

Scope = Literal["never", "rank", "mesh"]


@dataclass(frozen=True)
class Restart:
    """When a rank fails, restart it, or its whole mesh, in place: references keep working.

    `scope` is "rank", "mesh" or "never". A failure that follows `limit` others within `within`
    seconds is final. The first restart waits for `backoff` seconds, each further one within that
    time twice as long as the one before, up to `longest_backoff` seconds. With the scope "rank"
    each rank counts its own.
    """

    scope: Scope = "rank"
    limit: int = 5
    within: float = 60.0
    backoff: float = 0.1
    longest_backoff: float = 10.0

    def __post_init__(self) -> None:
        if self.scope not in get_args(Scope):
            raise WrongArgument(f"restart takes 'never', 'rank', 'mesh' or a Restart, not {self.scope!r}")
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise WrongArgument(f"the limit of a Restart is a number of restarts from 1, not {self.limit!r}")
        for name in ("within", "backoff", "longest_backoff"):
            seconds = getattr(self, name)
            if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
                raise WrongArgument(f"{name} of a Restart is a number of seconds, not {seconds!r}")

    @classmethod
    def of(cls, given: Any) -> Restart:
        """Return the policy that a user gave by its scope alone, or whole.

        Raises:
            WrongArgument: if it is neither (also `TypeError`).
        """
        return given if isinstance(given, cls) else cls(given)


NEVER = Restart("never")


class Budget:
    """How many restarts a mesh has left, and how long the next one waits. Safe from several threads."""

    def __init__(self, policy: Restart, clock: Callable[[], float] = time.monotonic) -> None:
        self.policy = policy
        self._clock = clock
        self._spent: defaultdict[int, deque[float]] = defaultdict(deque)

    def spend(self, rank: int) -> float | None:
        """Take one restart for a failure of `rank`; return the seconds to wait first, None if it is final."""
        policy = self.policy
        if policy.scope == "never":
            return None
        now = self._clock()
        spent = self._spent[rank if policy.scope == "rank" else 0]
        while spent and spent[0] <= now - policy.within:
            spent.popleft()
        if len(spent) >= policy.limit:
            return None
        spent.append(now)
        return min(policy.backoff * 2.0 ** (len(spent) - 1), policy.longest_backoff)
