"""Rules about files: what is there, how large, and what text may say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
LONGEST_MODULE = 800

# A path that exists on one machine only, or the host of a registry: a mirror is the user's choice.
LEAKS = re.compile(
    r"(?<![\w.<>$}/-])/(root|work|home/\w+|Users/\w+)/\w"
    r"|(pypi|pythonhosted|deb\.debian|npmjs)\.(org|com)\b|download\.pytorch\."
)


def test_there_are_six_packages():
    assert [path.name for path in PACKAGES] == [
        f"monarch-{name}" for name in ("core", "fs", "k8s", "rdma", "slurm", "telemetry")
    ]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_has_all_its_files(package):
    import_name = "monarch" if package.name == "monarch-core" else package.name.replace("-", "_")
    source = package / "src" / import_name
    wanted = [package / name for name in ("README.md", "CHANGELOG.md", "LICENSE")]
    wanted += [source / name for name in ("__about__.py", "__init__.py", "py.typed")]
    assert [str(path) for path in wanted if not path.is_file()] == []
    assert list(package.glob("tests/test_*.py"))
    assert all(
        re.fullmatch(r"\+?\w+\.(added|changed|fixed|removed)\.md", path.name)
        for path in package.glob("changes/*")
    )


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_package_carries_the_licence_of_the_repository(package):
    # A copy, since an archive of sources would keep a link and not what it points to.
    assert (package / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_no_module_is_longer_than_a_person_can_hold(source_modules):
    lengths = {str(path): len(path.read_text().splitlines()) for path in source_modules}
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_MODULE} == {}


def test_no_text_speaks_of_one_machine(repository_files):
    found = []
    for path in repository_files:
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if LEAKS.search(line)
        ]
    assert found == []


@pytest.mark.parametrize("script", [".ci/run", "scripts/demo", "scripts/test"])
def test_a_command_of_the_readme_is_executable(script):
    assert (ROOT / script).stat().st_mode & 0o111
