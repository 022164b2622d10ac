"""SQL over the events, logs, metrics and stacks of a running Monarch cluster.

This version registers with the core and offers nothing yet: the names below raise
`monarch.errors.PluginError`.
"""

from monarch.plugins import not_yet_offered
from monarch_telemetry.__about__ import __version__

__all__ = ["__version__"]

__getattr__ = not_yet_offered("monarch-telemetry", __version__, "TelemetryConfig", "QueryEngine")
