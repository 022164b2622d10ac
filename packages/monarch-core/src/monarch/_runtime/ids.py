"""Identities of processes and actors: unique without asking anybody, readable in logs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_TEXT = re.compile(rf"([^<>]*)<([{_ALPHABET}]+)>")


UID_SIZE = 8  # bytes


def new_id() -> bytes:
    """Return eight random bytes."""
    return os.urandom(UID_SIZE)


def base58(content: bytes) -> str:
    """Return bytes as text without look-alike characters."""
    number = int.from_bytes(b"\x01" + content, "big")
    digits = ""
    while number:
        number, digit = divmod(number, 58)
        digits = _ALPHABET[digit] + digits
    return digits


def _from_base58(text: str) -> bytes:
    number = 0
    for digit in text:
        number = number * 58 + _ALPHABET.index(digit)
    return number.to_bytes((number.bit_length() + 7) // 8, "big")[1:]


@dataclass(frozen=True)
class Uid:
    """A unique identity with an optional label; its text is `label<base58>`."""

    label: str
    content: bytes

    @classmethod
    def anonymous(cls) -> Uid:
        """Return a new identity without a label."""
        return cls("", new_id())

    @classmethod
    def instance(cls, label: str) -> Uid:
        """Return a new identity with a label."""
        return cls(label, new_id())

    @classmethod
    def from_string(cls, text: str) -> Uid:
        """Read the text form.

        Raises:
            ValueError: if it is not `label<base58>`.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no identity; it has to look like label<base58>")
        return cls(match[1], _from_base58(match[2]))

    def __str__(self) -> str:
        return f"{self.label}<{base58(self.content)}>"


@dataclass(frozen=True)
class ProcId:
    """Identity of a process."""

    uid: Uid

    @classmethod
    def from_string(cls, text: str) -> ProcId:
        """Read the text form of its `Uid`; `ValueError` if it is none."""
        return cls(Uid.from_string(text))

    @property
    def label(self) -> str:
        """The label of the process."""
        return self.uid.label

    def __str__(self) -> str:
        return str(self.uid)


@dataclass(frozen=True)
class ActorAddr:
    """Where one actor lives: the address of its process, and its identity there."""

    process: str
    actor: Uid
    rank: int

    def __str__(self) -> str:
        return f"{self.process}/{self.actor}[{self.rank}]"
