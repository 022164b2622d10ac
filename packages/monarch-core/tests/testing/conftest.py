"""Runs files of test classes in a session of their own, and says what came of each test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).parent

Outcomes = dict[str, dict[str, str]]
"""By class and test: passed, skipped, failure or error."""


@pytest.fixture(scope="module")
def outcomes_of(tmp_path_factory) -> Callable[..., Outcomes]:
    """Run the test classes of a file of this folder, with modules of it installed as plugins."""

    def run(file: str, *plugins: str) -> Outcomes:
        folder = tmp_path_factory.mktemp("session")
        for module in plugins:
            metadata = folder / f"{module}-1.0.dist-info"
            metadata.mkdir()
            (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
            (metadata / "entry_points.txt").write_text(f"[monarch.plugins]\n{module} = {module}\n")
        path = [str(folder), str(HERE), *filter(None, sys.path)]
        (folder / "pytest.ini").write_text("[pytest]\n")  # that of the repository is not for it
        options = [
            "-q",
            f"--rootdir={folder}",
            "--noconftest",
            "-p",
            "no:cacheprovider",
            "--junitxml=report.xml",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-c", "pytest.ini", *options, str(HERE / file)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        report = folder / "report.xml"
        assert report.exists(), done.stdout + done.stderr
        outcomes: Outcomes = defaultdict(lambda: defaultdict(str))
        for case in ElementTree.parse(report).iter("testcase"):  # one more where the teardown failed too
            came = [result.tag for result in case if result.tag in ("failure", "error", "skipped")]
            test = outcomes[case.get("classname", "").rpartition(".")[2]]
            test[case.get("name", "")] = test[case.get("name", "")] or (came[0] if came else "passed")
        return outcomes

    return run
