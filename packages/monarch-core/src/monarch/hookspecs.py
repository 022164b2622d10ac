"""Every question that the core asks its plugins.

A plugin is a module. It states the interface it was written for, ``MONARCH_API = (1, 0)``, and
answers the questions it has an answer to with functions marked `hookimpl`. Hooks are asked at
set-up and hand over objects; the work happens in the interfaces of `monarch.abc`, by plain calls.

An implementation may take fewer arguments than the specification offers, so a new argument breaks
no plugin. `API_VERSION` follows from that: a new hook or argument is a new minor version, anything
removed or renamed is a new major one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from monarch.abc import Launcher, Transport

__all__ = [
    "API_VERSION",
    "PluginInfo",
    "hookimpl",
    "hookspec",
    "monarch_make_launcher",
    "monarch_make_transport",
    "monarch_plugin_info",
]

API_VERSION = (1, 0)

hookspec = pluggy.HookspecMarker("monarch")
hookimpl = pluggy.HookimplMarker("monarch")


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """Who a plugin is.

    `offers` lists what it brings as ``kind:name``, for example ``"transport:ipc"`` or
    ``"launcher:local"``. People and error messages read it; nothing is chosen by it.
    """

    distribution: str
    version: str
    offers: tuple[str, ...] = ()


@hookspec
def monarch_plugin_info() -> PluginInfo:
    """Say who you are and what you offer.

    Asked whenever somebody wants a list of what is installed, or looks for what is not.
    """


@hookspec(firstresult=True)
def monarch_make_transport(scheme: str) -> Transport | None:
    """Return the transport for addresses of ``scheme``, or None to let another plugin answer.

    Asked in each process, once for each scheme that it listens on or connects to.
    """


@hookspec(firstresult=True)
def monarch_make_launcher(scheme: str) -> Launcher | None:
    """Return the launcher that starts what ``scheme`` names, or None to let another plugin answer.

    Asked on the client, before anything is started.
    """
