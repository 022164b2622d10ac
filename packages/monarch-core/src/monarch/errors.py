"""Every exception that Monarch raises, in one tree.

MonarchError
├── ConfigError                a setting that does not exist or has the wrong type
├── WrongArgument              an argument of the wrong type (also TypeError)
├── PluginError                a plugin is missing, broken, or asked for what it does not offer
│   └── PluginVersionError     a plugin and this core speak different interface versions
├── MeshError
│   ├── ShapeError             a dimension, slice or split that a shape does not allow
│   │   ├── UnknownDimension   (also TypeError)
│   │   └── OutOfRange         (also IndexError)
│   ├── NotAnActor             a class that cannot be spawned (also ValueError)
│   ├── MeshClosed             the mesh was stopped by its own program (also SupervisionError)
│   └── SpawnError             processes or actors that could not be started
├── CallError
│   ├── ActorError             the endpoint raised; `exception` is what it raised
│   ├── SupervisionError       the target failed before it answered (also RuntimeError)
│   │   ├── ActorDied          the actor failed; its process may live on
│   │   └── ProcessDied        the process of the actor is gone
│   ├── CallCancelled          the call was cancelled by its caller
│   ├── MessageTooLarge        refused before sending (also ValueError)
│   ├── PicklingError          a value that cannot travel (also pickle.PicklingError)
│   └── DeadlockError          a wait that could never end (also RuntimeError)
├── DebugError
│   ├── NoSuchSession          no breakpoint waits under this name (also LookupError)
│   ├── SessionTaken           another terminal is attached to it
│   └── SessionLost            its process ended while a terminal was attached (also ConnectionError)
└── TransportError             a connection that could not be made, or a peer that was refused

An error also inherits the builtin that a caller would already catch. Facts stand in
attributes as well as in the message.
"""

from __future__ import annotations

import concurrent.futures
import pickle
from collections.abc import Callable
from textwrap import indent
from typing import Any, Self, TypeVar

_Class = TypeVar("_Class", bound=type)
_Error = TypeVar("_Error", bound=BaseException)


def _named_like(known: str) -> Callable[[_Class], _Class]:
    """Show a known name to programs that look at `type(error).__name__`; tracebacks show our own."""

    def name(cls: _Class) -> _Class:
        cls.__name__ = known
        return cls

    return name


class MonarchError(Exception):
    """Base of everything that Monarch raises on purpose."""


class ConfigError(MonarchError, ValueError):
    """A setting is unknown or its value is not acceptable."""


class ConfigTypeError(ConfigError, TypeError):
    """A setting was given a value of the wrong type."""


class WrongArgument(MonarchError, TypeError):
    """An argument is of the wrong type."""


class PluginError(MonarchError, RuntimeError):
    """A plugin is missing, cannot be loaded, or does not offer what was asked of it."""


class PluginVersionError(PluginError):
    """A plugin and this core speak different interface versions. The plugin is not used.

    `plugin` is its name, `distribution` what brings it; `theirs` and `ours` are the versions.
    """

    def __init__(
        self, plugin: str, distribution: str, theirs: tuple[int, int], ours: tuple[int, int], remedy: str
    ) -> None:
        self.plugin, self.distribution, self.theirs, self.ours = plugin, distribution, theirs, ours
        super().__init__(
            f"plugin {plugin!r} of {distribution} speaks interface {theirs[0]}.{theirs[1]}, "
            f"this core speaks {ours[0]}.{ours[1]}, so it is not used; {remedy}"
        )


class MeshError(MonarchError):
    """Something a mesh cannot do."""


@_named_like("ValueError")
class ShapeError(MeshError, ValueError):
    """A shape does not allow this slice, split, flatten or rename."""


@_named_like("TypeError")
class UnknownDimension(ShapeError, TypeError):
    """A dimension that the shape does not have."""


@_named_like("KeyError")
class UnknownLabel(ShapeError, KeyError):
    """A label or coordinate that a lookup did not find."""

    __str__ = Exception.__str__  # KeyError would print the repr of the message


@_named_like("IndexError")
class OutOfRange(ShapeError, IndexError):
    """An index or rank outside a dimension or mesh."""


