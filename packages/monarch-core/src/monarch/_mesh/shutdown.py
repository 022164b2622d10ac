"""Ends the client from within the program."""

from __future__ import annotations

import threading

from monarch._actor import Future, future_of
from monarch._runtime import here
from monarch._runtime.client import end_client, wait_for_end
from monarch._runtime.promise import LastingPromise
from monarch.config import get


def shutdown_context(host_timeout: float | None = None) -> Future[None]:
    """End everything that this client started; the future is done when it is gone. Idempotent.

    The client starts afresh when it is next used. It also ends with the program.

    Args:
        host_timeout: seconds for processes to end by themselves before they are killed.
    """
    promise = LastingPromise()
    if here.running() is None:
        promise.settle(lambda: None)
        return future_of(promise)
    seconds = get("process_exit_timeout") if host_timeout is None else host_timeout

    def end() -> None:
        end_client(seconds)
        wait_for_end()  # if somebody else was ending it
        promise.settle(lambda: None)

    threading.Thread(target=end, name="monarch-shutdown").start()
    return future_of(promise)
