"""Talks to host agents, wherever they live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from monarch import config
from monarch._actor import Future, future_of
from monarch._mesh.identities import AGENT
from monarch._runtime import here, sending
from monarch._runtime.pickling import dumps_call
from monarch._runtime.promise import Promise
from monarch._runtime.sending import Target
from monarch.errors import SpawnError
from monarch.shape import Shape


def ask(
    agents: Sequence[str], endpoint: str, arguments: Sequence[tuple[Any, ...]], what: str
) -> list[Promise]:
    """Call an endpoint of each agent with its own arguments."""
    process = here.get()
    promises = []
    for agent, args in zip(agents, arguments):
        target = Target(AGENT, "host agent", Shape.unity(), (agent,))
        promises.append(sending.call_one(process, target, endpoint, dumps_call(args, {}, what)))
    return promises


def wait(promises: Sequence[Promise], what: str) -> list[Any]:
    """Wait for answers that come at once, since an agent answers before it does the work.

    Raises:
        SpawnError: if one does not come within the setting `host_spawn_ready_timeout`.
    """
    seconds = config.get("host_spawn_ready_timeout")
    for promise in promises:
        if not promise.wait(here.get().reactor, seconds):
            raise SpawnError(
                f"{what}: a host agent did not answer within {seconds} s (host_spawn_ready_timeout)"
            )
    return [promise.result() for promise in promises]


def joined(promises: Sequence[Promise], combine: Callable[[list[Any]], Any]) -> Future[Any]:
    """Return the future of all results, combined; the first error settles it."""
    whole = Promise()
    left = len(promises)

    def settled() -> None:
        nonlocal left
        left -= 1
        if not left:
            whole.settle(lambda: combine([promise.result() for promise in promises]))

    if not promises:
        whole.settle(lambda: combine([]))
    for promise in promises:
        promise.add_callback(settled)
    return future_of(whole)


def stop_processes(processes: Mapping[str, str], reason: str) -> Future[None]:
    """End processes, given the agent of each."""
    return _ask_each(processes, "stop_processes", reason)


def set_output(processes: Mapping[str, str], shown: bool, window: float) -> Future[None]:
    """Say what is shown of what processes write, given the agent of each."""
    return _ask_each(processes, "set_output", shown, window)


def _ask_each(processes: Mapping[str, str], endpoint: str, *arguments: Any) -> Future[None]:
    agents = list(dict.fromkeys(processes.values()))
    given = [([key for key, at in processes.items() if at == agent], *arguments) for agent in agents]
    return joined(ask(agents, endpoint, given, "the addresses"), lambda results: None)