@_named_like("ValueError")
class NotAnActor(MeshError, ValueError):
    """A class that cannot be spawned: no subclass of `Actor`, or with an endpoint name that is taken."""


class SpawnError(MeshError, RuntimeError):
    """Processes or actors could not be started."""


class CallError(MonarchError):
    """A call did not produce its result."""


class ActorError(CallError):
    """The endpoint raised an exception. The actor lives; only this call failed.

    `exception` is the original exception where it could be pickled, else a stand-in that
    carries its type's name and text. `exception_formatted` is the remote traceback.
    """

    def __init__(self, exception: BaseException, message: str = "", exception_formatted: str = "") -> None:
        self.exception = exception
        self.message = message
        self.exception_formatted = exception_formatted
        super().__init__(exception, message, exception_formatted)

    def __str__(self) -> str:
        parts = [self.message or f"{type(self.exception).__name__}: {self.exception}"]
        if self.exception_formatted:
            parts.append(self.exception_formatted.rstrip())
        return "\n".join(parts)


class SupervisionError(CallError, RuntimeError):
    """The target failed, or was stopped, before it answered.

    The call may have run. Retry only an endpoint that is safe to run twice.
    `endpoint` names the endpoint called, where one was.
    """

    def __init__(self, message: str, endpoint: str | None = None, **facts: Any) -> None:
        self.endpoint = endpoint
        self.facts = facts
        super().__init__(message)

    def in_call(self, call: str, endpoint: str) -> Self:
        """Return the same error as one call meets it: `call` says which, on which rank."""
        return _rebuild(
            type(self), (f"{call} got no answer: {self.args[0]}",), {**self.__dict__, "endpoint": endpoint}
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


@_named_like("SupervisionError")
class ActorDied(SupervisionError):
    """The actor failed before it answered; its process may still be alive."""


@_named_like("SupervisionError")
class ProcessDied(SupervisionError):
    """The process of the actor is gone.

    `exit_code` or `signal` (a number) says how it ended; both are None if nobody saw it. `stderr`
    has the last lines that it wrote to its standard error, which are in the message, too. If it is
    `restarting`, later calls reach the process that takes its place, after `incarnation` others.
    """

    def __init__(
        self,
        message: str,
        endpoint: str | None = None,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        pid: int | None = None,
        stderr: str = "",
        restarting: bool = False,
        incarnation: int = 0,
        **facts: Any,
    ) -> None:
        self.exit_code, self.signal, self.pid, self.stderr = exit_code, signal, pid, stderr
        self.restarting, self.incarnation = restarting, incarnation
        super().__init__(message, endpoint, **facts)

    def __str__(self) -> str:
        text = super().__str__()
        return text + "\nThe end of its stderr:\n" + indent(self.stderr, "  ") if self.stderr else text


@_named_like("SupervisionError")
class MeshClosed(SupervisionError, MeshError):
    """The mesh was stopped by the program that owns it, and then used."""


class CallCancelled(CallError, concurrent.futures.CancelledError):
    """The call was cancelled by its caller before its result arrived."""


class MessageTooLarge(CallError, ValueError):
    """A message over the configured limit. Nothing was sent."""

    def __init__(self, size: int, limit: int, setting: str = "codec_max_frame_length") -> None:
        self.size, self.limit, self.setting = size, limit, setting
        super().__init__(
            f"the message has {size} bytes and the limit is {limit}; raise the setting {setting!r} "
            f"with monarch.config.configure({setting}=...), or send less at once"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.size, self.limit, self.setting))


class PicklingError(CallError, pickle.PicklingError):
    """A value that cannot be pickled, and so cannot travel to another process."""


class DeadlockError(CallError, RuntimeError):
    """A wait that could never end, refused before it starts."""


class DebugError(MonarchError):
    """Something that `monarch debug` cannot do."""


class NoSuchSession(DebugError, LookupError):
    """No breakpoint waits under this name."""


class SessionTaken(DebugError):
    """Another terminal is attached to the session."""


class SessionLost(DebugError, ConnectionError):
    """The process of the session ended while a terminal was attached."""


class TransportError(MonarchError, ConnectionError):
    """A connection could not be made, or its peer was refused."""


def _rebuild(cls: type[_Error], args: tuple[Any, ...], state: dict[str, Any]) -> _Error:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
