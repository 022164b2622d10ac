"""Controllers: actors of which there is one for each name in the whole program, in the client."""

from __future__ import annotations

import contextlib
import linecache
from typing import Any, TypeVar

from monarch._actor import Actor, Future, endpoint, future_of
from monarch._mesh.actor_mesh import ActorMesh
from monarch._mesh.identities import REGISTRY
from monarch._mesh.proc_mesh import this_proc
from monarch._runtime import here, sending, supervision
from monarch._runtime.pickling import Pickled, dumps_call
from monarch._runtime.promise import Promise
from monarch._runtime.sending import Target
from monarch._runtime.supervision import MeshFailure
from monarch.errors import CallError
from monarch.shape import Shape

A = TypeVar("A", bound=Actor)

_SOURCE_SECONDS = 2.0


class Registry(Actor):
    """Knows the controllers of a client."""

    def __init__(self) -> None:
        self._controllers: dict[str, ActorMesh[Any]] = {}

    def __supervise__(self, failure: MeshFailure) -> bool:
        """Hand failures to the root: a controller belongs to the program, not to who asked first."""
        supervision.at_root(failure)
        return True

    @endpoint
    def source(self, file: str) -> list[str]:
        """Return the lines of a source file, which may exist in this process only: the cell of a notebook."""
        return linecache.getlines(file)

    @endpoint
    def get_or_spawn(self, name: str, cls: type[Actor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the controller of this name; one that failed is spawned anew."""
        known = self._controllers.get(name)
        cell = None if known is None else here.get().cell(known._target.uid)
        if cell is None or cell.error is not None:
            known = self._controllers[name] = this_proc().spawn(name, cls, *args, **kwargs)  # type: ignore[assignment]
        return known


def get_or_spawn_controller(name: str, Class: type[A], *args: Any, **kwargs: Any) -> Future[A]:
    """Return the future of the controller called `name`, spawned by whoever asks first.

    It lives in the client, whoever asks. One that failed is replaced by the next to ask.
    """
    from monarch._mesh import services

    services.start()
    content = dumps_call((name, Class, args, kwargs), {}, f"the class or an argument of {Class.__name__}()")
    return future_of(_ask("get_or_spawn", content))


def source_of(file: str) -> list[str]:
    """Return the lines of a source file as the client has them; none if it does not say so soon."""
    promise = _ask("source", dumps_call((file,), {}, "the name of a file"))
    with contextlib.suppress(CallError):
        if promise.wait(here.get().reactor, _SOURCE_SECONDS):
            lines: list[str] = promise.result()
            return lines
    return []


def _ask(endpoint: str, content: Pickled) -> Promise:
    process = here.get()
    return sending.call_one(
        process, Target(REGISTRY, "controllers", Shape.unity(), (process.root,)), endpoint, content
    )
