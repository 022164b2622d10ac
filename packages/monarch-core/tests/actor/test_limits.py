"""Messages over the limit are refused before anything is sent."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from monarch import config
from monarch.actor import Actor, ActorError, Channel, endpoint
from monarch.errors import MessageTooLarge

LARGE = 1 << 20


class Echo(Actor):
    def __init__(self) -> None:
        self.log: list[Any] = []

    @endpoint
    def note(self, number: int, load: Any = None) -> None:
        self.log.append(number)

    @endpoint
    def notes(self) -> list[int]:
        return self.log

    @endpoint
    def limit_here(self, limit: int) -> None:
        config.configure(codec_max_frame_length=limit)

    @endpoint
    def large(self, size: int) -> bytes:
        return bytes(size)


@pytest.mark.parametrize(
    "load",
    [np.zeros(2 * LARGE, dtype=np.uint8), bytes(2 * LARGE), "x" * 2 * LARGE, [0.5] * LARGE],
    ids=["array", "bytes", "text", "body"],
)
def test_a_message_over_the_limit_is_refused_at_once_and_nothing_is_lost(procs, load):
    echo = procs.slice(gpus=1).spawn("noting", Echo)
    with config.configured(codec_max_frame_length=LARGE):
        echo.note.broadcast(1)
        began = time.monotonic()
        for adverb in (echo.note.call_one, echo.note.broadcast):
            with pytest.raises(MessageTooLarge) as caught:
                adverb(2, load)
        assert time.monotonic() - began < 1
        echo.note.broadcast(3)
        assert echo.notes.call_one().get() == [1, 3]
    assert caught.value.size > caught.value.limit == LARGE
    assert f"{caught.value.size} bytes" in str(caught.value)
    assert f"limit is {LARGE}" in str(caught.value)
    assert "configure(codec_max_frame_length=...)" in str(caught.value)


def test_a_result_over_the_limit_is_the_error_of_its_call(procs):
    echo = procs.slice(gpus=2).spawn("limited", Echo)
    echo.limit_here.call_one(LARGE).get()
    error = echo.large.call_one(2 * LARGE).exception()
    assert isinstance(error, ActorError)
    assert isinstance(error.exception, MessageTooLarge)
    assert len(echo.large.call_one(LARGE >> 1).get()) == LARGE >> 1


def test_a_value_over_the_limit_is_refused_by_its_port():
    port, receiver = Channel.open()
    with config.configured(codec_max_frame_length=LARGE), pytest.raises(MessageTooLarge):
        port.send(bytes(2 * LARGE))
    port.send("small")
    assert receiver.recv().get(timeout=20) == "small"
