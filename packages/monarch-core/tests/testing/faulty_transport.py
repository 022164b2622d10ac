"""A transport, `faulty`, that is the built-in one but for one fault; also the plugin that offers it.

The environment variable FAULT names the fault, so that other processes have the same one.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import time

from monarch.errors import TransportError
from monarch.hookspecs import hookimpl
from monarch.plugins import transport_for
from monarch.wire.codec import Envelope, Message

MONARCH_API = (1, 0)


def _ipc(address):
    return address.replace("faulty://", "ipc://")


class Connection:
    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    @property
    def peer_hello(self):
        return self.inner.peer_hello

    @peer_hello.setter
    def peer_hello(self, hello):
        self.inner.peer_hello = hello

    @property
    def on_backlog(self):
        return self.inner.on_backlog

    @on_backlog.setter
    def on_backlog(self, hear):
        self.inner.on_backlog = hear


class Listener:
    def __init__(self, inner, connection, address):
        self.inner, self.connection, self.address = inner, connection, address

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def accept(self):
        accepted = self.inner.accept()
        return accepted and self.connection(accepted)


class Transport:
    scheme = "faulty"
    connection = Connection
    listener = Listener

    def __init__(self):
        self.inner = transport_for("ipc")

    @contextlib.contextmanager
    def renaming(self, address):
        """Errors name the address that was asked for."""
        try:
            yield _ipc(address)
        except TransportError as error:
            raise TransportError(f"{address}: {error}") from error

    def listen(self, address):
        with self.renaming(address) as ipc:
            return self.listener(self.inner.listen(ipc), self.connection, address)

    def adopt(self, address, descriptor):
        with self.renaming(address) as ipc:
            return self.listener(self.inner.adopt(ipc, descriptor), self.connection, address)

    def connect(self, address, timeout):
        with self.renaming(address) as ipc:
            return self.connection(self.inner.connect(ipc, timeout))


# ---- faults of connections


class Reorders(Connection):
    caught_by = "many_small"

    def receive(self):
        return self.inner.receive()[::-1]


class Loses(Connection):
    caught_by = "many_small"

    count = 0

    def send(self, message, **how):
        self.count += 1
        if self.count % 50:
            self.inner.send(message, **how)


class Repeats(Connection):
    caught_by = "many_small"

    def receive(self):
        return [each for each in self.inner.receive() for _ in range(2)]


class DropsFields(Connection):
    caught_by = "an_envelope_arrives_as_it_was_sent"

    def receive(self):
        return [(Envelope(body=envelope.body), buffers) for envelope, buffers in self.inner.receive()]


class Mixes(Connection):
    """Buffers of a message change as later ones come."""

    caught_by = "a_kept_buffer_does_not_change"

    memory = None

    def receive(self):
        received = []
        for envelope, buffers in self.inner.receive():
            if len(buffers) == 1 and buffers[0].nbytes:
                self.memory = self.memory or memoryview(bytearray(64 << 20))
                self.memory[: buffers[0].nbytes] = buffers[0]
                buffers = [self.memory[: buffers[0].nbytes]]
            received.append((envelope, buffers))
        return received


class OfBuffers(Connection):
    """A fault of received buffers."""

    def change(self, buffers):
        raise NotImplementedError

    def receive(self):
        return [(envelope, self.change(buffers)) for envelope, buffers in self.inner.receive()]


class Truncates(OfBuffers):
    caught_by = "a_buffer_is_its_chunks"

    def change(self, buffers):
        return [buffer[:-1] for buffer in buffers]


class ReadOnly(OfBuffers):
    caught_by = "flat_and_may_be_written"

    def change(self, buffers):
        return [buffer.toreadonly() for buffer in buffers]


class NotFlat(OfBuffers):
    caught_by = "flat_and_may_be_written"

    def change(self, buffers):
        return [buffer.cast("H") if buffer.nbytes % 2 == 0 else buffer for buffer in buffers]


class SkipsEmpty(OfBuffers):
    caught_by = "an_empty_buffer_is_a_buffer"

    def change(self, buffers):
        return [buffer for buffer in buffers if buffer.nbytes]


class FirstBuffers(OfBuffers):
    caught_by = "any_number_of_buffers"

    def change(self, buffers):
        return list(buffers)[:64]


class Hoards(OfBuffers):
    caught_by = "memory_comes_back"

    kept = []  # noqa: RUF012

    def change(self, buffers):
        self.kept.extend(buffers)
        return buffers


class GoneAtClose(OfBuffers):
    caught_by = "outlives_its_connection"

    given = ()

    def change(self, buffers):
        self.given = [*self.given, *buffers]
        return buffers

    def close(self):
        self.inner.close()
        for buffer in self.given:
            buffer[:] = bytes(buffer.nbytes)


class SharesWithAll(Connection):
    caught_by = "do_not_see_each_other"

    def send(self, message, *, hold=False, shared=False):
        self.inner.send(message, hold=hold)


class TakesOverPlacements(Connection):
    caught_by = "another_transport_placed"

    def place(self, message):
        message.placement = None
        self.inner.place(message)


class ReadsLate(Connection):
    """Buffers are read only when they are written."""

    caught_by = "may_change_its_memory"

    def __init__(self, inner):
        super().__init__(inner)
        self.late = []

    def send(self, message, *, hold=False, shared=False):
        self.late.append(message)
        if not hold:
            self.flush()

    def flush(self):
        while self.late:
            self.inner.send(self.late.pop(0))
        self.inner.flush()


class IgnoresHold(Connection):
    caught_by = "a_held_message_goes_with_the_next_flush"

    def send(self, message, *, hold=False, shared=False):
        self.inner.send(message, shared=shared)


class ForgetsHeld(Connection):
    caught_by = "a_held_message_goes_with_the_next_flush"

    def send(self, message, *, hold=False, shared=False):
        if not hold:
            self.inner.send(message, shared=shared)


class BlocksInReceive(Connection):
    caught_by = "there_is_nothing_before"

    def receive(self):
        select.select([self.inner], [], [], 1.5)
        return self.inner.receive()


class BlocksInSend(Connection):
    caught_by = "a_sender_never_waits"

    def send(self, message, **how):
        self.inner.send(message, **how)
        deadline = time.monotonic() + 1.5
        while self.inner.backlog() and time.monotonic() < deadline:
            select.select([], [self.inner], [], 0.1)
            self.inner.drain()


class NotForThreads(Connection):
    """Takes messages apart, and writes the halves one after the other."""

    caught_by = "many_threads_send"

    def send(self, message, **how):
        envelope = Envelope.FromString(message.envelope)
        self.body = envelope.body
        time.sleep(0.0001)
        envelope.body = self.body
        self.inner.send(Message(envelope.SerializeToString()), **how)


class GreetsLast(Connection):
    caught_by = "a_greeting_goes_ahead_of_the_next_message"

    hello = None

    def greet(self, hello):
        self.hello = hello

    def send(self, message, **how):
        self.inner.send(message, **how)
        if self.hello is not None:
            self.inner.greet(self.hello)

    def flush(self):
        self.inner.flush()
        if self.hello is not None:
            self.inner.greet(self.hello)
            self.inner.flush()


class GreetsWithMessagesOnly(Connection):
    caught_by = "a_refusal_is_heard"

    hello = None

    def greet(self, hello):
        self.hello = hello

    def send(self, message, **how):
        if self.hello is not None:
            self.inner.greet(self.hello)
            self.hello = None
        self.inner.send(message, **how)


class KnowsBeforehand(Connection):
    caught_by = "unknown_before_it_speaks"

    def __init__(self, inner):
        super().__init__(inner)
        inner.peer_hello = ""


class HidesBacklog(Connection):
    caught_by = "a_sender_never_waits"

    def backlog(self):
        return 0


class SilentBacklog(Connection):
    caught_by = "a_sender_never_waits"

    on_backlog = None


class NeverRelieved(Connection):
    caught_by = "a_backlog_is_announced"

    @property
    def on_backlog(self):
        return self.inner.on_backlog

    @on_backlog.setter
    def on_backlog(self, hear):
        self.inner.on_backlog = lambda waiting: hear(True)


class NeverEnds(Connection):
    caught_by = "a_killed_peer"

    def receive(self):
        try:
            return self.inner.receive()
        except EOFError:
            return ()


class LosesTheLast(Connection):
    """The end hides what came with it."""

    caught_by = "end_of_file_after_what_was_sent"

    def receive(self):
        received = self.inner.receive()
        with contextlib.suppress(EOFError):
            if not select.select([self.inner], [], [], 0.01)[0] or self.inner.receive():
                return received
            return received
        raise EOFError


class OtherError(Connection):
    caught_by = "a_killed_peer"

    def receive(self):
        try:
            return self.inner.receive()
        except EOFError as error:
            raise OSError("gone") from error


class SendsWhenClosed(Connection):
    caught_by = "a_closed_connection_refuses"

    def send(self, message, **how):
        with contextlib.suppress(ConnectionError):
            self.inner.send(message, **how)


class ClosesOnce(Connection):
    caught_by = "a_closed_connection_refuses"

    closed = False

    def close(self):
        if self.closed:
            raise OSError("closed already")
        self.closed = True
        self.inner.close()


class KeepsDescriptor(Connection):
    caught_by = "no_descriptor_is_left"

    def __init__(self, inner):
        super().__init__(inner)
        self.copy = os.dup(inner.fileno())


class Inheritable(Connection):
    caught_by = "no_descriptor_is_inherited"

    def __init__(self, inner):
        super().__init__(inner)
        os.set_inheritable(inner.fileno(), True)


class SilentDescriptor(Connection):
    """The descriptor never says that something came."""

    caught_by = "an_envelope_arrives_as_it_was_sent"

    def __init__(self, inner):
        super().__init__(inner)
        self.never = os.eventfd(0, os.EFD_CLOEXEC)

    def fileno(self):
        return self.never

    def close(self):
        self.inner.close()
        with contextlib.suppress(OSError):
            os.close(self.never)
        self.never = -1


class Unpickles(Connection):
    caught_by = "bytes_of_a_stranger"

    def receive(self):
        with contextlib.suppress(Exception), socket.socket(fileno=os.dup(self.inner.fileno())) as sock:
            pickle.loads(sock.recv(5000, socket.MSG_PEEK))
        return self.inner.receive()


class HandsOutAnything(Connection):
    caught_by = "bytes_of_a_stranger"

    def receive(self):
        try:
            return self.inner.receive()
        except EOFError as error:
            if "closed the connection" in str(error):
                raise
            return [(Envelope(), ())]


class PlacesHalf(Connection):
    """A placement that fails has told the peer already."""

    caught_by = "placing_where_nothing_is_left"

    def place(self, message):
        try:
            self.inner.place(message)
        except OSError:
            self.inner.send(Message(message.envelope))
            raise


# ---- faults of listeners


class BlocksInAccept(Listener):
    caught_by = "nobody_waiting"

    def accept(self):
        select.select([self.inner], [], [], 1.5)
        return super().accept()


class AcceptsOnce(Listener):
    caught_by = "connections_of_one_listener"

    accepted = False

    def accept(self):
        if self.accepted:
            return None
        connection = super().accept()
        self.accepted = connection is not None
        return connection


class LeavesItsFile(Listener):
    caught_by = "may_be_bound_again"

    def close(self):
        self.inner.release()


class UnbindsOnRelease(Listener):
    caught_by = "a_released_address_is_served"

    def release(self):
        self.inner.close()


class KeepsFileAfterRelease(Listener):
    caught_by = "cleared_by_who_bound_it"

    released = False

    def release(self):
        self.released = True
        self.inner.release()

    def close(self):
        if not self.released:
            self.inner.close()


class InheritableListener(Listener):
    caught_by = "no_descriptor_is_inherited"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        os.set_inheritable(self.inner.fileno(), True)


# ---- faults of the transport itself


class AnonymousErrors(Transport):
    caught_by = "an_address_in_use_is_refused"

    @contextlib.contextmanager
    def renaming(self, address):
        try:
            yield _ipc(address)
        except TransportError as error:
            raise TransportError("it does not work") from error


class OwnErrors(Transport):
    caught_by = "nobody_listens_is_refused"

    @contextlib.contextmanager
    def renaming(self, address):
        try:
            yield _ipc(address)
        except TransportError as error:
            raise OSError(address) from error


class TakesAddressesInUse(Transport):
    caught_by = "an_address_in_use_is_refused"

    def listen(self, address):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_ipc(address).removeprefix("ipc://"))
        return super().listen(address)


class AdoptsAnything(Transport):
    caught_by = "what_is_no_listener"

    def adopt(self, address, descriptor):
        try:
            return super().adopt(address, descriptor)
        except TransportError:
            return super().listen(address)


class AdoptsAnew(Transport):
    """Those who wait at the door are forgotten."""

    caught_by = "another_program_adopts"

    def adopt(self, address, descriptor):
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_ipc(address).removeprefix("ipc://"))
        return super().listen(address)


class WaitsForEver(Transport):
    """A greeting of the listener is awaited, however long it takes."""

    caught_by = "connecting_is_over_in_time"

    def connect(self, address, timeout):
        connection = super().connect(address, timeout)
        select.select([connection], [], [], 1.5)
        return connection


FAULTS = {
    fault.__name__: fault
    for base in (Connection, OfBuffers, Listener, Transport)
    for fault in base.__subclasses__()
    if fault is not OfBuffers
}


def make():
    """Return the transport with the fault that the environment names, or with none."""
    fault = FAULTS.get(os.environ.get("FAULT"), Transport)
    if issubclass(fault, Transport):
        return fault()
    transport = Transport()
    setattr(transport, "connection" if issubclass(fault, Connection) else "listener", fault)
    return transport


@hookimpl
def monarch_make_transport(scheme):
    return make() if scheme == "faulty" else None
