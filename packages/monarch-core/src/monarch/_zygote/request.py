"""What the program and its keeper tell each other, over one socket that keeps messages apart."""

from __future__ import annotations

import array
import os
import pickle
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_ROOM = 4096
_MOST_DESCRIPTORS = 253  # SCM_MAX_FD


@dataclass(frozen=True)
class Start:
    """A process to start. Numbers in `descriptors` are those that it sees them under."""

    argv: Sequence[str]
    env: Mapping[str, str]
    descriptors: Sequence[int]
    cpus: frozenset[int]
    memory_nodes: frozenset[int]
    executable: str
    entry: str | None
    umask: int
    limits: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Preload:
    """Modules that the program has imported and the keeper should have, to be found on `path`.

    `warm_up` is "module:function", or "", to be called once.
    """

    names: Sequence[str]
    path: Sequence[str]
    warm_up: str = ""


@dataclass(frozen=True)
class Signal:
    """A signal for a process that the keeper started; SIGKILL also for what that has started."""

    pid: int
    number: int


@dataclass(frozen=True)
class Started:
    """The answer to `Start`, on the channel of the process: how processes are started, or what failed."""

    pid: int | None
    how: str
    error: str


Message = Start | Preload | Signal


def send(control: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> None:
    """Send a message with copies of descriptors. Its text goes by a file, since it may be long."""
    text = os.memfd_create("monarch-request", os.MFD_CLOEXEC)
    try:
        with open(text, "wb", closefd=False) as file:
            pickle.dump(message, file)
        rights = array.array("i", [text, *descriptors])
        control.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    finally:
        os.close(text)


def receive(control: socket.socket) -> tuple[Message, list[int]] | None:
    """Return the next message and its descriptors, or None when there is nobody left to send one."""
    room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
    content, ancillary, _, _ = control.recvmsg(_ROOM, room, socket.MSG_CMSG_CLOEXEC)
    if not content:
        return None
    received = array.array("i")
    for _, _, data in ancillary:
        received.frombytes(data)
    with os.fdopen(received[0], "rb") as file:
        file.seek(0)
        message: Any = pickle.load(file)
    return message, list(received[1:])
