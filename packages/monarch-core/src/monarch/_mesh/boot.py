"""What an agent hands to a process that it starts."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from monarch.errors import SpawnError

BOOT = "MONARCH_BOOT"
SetUp = Callable[[], Awaitable[None] | None]


@dataclass(frozen=True)
class Boot:
    """What an agent tells a new process. Descriptors are numbers in the new process."""

    address: str
    root: str
    agent: str
    listener: int
    lifeline: int
    parcel: int
    pipes: Sequence[int]
    """The inodes of standard output and error."""
    incarnation: int = 0

    def to_env(self) -> dict[str, str]:
        """Return the environment variable that carries it."""
        return {BOOT: json.dumps(asdict(self))}

    @classmethod
    def from_env(cls, env: MutableMapping[str, str]) -> Boot:
        """Take it out of the environment.

        Raises:
            SpawnError: if it is not there: this program is not for people to start.
        """
        try:
            return cls(**json.loads(env.pop(BOOT)))
        except KeyError:
            raise SpawnError(f"{BOOT} is not set; actor processes are started by spawn_procs") from None


@dataclass(frozen=True)
class Parcel:
    """What a new process needs of the program that spawned it. `set_up` is pickled apart: it may fail."""

    path: list[str]
    prefix: str
    argv: list[str]
    settings: Mapping[str, Any]
    file_settings: Mapping[str, Any]
    set_up: bytes | None
