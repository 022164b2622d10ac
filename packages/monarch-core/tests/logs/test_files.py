"""The files of a run, and what may happen to them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile

import pytest

from monarch._logs.files import KEPT, LogFolder


@pytest.fixture
def folder(tmp_path):
    """Make the folder of a run, which is let go after the test."""
    made, notes = [], []

    def _folder(base=tmp_path):
        made.append(LogFolder(str(base), os.getpid(), notes.append))
        return made[-1]

    _folder.notes = notes
    yield _folder
    for each in made:
        if each._lock is not None:
            os.close(each._lock)


def write(run, name, data=b"text\n"):
    file = run.open(name)
    file.write(data)
    file.close()


def test_a_run_that_writes_nothing_leaves_nothing(folder, tmp_path):
    folder()
    assert list(tmp_path.iterdir()) == []


def test_files_are_for_their_owner_alone_and_stay_in_their_folder(folder):
    run = folder()
    write(run, "../my mesh-0.17.stdout.log")
    (name,) = os.listdir(run.path)
    assert name == ".._my_mesh-0.17.stdout.log"
    assert os.stat(run.path).st_mode & 0o777 == 0o700
    assert os.stat(f"{run.path}/{name}").st_mode & 0o777 == 0o600


def test_old_runs_are_removed_and_live_ones_are_not(folder, tmp_path, until):
    for number in range(KEPT + 5):
        (tmp_path / f"2020-01-01-0000{number:02}-1").mkdir()
    live = os.open(tmp_path / "2020-01-01-000000-1", os.O_RDONLY)
    fcntl.flock(live, fcntl.LOCK_EX)
    write(folder(), "a")
    until(lambda: len(os.listdir(tmp_path)) == KEPT + 1)
    os.close(live)
    left = sorted(os.listdir(tmp_path))
    assert left[0] == "2020-01-01-000000-1"
    assert left[1] == "2020-01-01-000006-1"


def test_what_is_no_run_is_never_removed(folder, tmp_path, until):
    others = ["0-mine", "2020-01-01", "Documents", "2020-01-01-000000-1.kept"]
    for name in others + [f"2020-01-01-0000{number:02}-1" for number in range(KEPT + 5)]:
        (tmp_path / name).mkdir()
    write(folder(), "a")
    until(lambda: len(os.listdir(tmp_path)) == KEPT + len(others))
    assert set(others) < set(os.listdir(tmp_path))


def test_without_a_folder_there_are_no_files_and_no_complaint(folder):
    assert folder("").open("a") is None
    assert folder.notes == []


def test_where_the_folder_cannot_be_made_the_temporary_one_is_used(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    run = folder(tmp_path / "file")
    write(run, "a")
    assert run.path.startswith(f"{tmp_path}/monarch-logs-{os.geteuid()}/")


def test_where_no_folder_can_be_made_that_is_said_once(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    run = folder(tmp_path / "file")
    assert run.open("a") is run.open("b") is None
    assert [note.partition(":")[0] for note in folder.notes] == ["output is not kept in files"]


def test_a_folder_that_was_removed_is_made_again(folder):
    run = folder()
    write(run, "a")
    shutil.rmtree(run.path)
    write(run, "b")
    assert os.listdir(run.path) == ["b"]


def test_a_full_disk_is_said_once_and_what_fits_later_is_written(folder, tmp_path):
    if os.geteuid():
        pytest.skip("needs root: to mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
    try:
        run = folder(disk)
        file = run.open("a")
        for _ in range(20):
            file.write(b"x" * 10_000)
        assert [note.partition(":")[0] for note in folder.notes] == ["output is missing from its log file"]
        os.truncate(f"{run.path}/a", 0)
        file.write(b"again")
        file.close()
        with open(f"{run.path}/a", "rb") as content:
            assert content.read().endswith(b"again")
        os.close(run._lock)
        run._lock = None
    finally:
        subprocess.run(["umount", disk], check=True)
