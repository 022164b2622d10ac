"""Programs on the documented public names print what they print with torchmonarch 0.7.0."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "parity").glob("[0-9]*.py"))


def test_there_are_programs():
    assert [path.stem[:2] for path in PROGRAMS] == ["01", "02", "03", "04", "05", "06", "07"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_what_it_always_printed(program):
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.stdout.splitlines() == program.with_suffix(".out").read_text().splitlines(), done.stderr
    assert done.returncode == 0
