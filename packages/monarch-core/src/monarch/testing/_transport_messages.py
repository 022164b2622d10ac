"""What a transport does with greetings and messages, as tests."""

from __future__ import annotations

import threading

import pytest

from monarch.testing._behind import promptly
from monarch.testing._exchange import End, Exchange, message
from monarch.testing._transport_base import HELLO, LARGE, TransportBase
from monarch.wire.codec import MESSAGE, Envelope, Hello


class MessageTests(TransportBase):
    """Each once, whole, in order, and nobody waits."""

    # ---- greetings

    def test_a_peer_is_unknown_before_it_speaks(self, pair: tuple[End, End]) -> None:
        """`peer_hello` is None, on both ends."""
        assert [end.connection.peer_hello for end in pair] == [None, None]

    def test_a_greeting_goes_ahead_of_the_next_message(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """Who hears the message knows by then, field for field, who sent it."""
        near, far = pair
        near.connection.greet(HELLO)
        near.send(b"first")
        exchange.receive(far)
        assert far.hello == HELLO

    def test_a_greeting_goes_ahead_of_messages_that_are_held(
        self, exchange: Exchange, pair: tuple[End, End]
    ) -> None:
        """What is queued is not written yet: the greeting is first."""
        near, far = pair
        near.send(b"held", hold=True)
        near.connection.greet(HELLO)
        near.connection.flush()
        exchange.receive(far)
        assert far.hello == HELLO

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
        near.connection.greet(HELLO)
        near.connection.flush()
        near.close()
        exchange.wait_for_end(far)
        assert far.hello == HELLO

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
        sizes = [0, 1, 100, 127, 128, 16383, 16384, 65535, 65536, 0, LARGE, 3 << 20, 5]
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
        assert near.connection.backlog() > 10 * LARGE

    def test_a_backlog_is_announced_drained_and_over(self, exchange: Exchange, pair: tuple[End, End]) -> None:
        """True when something is kept back; once all is written False, and nothing is left."""
        near, far = pair
        self._send_large(near, 100)
        exchange.receive(far, 100)
        exchange.run_until(lambda: not near.waiting, "on_backlog is called with False")
        assert (near.said[0], near.said[-1], near.connection.backlog()) == (True, False, 0)
