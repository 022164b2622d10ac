"""Endpoints: the methods of an actor that others may call, and the adverbs to call them with."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Concatenate, Generic, Literal, NoReturn, ParamSpec, TypeVar, overload

from monarch._actor.future import Future, future_of
from monarch._runtime import here, sending
from monarch._runtime.pickling import Pickled, dumps_call
from monarch._runtime.port import Port
from monarch._runtime.sending import Target
from monarch._runtime.spec import WITH_PORT, EndpointSpec, spec_of
from monarch.errors import CallError
from monarch.shape import NDSlice, Shape, ValueMesh
from monarch.wire.codec import MESSAGE

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")

Propagate = Literal["cached", "inspect", "mocked"] | Callable[..., Any] | None

_PROPAGATE = (None, "cached", "inspect", "mocked")


class EndpointProperty(Generic[P, R]):
    """What `@endpoint` makes of a method. On the actor itself it is the plain method."""

    def __init__(self, spec: EndpointSpec, propagate: Propagate) -> None:
        if not (callable(propagate) or propagate in _PROPAGATE):
            raise ValueError(f"propagate takes one of {_PROPAGATE} or a function, not {propagate!r}")
        self.spec = spec
        self.propagate = propagate
        functools.update_wrapper(self, spec.function)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else types.MethodType(self.spec.function, instance)


def _declare(
    method: Callable[..., Any], propagate: Propagate, explicit_response_port: bool, concurrent: bool
) -> EndpointProperty[Any, Any]:
    if isinstance(method, EndpointProperty):
        raise ValueError(f"{method.__name__!r} is an endpoint already; use only one decorator")
    if not callable(method):
        raise TypeError(f"an endpoint is a method, not {method!r}")
    is_async = inspect.iscoroutinefunction(method)
    if concurrent and not is_async:
        raise ValueError(
            f"concurrent_endpoint {getattr(method, '__name__', method)!r} has to be an async def"
        )
    return EndpointProperty(EndpointSpec(method, is_async, concurrent, explicit_response_port), propagate)


@overload
def endpoint(method: Callable[Concatenate[A, P], Awaitable[R]]) -> EndpointProperty[P, R]: ...
@overload
def endpoint(method: Callable[Concatenate[A, P], R]) -> EndpointProperty[P, R]: ...
@overload
def endpoint(
    *, propagate: Propagate = None, explicit_response_port: bool = False, instrument: bool = True
) -> Callable[[Callable[..., Any]], EndpointProperty[Any, Any]]: ...
def endpoint(
    method: Callable[..., Any] | None = None,
    *,
    propagate: Propagate = None,
    explicit_response_port: bool = False,
    instrument: bool = True,
) -> Any:
    """Mark a method of an actor as callable by others. It may be `def` or `async def`.

    Args:
        propagate: how the tensor layer finds out the shape of a result without running it.
        explicit_response_port: pass a `Port` as first argument, through which the method answers
            later, from another thread, or not at all; its return value is not used.
        instrument: record calls in telemetry, where it is installed.

    Raises:
        ValueError: if the method is an endpoint already, or `propagate` is unknown.
    """
    if method is not None:
        return _declare(method, propagate, explicit_response_port, concurrent=False)
    return lambda method: _declare(method, propagate, explicit_response_port, concurrent=False)


@overload
def concurrent_endpoint(method: Callable[Concatenate[A, P], Awaitable[R]]) -> EndpointProperty[P, R]: ...
@overload
def concurrent_endpoint(
    *, propagate: Propagate = None, explicit_response_port: bool = False, instrument: bool = True
) -> Callable[[Callable[..., Any]], EndpointProperty[Any, Any]]: ...
def concurrent_endpoint(
    method: Callable[..., Any] | None = None,
    *,
    propagate: Propagate = None,
    explicit_response_port: bool = False,
    instrument: bool = True,
) -> Any:
    """Mark an `async def` that runs beside other messages: the actor goes on while it awaits.

    Concurrent endpoints start in the order of their messages. They are cancelled before the
    actor's `__cleanup__` runs.

    Raises:
        ValueError: if the method is not an `async def`, or is an endpoint already.
    """
    if method is not None:
        return _declare(method, propagate, explicit_response_port, concurrent=True)
    return lambda method: _declare(method, propagate, explicit_response_port, concurrent=True)


@functools.lru_cache(maxsize=1024)
def checker(function: Callable[..., Any], leading: int) -> Callable[..., None]:
    """Return a function that takes what `function` takes after its `leading` parameters, and does nothing.

    Calling it checks arguments at the speed of a call; `inspect.Signature.bind` takes fifty times as long.
    """
    parameters = list(inspect.signature(function).parameters.values())
    kept = (
        parameters[leading:]
        if all(p.kind is not p.VAR_POSITIONAL for p in parameters[:leading])
        else parameters
    )
    bare = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else _Default()) for p in kept
    ]
    name = function.__name__ if function.__name__.isidentifier() else "endpoint"
    scope: dict[str, Any] = {}
    exec(f"def {name}{inspect.Signature(bare)}: pass", scope)
    checker: Callable[..., None] = scope[name]
    return checker


class _Default:
    """Prints as a default value that any source may contain."""

    def __repr__(self) -> str:
        return "None"


class Endpoint(Generic[P, R]):
    """One endpoint of all actors in a mesh, or in a part of one. The adverbs call it."""

    def __init__(self, target: Target, name: str, spec: EndpointSpec, propagate: Propagate = None) -> None:
        self._target, self._name, self._spec, self._propagate = target, name, spec, propagate
        self._check = checker(spec.function, 2 if spec.explicit_port else 1)
        self._what = f"an argument of {target.name}.{name}()"

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Future[ValueMesh[R]]:
        """Call all actors; the future holds their results in the shape of the mesh.

        The first error settles it: `ActorError` if an endpoint raised, `SupervisionError` if an
        actor or its process failed before it answered.

        Raises:
            TypeError: if the arguments do not fit the signature.
            PicklingError: if an argument cannot be pickled.
            MessageTooLarge: if the arguments are over the limit.
        """
        content = self._content(args, kwargs)
        extent = self._target.shape.extent
        shape = Shape(extent.labels, NDSlice.new_row_major(extent.sizes))
        combine = functools.partial(ValueMesh, shape)
        return future_of(sending.call_all(here.get(), self._target, self._name, content, combine))

    def call_one(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call the only actor of the mesh.

        Raises:
            ValueError: if there is not exactly one; also what `call` raises.
        """
        if len(self._target.ranks) != 1:
            raise ValueError(
                f"call_one requires exactly 1 actor, but mesh {self._target.name!r} has "
                f"{len(self._target.ranks)} here; slice the mesh, or use call or choose"
            )
        return future_of(sending.call_one(here.get(), self._target, self._name, self._content(args, kwargs)))

    def choose(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call the actor whose process has the fewest calls of this process still to answer."""
        content = self._content(args, kwargs)
        process = here.get()
        position = sending.least_loaded(process, self._target)
        return future_of(sending.call_one(process, self._target, self._name, content, position))

    def broadcast(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Send to all actors and forget. An endpoint that raises fails its actor: nobody else hears of it."""
        sending.cast(here.get(), self._target, MESSAGE, self._name, self._content(args, kwargs))

    def stream(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Future[R]]:
        """Call all actors; iterate over as many futures, which complete in the order of the answers."""
        promises = sending.stream(here.get(), self._target, self._name, self._content(args, kwargs))
        return map(future_of, promises)

    def rref(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """Make the result a distributed tensor. Not available: this version has no tensor layer.

        Raises:
            CallError: always.
        """
        raise CallError(
            f"rref of {self._target.name}.{self._name} needs the tensor layer, "
            "which this version does not have; use call() to get the values"
        )

    def _content(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pickled:
        self._check(*args, **kwargs)
        return dumps_call(args, kwargs, self._what)

    def __repr__(self) -> str:
        return f"<endpoint {self._name} of {self._target.name} {self._target.shape.extent}>"


class NotAnEndpoint:
    """A method of an actor that is not annotated; only `as_endpoint` can do something with it."""

    def __init__(self, target: Target, cls: type, name: str) -> None:
        self._target, self._cls, self._name = target, cls, name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"{self._cls.__name__}.{self._name} is not annotated as an endpoint; "
            "decorate it with @endpoint, or call it through as_endpoint(...)"
        )

    def __getattr__(self, adverb: str) -> Any:
        if adverb in ("call", "call_one", "choose", "broadcast", "stream", "rref"):
            return self
        raise AttributeError(adverb)


def as_endpoint(
    not_an_endpoint: Any, *, propagate: Propagate = None, explicit_response_port: bool = False
) -> Endpoint[Any, Any]:
    """Return an endpoint for a method of a spawned actor that is not annotated: `as_endpoint(mesh.method)`.

    Raises:
        ValueError: if it is not a method of a spawned actor.
    """
    if isinstance(not_an_endpoint, Endpoint):
        return not_an_endpoint
    if not isinstance(not_an_endpoint, NotAnEndpoint):
        raise ValueError(
            f"as_endpoint takes a method of a spawned actor, such as mesh.method, not {not_an_endpoint!r}"
        )
    method = not_an_endpoint
    spec = spec_of(method._cls, method._name)
    assert spec is not None
    name = method._name + WITH_PORT if explicit_response_port else method._name
    return Endpoint(method._target, name, spec._replace(explicit_port=explicit_response_port), propagate)


def send(
    endpoint: Endpoint[Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    port: Port | None = None,
    selection: Literal["all", "choose"] = "all",
) -> None:
    """Send one message, and have the answers go to `port`: what all adverbs are made of.

    Without a port nobody hears the answers. A ranked receiver of the port gets `(rank, value)`.

    Raises:
        ValueError: for a selection other than "all" or "choose".
    """
    if selection not in ("all", "choose"):
        raise ValueError(f"selection takes 'all' or 'choose', not {selection!r}")
    process = here.get()
    target = endpoint._target
    content = endpoint._content(args, kwargs)
    fields: dict[str, Any] = {}
    if selection == "choose":
        fields["position"] = sending.least_loaded(process, target)
    if port is not None:
        fields["port"] = port._number
        if port._process != process.address:
            fields["reply_to"] = port._process
    sending.cast(process, target, MESSAGE, endpoint._name, content, **fields)
