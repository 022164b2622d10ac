"""What every transport has to do, as tests."""

from __future__ import annotations

import array
import contextlib
import os
import pickle
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monarch.abc import Transport
from monarch.errors import TransportError
from monarch.plugins import transport_for
from monarch.testing._behind import (
    descriptors,
    environment_for_children,
    open_files,
    promptly,
    resident_bytes,
    settles,
)
from monarch.testing._exchange import End, Exchange, accepted, message
from monarch.testing.abilities import TRANSPORT, Suite, needs
from monarch.wire.codec import MESSAGE, Envelope, Hello, Received

__all__ = ["TransportSuite"]

_LARGE = 256 << 10
_HELLO = Hello(address="here", version="1.2.3", python="3.11", wire=7, pid=42, refusal="no reason")

# ---- what runs in other processes: they get the transport as any process does, from its plugin

_CRASHING_PEER = """
import sys
from monarch.plugins import transport_for
from monarch.wire.codec import Envelope, Message
connection = transport_for(sys.argv[1]).connect(sys.argv[2], 20)
connection.send(Message(Envelope(body=b"here").SerializeToString()))
sys.stdin.read()
"""

_ADOPTING_PEER = """
import select, sys, time
from monarch.plugins import transport_for
from monarch.wire.codec import Message
listener = transport_for(sys.argv[1]).adopt(sys.argv[2], int(sys.argv[3]))
print("adopted", flush=True)
deadline = time.monotonic() + 20
def wait_for(thing):
    if not select.select([thing], [], [], max(0, deadline - time.monotonic()))[0]:
        sys.exit("nothing came")
wait_for(listener)
connection, echoed = listener.accept(), 0
while echoed < 2:
    wait_for(connection)
    for envelope, _ in connection.receive():
        connection.send(Message(envelope.SerializeToString()))
        echoed += 1
sys.stdin.read()
"""


class _Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self._path,)


class _ElsewherePlaced:
    """The placement of a transport that is not the one under test."""

    closed = False

    def close(self) -> None:
        self.closed = True


_GARBAGE = {
    "rising": bytes(range(7, 256)) * 20,
    "http": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "ones": b"\xff" * 5000,
    "one-byte": b"\x01",
}


