"""The kit as an author meets it: what he is told when something is missing or wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

from monarch.errors import WrongArgument
from monarch.testing import LauncherSuite, TransportSuite


def test_without_pytest_the_import_says_what_to_install():
    program = "import sys; sys.modules['pytest'] = None; import monarch.testing"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: monarch.testing needs pytest, which is not installed; "
        "pip install 'monarch-core[testing]'"
    )


@pytest.mark.parametrize("suite", [LauncherSuite, TransportSuite])
def test_an_ability_that_does_not_exist_is_refused_with_those_there_are(suite):
    with pytest.raises(WrongArgument, match=f"flies; there are: .*{min(suite.known_abilities)}"):
        type("TestIt", (suite,), {"abilities": frozenset({"flies"})})


@pytest.mark.parametrize(
    ("suite", "fixtures"),
    [(LauncherSuite, ["launcher"]), (TransportSuite, ["transport", "address"])],
    ids=["launcher", "transport"],
)
def test_a_fixture_that_was_not_written_is_named(suite, fixtures, pytester):
    pytester.makepyfile(f"from monarch.testing import {suite.__name__}\nclass TestIt({suite.__name__}): ...")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-x")
    result.stdout.re_match_lines([f".*NotImplementedError: TestIt has to define the fixture '{fixtures[0]}'"])


LOSES_THE_CODE = """
import pytest
from monarch.abc import Exit
from monarch.plugins import launcher_for
from monarch.testing import LauncherSuite

class Process:
    def __init__(self, inner):
        self.pid, self.fileno, self.kill = inner.pid, inner.fileno, inner.kill
        self.inner = inner

    def exit(self):
        return self.inner.exit() and Exit(self.pid, exit_code=0)

class Launcher:
    def __init__(self):
        self.inner = launcher_for("local")
        self.close = self.inner.close

    def start(self, spec):
        return Process(self.inner.start(spec))

class TestIt(LauncherSuite):
    @pytest.fixture
    def launcher(self):
        return Launcher()
"""


def test_a_broken_promise_is_shown_with_what_was_seen(pytester):
    pytester.makepyfile(LOSES_THE_CODE)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", "exit_code_is_told and 255")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.re_match_lines(r"E +At index 0 diff: Exit\(.*exit_code=0,.* != Exit\(.*exit_code=255,.*")
