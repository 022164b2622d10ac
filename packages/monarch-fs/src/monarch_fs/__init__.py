"""A client folder on every host of a Monarch cluster, and every host's folder on the client.

This version registers with the core and offers nothing yet: the names below raise
`monarch.errors.PluginError`.
"""

from monarch.plugins import not_yet_offered
from monarch_fs.__about__ import __version__

__all__ = ["__version__"]

__getattr__ = not_yet_offered("monarch-fs", __version__, "remotemount", "gather_mount")
