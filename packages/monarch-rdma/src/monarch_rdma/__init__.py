"""One-sided memory transfers between the processes of a Monarch cluster.

This version registers with the core and offers nothing yet: the names below raise
`monarch.errors.PluginError`.
"""

from monarch.plugins import not_yet_offered
from monarch_rdma.__about__ import __version__

__all__ = ["__version__"]

__getattr__ = not_yet_offered("monarch-rdma", __version__, "RDMABuffer", "RDMAAction")
