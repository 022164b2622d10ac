"""The conformance kit: the tests that a backend's author runs on his backend.

A suite is a class to subclass; the author writes its fixtures and declares the abilities that his
backend has beyond what every backend promises. It asks for pytest, the extra `testing` of monarch-core.
"""

try:
    import pytest
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "monarch.testing needs pytest, which is not installed; pip install 'monarch-core[testing]'",
        name=missing.name,
    ) from missing

# Before they are imported: without it a failing suite says AssertionError and no more.
for _name in ("_behind", "_exchange", "_transport_buffers", "_transport_messages", "launcher", "transport"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")

from monarch.testing.launcher import LauncherSuite  # noqa: E402
from monarch.testing.transport import TransportSuite  # noqa: E402

__all__ = ["LauncherSuite", "TransportSuite"]
