"""What two processes tell each other before anything else, and when they part."""

from __future__ import annotations

import os
import sys

from monarch.__about__ import __version__
from monarch.wire.codec import Hello

WIRE = 1
"""Minor version of the wire format; fields are only ever added within `wire.v1`."""

_python = f"{sys.version_info.major}.{sys.version_info.minor}"


def greeting(address: str, incarnation: int = 0, reason: str = "") -> Hello:
    """Return who this process is, and why the peer is refused, if it is."""
    return Hello(
        address=address,
        version=__version__,
        python=_python,
        wire=WIRE,
        pid=os.getpid(),
        refusal=reason,
        incarnation=incarnation,
    )


def refusal(theirs: Hello) -> str:
    """Return why two processes cannot work together, or "" if they can.

    Functions travel as byte code, which differs between minor versions of Python.
    """
    both = (
        f"this process has monarch-core {__version__} on Python {_python}, "
        f"its peer (pid {theirs.pid}) has monarch-core {theirs.version} on Python {theirs.python}"
    )
    if theirs.python != _python:
        return f"{both}; use the same minor version of Python on both sides"
    if _release(theirs.version) != _release(__version__):
        return f"{both}; install the same version of monarch-core on both sides"
    return ""


def _release(version: str) -> list[str]:
    """Return what has to be equal: before 1.0 the minor version too."""
    major, minor = version.split(".")[:2]
    return [major, minor] if major == "0" else [major]