class TransportSuite(Suite):
    """Every promise of `monarch.abc.Transport`, its listeners and connections.

    A subclass gives two fixtures: `transport`, and `address`, an address that nobody has bound. The
    plugin has to be installed, since other processes take part and find it by its scheme.

        class TestCarrierPigeons(TransportSuite):
            @pytest.fixture
            def transport(self):
                return PigeonTransport()

            @pytest.fixture
            def address(self, tmp_path):
                return f"pigeon://{tmp_path}/loft"
    """

    known_abilities = TRANSPORT

    # ---- for the subclass

    @pytest.fixture
    def transport(self) -> Transport:
        """Return the transport under test. A subclass has to override this."""
        raise NotImplementedError(f"{type(self).__name__} has to define the fixture 'transport'")

    @pytest.fixture
    def address(self) -> str:
        """Return an address that nobody has bound. A subclass has to override this."""
        raise NotImplementedError(f"{type(self).__name__} has to define the fixture 'address'")

    def stranger(self, address: str) -> socket.socket:
        """Return a connected socket to the listener at `address`. For the ability `strangers`."""
        raise NotImplementedError(f"{type(self).__name__} has to define the method 'stranger'")

    # ---- what the tests share

    @pytest.fixture
    def exchange(self, transport: Transport, address: str) -> Iterator[Exchange]:
        """A listener at `address`, and whatever connects to it."""
        exchange = Exchange(transport, address, self.patience)
        yield exchange
        exchange.close()

    @pytest.fixture
    def pair(self, exchange: Exchange) -> tuple[End, End]:
        """Both ends of a connection: who connected, and who accepted."""
        return exchange.connect()

    @contextlib.contextmanager
    def _child(self, program: str, *arguments: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
        """Run a program in another interpreter, which finds the transport by its scheme."""
        with subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            env=environment_for_children(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    # ---- addresses

    def test_it_is_found_by_its_scheme(self, transport: Transport) -> None:
        """The plugin is installed and offers this transport."""
        assert type(transport_for(transport.scheme)) is type(transport)

    def test_nobody_waiting_is_no_connection(self, exchange: Exchange) -> None:
        """`accept` returns None, and at once, where nobody connected."""
        assert promptly(exchange.listener.accept, self.patience, "accept") is None

    def test_connecting_where_nobody_listens_is_refused_with_the_address(
        self, transport: Transport, address: str
    ) -> None:
        """A `TransportError` names the address."""
        self._refused(address, lambda: transport.connect(address, 1.0))

    def test_connecting_where_nobody_listens_any_more_is_refused(
        self, transport: Transport, address: str
    ) -> None:
        """Closing a listener closes its address."""
        transport.listen(address).close()
        self._refused(address, lambda: transport.connect(address, 1.0))

    def test_connecting_is_over_in_time_though_nobody_accepts(
        self, transport: Transport, exchange: Exchange
    ) -> None:
        """`connect` returns or raises within its timeout."""
        start = time.monotonic()
        with contextlib.suppress(TransportError):
            transport.connect(exchange.address, 0.1).close()
        assert time.monotonic() - start < 0.1 + self.patience / 4

    def test_an_address_in_use_is_refused_with_the_address(
        self, transport: Transport, exchange: Exchange
    ) -> None:
        """A second `listen` is a `TransportError`, and the first goes on."""
        self._refused(exchange.address, lambda: transport.listen(exchange.address))
        near, far = exchange.connect()
        near.send(b"still here")
        exchange.receive(far)

    def test_a_closed_address_may_be_bound_again(self, transport: Transport, address: str) -> None:
        """`close` of a listener leaves nothing behind, and does no harm a second time."""
        for _ in range(2):
            listener = transport.listen(address)
            listener.close()
            listener.close()

    def test_a_released_address_is_served_by_who_adopted_it(self, transport: Transport, address: str) -> None:
        """`release` closes one descriptor; the address stays bound until `close`."""
        first = transport.listen(address)
        adopted = transport.adopt(address, os.dup(first.fileno()))
        first.release()
        near = transport.connect(address, self.patience)
        far = accepted(adopted, self.patience)
        near.close()
        far.close()
        adopted.close()
        first.close()
        transport.listen(address).close()

    def test_a_released_address_is_cleared_by_who_bound_it(self, transport: Transport, address: str) -> None:
        """`close` after `release` removes what is left of an adopter that is gone."""
        listener = transport.listen(address)
        listener.release()
        listener.close()
        transport.listen(address).close()

    def test_another_program_adopts_the_address_and_gets_what_was_sent_before(
        self, exchange: Exchange
    ) -> None:
        """A descriptor that another program was given is its listener, peers that wait included."""
        near = exchange.add(exchange.transport.connect(exchange.address, self.patience))
        near.send(b"early")
        number, scheme = exchange.listener.fileno(), exchange.transport.scheme
        with self._child(_ADOPTING_PEER, scheme, exchange.address, number, pass_fds=(number,)) as adopter:
            assert adopter.stdout is not None
            assert promptly(adopter.stdout.readline, self.patience, "adopt") == "adopted\n"
            exchange.listener.release()
            near.send(b"late")
            exchange.receive(near, 2)
        assert near.bodies == [b"early", b"late"]

    def test_what_is_no_listener_is_not_adopted(self, transport: Transport, address: str) -> None:
        """A descriptor that is not open is a `TransportError` that names the address."""
        closed = os.open(os.devnull, os.O_RDONLY)
        os.close(closed)
        self._refused(address, lambda: transport.adopt(address, closed))

    def test_connections_of_one_listener_are_apart(self, exchange: Exchange) -> None:
        """Each peer has a connection of its own, which only it closes."""
        ends = [exchange.connect() for _ in range(5)]
        for number, (near, _) in enumerate(ends):
            near.send(b"%d" % number)
        for number, (_, far) in enumerate(ends):
            assert exchange.receive(far)[0][0].body == b"%d" % number
        ends[0][0].close()
        exchange.wait_for_end(ends[0][1])
        ends[1][1].send(b"answer")
        exchange.receive(ends[1][0])

    def test_no_descriptor_is_inherited_by_accident(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """A program that this process executes gets what it is given by name, and no more."""
        ours = [exchange.listener.fileno(), *(end.connection.fileno() for end in pair)]
        assert [os.get_inheritable(descriptor) for descriptor in ours] == [False] * 3

    # ---- greetings

    def test_a_peer_is_unknown_before_it_speaks(self, pair: tuple[End, End]) -> None:
        """`peer_hello` is None, on both ends."""
        assert [end.connection.peer_hello for end in pair] == [None, None]

    def test_a_greeting_goes_ahead_of_the_next_message(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Who hears the message knows by then, field for field, who sent it."""
        near, far = pair
        near.connection.greet(_HELLO)
        near.send(b"first")
        exchange.receive(far)
        assert far.hello == _HELLO

    def test_a_greeting_goes_ahead_of_messages_that_are_held(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """What is queued is not written yet: the greeting is first."""
        near, far = pair
        near.send(b"held", hold=True)
        near.connection.greet(_HELLO)
        near.connection.flush()
        exchange.receive(far)
        assert far.hello == _HELLO

    def test_both_ends_greet(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """Who accepted introduces itself no less than who connected."""
        for number, end in enumerate(pair):
            end.connection.greet(Hello(address=f"end {number}"))
            end.connection.flush()
        exchange.run_until(lambda: all(end.hello for end in pair), "both know each other")
        assert [end.hello and end.hello.address for end in pair] == ["end 1", "end 0"]

    def test_a_refusal_is_heard_before_the_end(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """A greeting that is flushed arrives, though the connection is closed right behind it."""
        near, far = pair
        near.connection.greet(_HELLO)
        near.connection.flush()
        near.close()
        exchange.wait_for_end(far)
        assert far.hello == _HELLO

    # ---- messages

    def test_an_envelope_arrives_as_it_was_sent(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """Field for field, in both directions."""
        envelope = Envelope(
            kind=MESSAGE, actor=b"a", sender=b"s", sequence=1 << 40, endpoint="é", port=5, body=b"\0"
        )
        for sender, receiver in (pair, pair[::-1]):
            sent = message()
            sent.envelope = envelope.SerializeToString()
            sender.connection.send(sent)
            [(arrived, buffers)] = exchange.receive(receiver)
            assert (arrived, list(buffers)) == (envelope, [])

    def test_many_small_messages_arrive_in_the_order_of_sending(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Each once, none lost, none before another."""
        near, far = pair
        bodies = [b"%d" % number for number in range(3000)]
        for body in bodies:
            near.send(body)
        exchange.receive(far, len(bodies))
        assert far.bodies == bodies

    @pytest.mark.parametrize("hold", [False, True], ids=["at-once", "held"])
    def test_messages_of_any_size_arrive_whole(
        self, exchange: Exchange, pair: tuple[End, End], hold: bool
    ) -> None:
        """From nothing to several times what a socket takes."""
        near, far = pair
        sizes = [0, 1, 100, 127, 128, 16383, 16384, 65535, 65536, 0, _LARGE, 3 << 20, 5]
        bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
        for body in bodies:
            near.send(body, hold=hold)
        near.connection.flush()
        exchange.receive(far, len(bodies))
        assert far.bodies == bodies

    def test_there_is_nothing_before_something_was_sent(self, pair: tuple[End, End]) -> None:
        """`receive` returns at once, whether there is something or not."""
        receive = pair[1].connection.receive
        assert list(promptly(receive, self.patience, "receive")) == []

    def test_a_held_message_goes_with_the_next_flush(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """`hold` queues; `flush` writes, in the order of sending."""
        near, far = pair
        near.send(b"held", hold=True)
        assert list(far.connection.receive()) == []
        assert near.connection.backlog() > 0
        near.connection.flush()
        exchange.receive(far)

    def test_many_threads_send_whole_messages_each_in_its_order(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """`send` is safe from any thread."""
        near, far = pair

        def send(thread: int) -> None:
            for number in range(200):
                near.send(b"%d %d" % (thread, number) + bytes(1000))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        exchange.receive(far, 800)
        for thread in threads:
            thread.join()
        seen = [tuple(map(int, body.rstrip(b"\0").split())) for body in far.bodies]
        for who in range(4):
            assert [number for thread_, number in seen if thread_ == who] == [*range(200)]

    def test_both_directions_are_full_and_everything_arrives(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Two ends that both send more than the other takes do not wait for each other."""
        for end in pair:
            self._send_large(end, 40)
        for end in pair:
            exchange.receive(end, 40)

    # ---- output that the peer does not take

    def test_a_sender_never_waits_for_its_peer(self, pair: tuple[End, End]) -> None:
        """`send` returns, though nobody reads, and what is kept back counts as backlog."""
        near, _ = pair
        self._send_large(near, 100)
        assert near.said[-1:] == [True]
        assert near.connection.backlog() > 10 * _LARGE

    def test_a_backlog_is_announced_drained_and_over(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """True when something is kept back; once all is written False, and nothing is left."""
        near, far = pair
        self._send_large(near, 100)
        exchange.receive(far, 100)
        exchange.run_until(lambda: not near.waiting, "on_backlog is called with False")
        assert (near.said[0], near.said[-1], near.connection.backlog()) == (True, False, 0)

    # ---- buffers

    @pytest.mark.parametrize("count", [1, 2, 65, 200])
    def test_any_number_of_buffers_goes_in_one_message(
        self, exchange: Exchange, pair: tuple[End, End], count: int
    ) -> None:
        """In order, each with its own content."""
        near, far = pair
        near.send(b"all", *([bytes([number]) * _LARGE] for number in range(count)))
        [(envelope, views)] = exchange.receive(far)
        assert envelope.body == b"all"
        assert [(view[0], view[-1], view.nbytes) for view in views] == [(n, n, _LARGE) for n in range(count)]

    def test_a_buffer_is_its_chunks_one_after_the_other(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Bytes, memoryviews, and views of other elements than bytes."""
        near, far = pair
        numbers = array.array("d", [1.5, 2.5])
        near.send(b"", [b"abc", memoryview(b"-defg-")[1:-1], memoryview(numbers)])
        [(_, [view])] = exchange.receive(far)
        assert bytes(view) == b"abcdefg" + numbers.tobytes()

    @pytest.mark.parametrize("sizes", [[0], [0, 0], [0, 5, 0], [65536, 0]], ids=str)
    def test_an_empty_buffer_is_a_buffer(
        self, exchange: Exchange, pair: tuple[End, End], sizes: list[int]
    ) -> None:
        """Also where a message has no other."""
        near, far = pair
        near.send(b"", *([bytes(size)] for size in sizes))
        [(_, views)] = exchange.receive(far)
        assert [view.nbytes for view in views] == sizes

    def test_a_large_buffer_arrives_whole(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """32 MiB, compared byte for byte."""
        near, far = pair
        content = os.urandom(1 << 20) * 32
        near.send(b"", [content])
        [(_, [view])] = exchange.receive(far)
        assert view == content

    def test_a_received_buffer_is_flat_and_may_be_written(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """A view of bytes that belongs to the receiver."""
        near, far = pair
        near.send(b"", [bytes(_LARGE)])
        [(_, [view])] = exchange.receive(far)
        assert (view.format, view.ndim, view.readonly) == ("B", 1, False)
        view[5] = 7
        assert view[5] == 7

    @pytest.mark.parametrize("hold", [False, True], ids=["at-once", "held"])
    def test_the_sender_may_change_its_memory_once_send_returned(
        self, exchange: Exchange, pair: tuple[End, End], hold: bool
    ) -> None:
        """What arrives is what was there when it was sent."""
        near, far = pair
        memory = bytearray(b"a" * _LARGE)
        near.send(b"", [memoryview(memory)], hold=hold)
        memory[:] = b"b" * _LARGE
        near.connection.flush()
        [(_, [view])] = exchange.receive(far)
        assert {*view} == {ord("a")}
        view[0] = ord("c")
        assert memory[0] == ord("b")

    def test_a_kept_buffer_does_not_change(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """Messages that come later lie elsewhere."""
        near, far = pair
        for number in range(20):
            near.send(b"", [bytes([number]) * _LARGE])
        received = exchange.receive(far, 20)
        assert [view[0] for _, (view,) in received] == [view[-1] for _, (view,) in received] == [*range(20)]

    def test_messages_with_and_without_buffers_keep_their_order(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """A buffer does not let the messages behind it pass."""
        near, far = pair
        bodies = [b"%d" % number for number in range(60)]
        for number, body in enumerate(bodies):
            near.send(body, *([[bytes(_LARGE)]] if number % 3 == 0 else []))
        exchange.receive(far, len(bodies))
        assert far.bodies == bodies
        assert [len(buffers) for _, buffers in far.received] == [1, 0, 0] * 20

    def test_receivers_of_a_shared_message_do_not_see_each_other(self, exchange: Exchange) -> None:
        """A message that several peers get is written by each in memory of its own."""
        ends = [exchange.connect() for _ in range(3)]
        cast = message(b"", [bytes(_LARGE)])
        for near, _ in ends:
            near.connection.place(cast)
        for near, _ in ends:
            near.connection.send(cast, shared=True)
        cast.close()
        views = [exchange.receive(far)[0][1][0] for _, far in ends]
        views[0][0] = 7
        assert [view[0] for view in views] == [7, 0, 0]

    def test_a_message_that_another_transport_placed_arrives(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Its placement stays as it is, for the peers that the other transport reaches."""
        near, far = pair
        placed = _ElsewherePlaced()
        cast = message(b"", [b"a" * _LARGE])
        cast.placement = placed
        near.connection.place(cast)
        near.connection.send(cast, shared=True)
        assert cast.placement is placed
        assert not placed.closed
        [(_, [view])] = exchange.receive(far)
        assert {*view} == {ord("a")}

    def test_a_received_buffer_outlives_its_connection(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Both ends are closed, and it is still there."""
        near, far = pair
        near.send(b"", [b"a" * _LARGE])
        [(_, [view])] = exchange.receive(far)
        near.close()
        far.close()
        assert {*view} == {ord("a")}

    def test_memory_comes_back_when_the_receiver_drops_its_buffers(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """However much passes, neither memory nor descriptors pile up."""
        near, far = pair
        size, rounds = 4 << 20, 40
        content = bytes(size)
        before, open_before = resident_bytes(), len(descriptors())
        for _ in range(rounds):
            near.send(b"", [content])
            exchange.receive(far)
            far.received.clear()
        assert resident_bytes() - before < size * rounds / 2
        assert len(descriptors()) - open_before < rounds / 2

    def test_placing_where_nothing_is_left_fails_before_anything_is_sent(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """`place` raises OSError or succeeds; the connection goes on either way."""
        near, far = pair
        refused = message(b"refused", [bytes(3 * _LARGE)])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            with contextlib.suppress(OSError):
                near.connection.place(refused)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        refused.close()
        near.send(b"next", [b"a" * _LARGE])
        [(envelope, [view])] = exchange.receive(far)
        assert (envelope.body, view[0]) == (b"next", ord("a"))

    # ---- ends

    def test_a_closed_connection_is_the_end_of_file_after_what_was_sent(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Everything that was written arrives first."""
        near, far = pair
        near.send(b"first")
        near.send(b"last", [b"a" * _LARGE])
        near.close()
        exchange.wait_for_end(far)
        assert far.bodies == [b"first", b"last"]

    def test_a_killed_peer_is_the_end_of_file(self, exchange: Exchange) -> None:
        """A process that SIGKILL ended says nothing more; its connection does."""
        with self._child(_CRASHING_PEER, exchange.transport.scheme, exchange.address) as peer:
            far = exchange.accept()
            exchange.receive(far)
            peer.send_signal(signal.SIGKILL)
            exchange.wait_for_end(far)
        assert far.bodies == [b"here"]

    def test_a_peer_that_went_away_is_found_by_reading(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Sending to it may fail or not, with ConnectionError alone; reading tells the end."""
        near, far = pair
        far.close()
        for _ in range(3):
            with contextlib.suppress(ConnectionError):
                near.send(b"lost", [bytes(_LARGE)])
        exchange.wait_for_end(near)

    def test_a_peer_that_goes_with_a_backlog_is_found_by_reading(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """What it did not take does not hide that it is gone."""
        near, far = pair
        self._send_large(near, 40)
        far.close()
        exchange.wait_for_end(near)

    def test_a_closed_connection_refuses_to_send(self, pair: tuple[End, End]) -> None:
        """`close` does no harm a second time, and `send` is a ConnectionError."""
        near, _ = pair
        near.close()
        near.close()
        with pytest.raises(ConnectionError):
            near.send(b"late")

    def test_no_descriptor_is_left_after_closing(self, transport: Transport, address: str) -> None:
        """Of listener, connections, and the memory of messages that were sent, received or neither."""

        def talk() -> None:
            exchange = Exchange(transport, address, self.patience)
            near, far = exchange.connect()
            near.send(b"", [bytes(_LARGE)], [bytes(_LARGE)])
            exchange.receive(far)
            near.send(b"", [bytes(_LARGE)])
            near.send(b"", [bytes(_LARGE)], hold=True)
            exchange.close()

        before, times = open_files(), 5
        for _ in range(times):
            talk()
        # A transport may keep some for the next connection, and not some more for each.
        assert settles(lambda: len(open_files() - before) < times, True, self.patience / 4)

    # ---- strangers

    @needs("strangers")
    @pytest.mark.parametrize("kind", [*_GARBAGE, "pickle"])
    def test_bytes_of_a_stranger_end_its_connection_and_nothing_else(
        self, exchange: Exchange, kind: str, tmp_path: Path
    ) -> None:
        """Nothing is handed out, nothing unpickled, and others go on."""
        trap = tmp_path / "sprung"
        near, far = exchange.connect()
        stranger = self.stranger(exchange.address)
        stranger.sendall(pickle.dumps(_Trap(trap)) if kind == "pickle" else _GARBAGE[kind])
        stranger.close()
        handed_out = self._received_from_stranger(exchange)
        near.send(b"goes on")
        exchange.receive(far)
        assert (handed_out, trap.exists()) == ([], False)

    @needs("strangers")
    def test_a_stranger_that_hangs_up_does_no_harm(self, exchange: Exchange) -> None:
        """Not even a number of them, before they are accepted."""
        for _ in range(20):
            self.stranger(exchange.address).close()
        near = exchange.add(exchange.transport.connect(exchange.address, self.patience))
        near.send(b"a peer")
        # A stranger may be accepted, and then is at its end.
        while not self._first_word(exchange, exchange.accept()):
            pass

    # ---- helpers

    @staticmethod
    def _first_word(exchange: Exchange, end: End) -> list[bytes]:
        exchange.run_until(lambda: bool(end.received) or end.ended, "it speaks, or ends")
        return end.bodies

    @staticmethod
    def _refused(address: str, call: Callable[[], Any]) -> None:
        __tracebackhide__ = True
        with pytest.raises(TransportError) as refusal:
            call()
        assert address in str(refusal.value)

    def _send_large(self, end: End, count: int) -> None:
        def send() -> None:
            for _ in range(count):
                end.send(bytes(_LARGE))

        promptly(send, self.patience, "send")

    def _received_from_stranger(self, exchange: Exchange) -> list[Received]:
        assert select.select([exchange.listener], [], [], self.patience)[0], "the listener does not notice"
        connection = exchange.listener.accept()
        if connection is None:  # refused at the door
            return []
        end = exchange.add(connection)
        exchange.wait_for_end(end)
        return end.received
