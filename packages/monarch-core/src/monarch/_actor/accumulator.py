"""Folds the results of a whole mesh into one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from monarch._actor.endpoint import Endpoint
from monarch._actor.future import Future, run_async

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Accumulator(Generic[P, R, A]):
    """Calls an endpoint on all actors and combines what they return, as it arrives.

    `combine(accumulated, result)` is applied from `identity` on, in the order of arrival; it
    should not depend on that order.
    """

    def __init__(self, endpoint: Endpoint[P, R], identity: A, combine: Callable[[A, R], A]) -> None:
        self._endpoint, self._identity, self._combine = endpoint, identity, combine

    def accumulate(self, *args: P.args, **kwargs: P.kwargs) -> Future[A]:
        """Call all actors with the arguments; the future holds the combined value, or the first error."""
        results = self._endpoint.stream(*args, **kwargs)

        async def fold() -> Any:
            value = self._identity
            for future in results:
                value = self._combine(value, await future)
            return value

        return run_async(fold())
