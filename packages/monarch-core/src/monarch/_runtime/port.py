"""The sending end of a channel, and how an exception travels through one."""

from __future__ import annotations

import warnings
from typing import Any

from monarch._runtime import here
from monarch._runtime.pickling import copy_buffers, dumps, dumps_result, loads
from monarch._runtime.tracebacks import format_from_user
from monarch.errors import ActorError, CallError
from monarch.wire.codec import ERROR, REPLY, Envelope


class Port:
    """Sends values to one receiver, from any process that holds it.

    `return_undeliverable` says whether a value that nobody can receive any more is reported to
    the sending actor's `_handle_undeliverable_message`.
    """

    def __init__(self, process: str, number: int, rank: int, *, once: bool = False) -> None:
        self._process, self._number, self._rank, self._once = process, number, rank, once
        self.return_undeliverable = True
        self.used = False

    def send(self, obj: Any) -> None:
        """Send a value. On a port of a call, only the first one counts; more are ignored with a warning.

        Raises:
            PicklingError: if the value cannot be pickled.
            MessageTooLarge: if it is over the limit.
        """
        self._send(REPLY, dumps_result(obj, f"the {type(obj).__name__} sent to a port"))

    def exception(self, exc: Exception) -> None:
        """Send an exception: the receiver raises it."""
        error = exc if isinstance(exc, CallError) else as_actor_error(exc, "the sender to this port")
        self._send(ERROR, dumps(error, "the exception sent to a port"))

    def _send(self, kind: Any, content: Any) -> None:
        if self._once and self.used:
            warnings.warn("this call has been answered already; the second answer is ignored", stacklevel=3)
            return
        self.used = True
        if self._number:
            envelope = Envelope(
                kind=kind,
                port=self._number,
                rank=self._rank,
                body=content.body,
                body_in_buffer=content.body_in_buffer,
                buffer_sizes=content.sizes(),
            )
            here.get().peer(self._process).post(envelope, content.buffers)

    def __reduce__(self) -> tuple[Any, ...]:
        return _port, (self._process, self._number, self._rank, self._once, self.return_undeliverable)

    def __repr__(self) -> str:
        return f"Port({self._process}#{self._number})"


def _port(process: str, number: int, rank: int, once: bool, return_undeliverable: bool) -> Port:
    port = Port(process, number, rank, once=once)
    port.return_undeliverable = return_undeliverable
    return port


def as_actor_error(error: BaseException, where: str) -> ActorError:
    """Wrap what an endpoint raised, with its traceback as text; what cannot be pickled gets a stand-in."""
    text = format_from_user(error)
    message = f"{where} raised {type(error).__name__}: {error}"
    error = error.with_traceback(None)
    try:
        content = dumps(error, "the exception")
        loads(content.body, copy_buffers(content.buffers), content.body_in_buffer)
    except Exception:  # its pickling is the user's code, and may raise anything
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return ActorError(error, message, text)
