"""One rule for every test of the repository: a skip says one of the reasons declared here.

A machine of a developer may lack what a test needs; CI has all of it. So a reason holds everywhere,
and with CI=true only if it is also in `ALSO_IN_CI`. Any other skip is a failure.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator

import pytest

# Before anything reads it: log files of tests are no state of whoever runs them.
os.environ["XDG_STATE_HOME"] = _state = tempfile.mkdtemp(prefix="monarch-tests-")

pytest_plugins = ["pytester"]

# The reason a test gives starts with one of these; details may follow.
REASONS = frozenset(
    {
        "needs root",
        "needs a second CPU",
        "needs a control group of its own",
        "needs an accelerator",
    }
)
ALSO_IN_CI = frozenset({"needs an accelerator"})


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    shutil.rmtree(_state, ignore_errors=True)


def _mend(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = text.removeprefix("Skipped: ")
    in_ci = os.environ.get("CI") == "true"
    if not reason.startswith(tuple(ALSO_IN_CI if in_ci else REASONS)):
        where = "in CI" if in_ci else "anywhere"
        report.outcome = "failed"
        report.longrepr = f"skipped for a reason that conftest.py does not allow {where}: {reason!r}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn an unexpected skip of a test into a failure."""
    report = yield
    _mend(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn an unexpected skip of a whole module into a failure."""
    report = yield
    _mend(report)
    return report
