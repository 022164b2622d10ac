"""What the rules look at."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the repository."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repository_files(root) -> list[Path]:
    """Every file that is, or is about to be, committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=True).stdout
    return [path for name in names.split("\0") if name and (path := root / name).is_file()]


@pytest.fixture(scope="session")
def source_modules(root) -> list[Path]:
    """Every module under `src` that a person wrote."""
    return [path for path in root.glob("packages/*/src/**/*.py") if "_pb2" not in path.name]
