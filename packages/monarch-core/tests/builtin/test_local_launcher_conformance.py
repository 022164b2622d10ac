"""The `local` launcher keeps every promise of a launcher."""

from __future__ import annotations

import pytest

from monarch.plugins import launcher_for
from monarch.testing import LauncherSuite


class TestLocalLauncher(LauncherSuite):
    abilities = frozenset({"binds_memory", "kills_sessions"})

    @pytest.fixture
    def launcher(self):
        return launcher_for("local")
