"""The examples run as their readers would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_digits_loses_a_trainer_halfway_shows_it_once_and_learns_all_the_same():
    done = subprocess.run(
        [sys.executable, EXAMPLES / "digits.py"],
        capture_output=True,
        text=True,
        timeout=110,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("mesh 'trainers' failed and is restarted: crashed_ranks=[1]") == 1
    assert "epoch  80" in done.stdout
