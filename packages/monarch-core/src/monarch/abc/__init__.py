"""What a plugin implements: one protocol for each kind of backend."""

from monarch.abc.launcher import Exit, Launcher, LaunchSpec, Process
from monarch.abc.transport import Connection, Listener, Transport

__all__ = ["Connection", "Exit", "LaunchSpec", "Launcher", "Listener", "Process", "Transport"]
