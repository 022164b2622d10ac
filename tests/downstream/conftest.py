"""Environments as a user has them: the wheels of the core and of plugins, and nothing of the source tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest

collect_ignore = ["acme-monarch-loopback"]  # its tests run where it is installed

CORE = Path(__file__).resolve().parents[2] / "packages" / "monarch-core"
# What the core needs, and what its extra `testing` asks for: copied, since tests use no network.
PRESENT = ("click", "pluggy", "cloudpickle", "protobuf", "pytest", "iniconfig", "packaging", "pygments")


def build(project: Path, folder: Path) -> Path:
    """Build the wheel of a project, and return its path."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=project)
    return max(folder.glob("*.whl"), key=lambda path: path.stat().st_mtime_ns)


class Environment:
    """A virtual environment with these wheels in it."""

    def __init__(self, folder: Path, *wheels: Path) -> None:
        venv.create(folder, symlinks=True, with_pip=False)
        self.python = folder / "bin" / "python"
        self.packages = next((folder / "lib").glob("python*")) / "site-packages"
        for name in PRESENT:
            self._copy(name)
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "--disable-pip-version-check"]
        # With the index out of reach, what a wheel requires has to be there: pip checks that.
        _run(*pip, "install", "--quiet", "--no-index", "--no-compile", *map(str, wheels), cwd=folder)

    def _copy(self, name: str) -> None:
        found = distribution(name)
        for file in found.files or ():
            source = Path(str(found.locate_file(file)))
            if ".." not in file.parts and "__pycache__" not in file.parts and source.is_file():
                place = self.packages / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, place)

    def run(self, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run Python there, with none of our settings."""
        return _run(str(self.python), *map(str, arguments), cwd=folder)


def _run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(
        command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="session")
def core_wheel(tmp_path_factory):
    """The wheel of monarch-core."""
    return build(CORE, tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="session")
def make_environment(core_wheel, tmp_path_factory):
    """Make an environment with the core and the wheels of these projects."""

    def make(*projects: Path) -> Environment:
        wheels = [build(project, tmp_path_factory.mktemp("wheel")) for project in projects]
        return Environment(tmp_path_factory.mktemp("environment"), core_wheel, *wheels)

    return make
