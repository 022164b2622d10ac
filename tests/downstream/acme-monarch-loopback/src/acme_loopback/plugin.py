"""What monarch-core learns of this distribution."""

from __future__ import annotations

from monarch.hookspecs import PluginInfo, hookimpl

MONARCH_API = (1, 0)


@hookimpl
def monarch_plugin_info():
    """Say who we are."""
    return PluginInfo("acme-monarch-loopback", "0.1.0", ("transport:loopback",))


@hookimpl
def monarch_make_transport(scheme):
    """Offer the scheme `loopback`."""
    if scheme != "loopback":
        return None
    from acme_loopback.transport import LoopbackTransport

    return LoopbackTransport()
