"""What every transport has to do, as tests. Messages and buffers have modules of their own."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monarch.abc import Transport
from monarch.errors import TransportError
from monarch.plugins import transport_for
from monarch.testing._behind import environment_for_children, open_files, promptly, settles
from monarch.testing._exchange import End, Exchange, accepted
from monarch.testing._transport_base import LARGE
from monarch.testing._transport_buffers import BufferTests
from monarch.testing._transport_messages import MessageTests
from monarch.testing.abilities import needs
from monarch.wire.codec import Received

__all__ = ["TransportSuite"]

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


_GARBAGE = {
    "rising": bytes(range(7, 256)) * 20,
    "http": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "ones": b"\xff" * 5000,
    "one-byte": b"\x01",
}


class TransportSuite(MessageTests, BufferTests):
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

    # ---- ends

    def test_a_closed_connection_is_the_end_of_file_after_what_was_sent(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Everything that was written arrives first."""
        near, far = pair
        near.send(b"first")
        near.send(b"last", [b"a" * LARGE])
        exchange.run_until(lambda: not (near.waiting or near.connection.backlog()), "it is written")
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
                near.send(b"lost", [bytes(LARGE)])
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
            near.send(b"", [bytes(LARGE)], [bytes(LARGE)])
            exchange.receive(far)
            near.send(b"", [bytes(LARGE)])
            near.send(b"", [bytes(LARGE)], hold=True)
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

    def _received_from_stranger(self, exchange: Exchange) -> list[Received]:
        assert select.select([exchange.listener], [], [], self.patience)[0], "the listener does not notice"
        connection = exchange.listener.accept()
        if connection is None:  # refused at the door
            return []
        end = exchange.add(connection)
        exchange.wait_for_end(end)
        return end.received

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
