"""What the core learns of monarch-rdma through the entry-point group `monarch.plugins`."""

from monarch.hookspecs import PluginInfo, hookimpl
from monarch_rdma.__about__ import __version__

MONARCH_API = (1, 0)


@hookimpl
def monarch_plugin_info() -> PluginInfo:
    """Name this distribution and its version; it offers nothing yet."""
    return PluginInfo(distribution="monarch-rdma", version=__version__, offers=())
