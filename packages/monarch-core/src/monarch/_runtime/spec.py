"""What the runtime has to know of an endpoint and of an actor to be created."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from monarch._runtime.restart import NEVER, Restart
from monarch.shape import Shape

READY = ""
"""The endpoint that every actor has: it answers True once the constructor has run."""

WITH_PORT = "!port"
"""Ends the name of a method that is not annotated and is to be called with its response port."""


class EndpointSpec(NamedTuple):
    """How one endpoint is called."""

    function: Callable[..., Any]
    is_async: bool
    concurrent: bool = False
    explicit_port: bool = False


def spec_of(cls: type, name: str) -> EndpointSpec | None:
    """Return how method `name` of an actor class is called, annotated or not; None if there is none."""
    name, explicit_port = name.removesuffix(WITH_PORT), name.endswith(WITH_PORT)
    attribute = inspect.getattr_static(cls, name, None)
    spec = getattr(attribute, "spec", None)
    if isinstance(spec, EndpointSpec):
        return spec
    if inspect.isfunction(attribute):
        return EndpointSpec(attribute, inspect.iscoroutinefunction(attribute), explicit_port=explicit_port)
    return None


@dataclass(frozen=True)
class SpawnHeader:
    """What a process has to know of an actor before it opens the pickled class and arguments.

    `shape` is that of the whole mesh, over base ranks that index `processes`. `on_loop` says that
    every endpoint is asynchronous, so that the actor lives on the event loop and needs no thread,
    `has_async` that some are.
    """

    name: str
    class_name: str
    shape: Shape
    processes: tuple[str, ...]
    owner_process: str
    owner: bytes
    owner_name: str
    owner_rank: int
    on_loop: bool
    has_async: bool
    owner_incarnation: int = 0
    restart: Restart = NEVER


@dataclass(frozen=True)
class ActorStatus:
    """The state of one actor at one moment.

    `state` is "idle", "running" (a handler has the processor), "blocked" (the handler waits for
    something while other messages queue up), "waiting" (it waits and nothing is queued),
    "starting", "restarting", "stopped" or "failed". `handler` is the endpoint in progress, `seconds` for how
    long it has been, `queued` the number of messages behind it, `concurrent` the number of
    concurrent endpoints in progress.
    """

    name: str
    class_name: str
    rank: int
    state: str
    handler: str | None = None
    seconds: float = 0.0
    queued: int = 0
    concurrent: int = 0
    process: str = field(default="", compare=False)
    pid: int = 0
