"""The folder that holds the sockets of a client."""

from __future__ import annotations

import os
import signal
import stat

import pytest

RUNNING = """
actors = workers(2)
actors.echo.call(1).get()
say("running")
"""
WAIT = RUNNING + "wait_for_ever()"


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_only_its_user_can_enter_the_folder(program, runtime_base):
    program(WAIT).says("running")
    [folder] = runtime_base.iterdir()
    assert mode(folder) == 0o700
    assert folder.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_sockets_are_for_their_user_whatever_the_umask(program, runtime_base, mask):
    client = program(f"os.umask({mask})\n" + WAIT)
    client.says("running")
    [folder] = runtime_base.iterdir()
    sockets = [path for path in folder.iterdir() if path.is_socket()]
    assert len(sockets) == 3
    assert {mode(path) for path in sockets} == {0o600}
    assert mode(folder) == 0o700


def test_no_other_address_is_listened_on(program):
    client = program(WAIT)
    client.says("running")
    for pid in client.processes():
        inodes = {os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
        for table in ("tcp", "tcp6", "udp", "udp6"):
            with open(f"/proc/{pid}/net/{table}") as lines:
                assert not [line for line in lines if f"socket:[{line.split()[9]}]" in inodes]


def test_the_folder_is_gone_when_the_program_has_ended(program, runtime_base):
    assert program(RUNNING).finish() == 0
    assert list(runtime_base.iterdir()) == []


def test_the_folder_is_gone_after_ctrl_c(program, runtime_base):
    client = program(WAIT)
    client.says("running")
    client.send(signal.SIGINT)
    client.finish()
    assert list(runtime_base.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_the_next_client_removes_the_folder_of_one_that_was_killed(program, runtime_base, until, number):
    client = program(WAIT)
    client.says("running")
    client.send(number)
    client.finish()
    until(lambda: not client.processes())
    assert program(RUNNING).finish() == 0
    assert list(runtime_base.iterdir()) == []


def test_a_living_client_keeps_its_folder(program, tmp_path):
    gate = tmp_path / "gate"
    first = program(f"""{RUNNING}
while not os.path.exists({str(gate)!r}):
    time.sleep(0.01)
say("alive", *actors.echo.call(2).get().values())
""")
    first.says("running")
    assert program(RUNNING).finish() == 0
    gate.touch()
    assert first.says("alive") == "2 2"


def test_a_folder_that_is_being_made_is_not_removed_by_another_client(program, runtime_base, tmp_path):
    """Between making a folder and locking it, another client may look for folders to remove."""
    other = tmp_path / "other.py"
    other.write_text("from monarch.actor import this_host\nthis_host().initialized.get(20)\n")
    client = program(
        f"""
import fcntl
lock = fcntl.flock
def flock(descriptor, operation):
    fcntl.flock = lock
    subprocess.run([sys.executable, {str(other)!r}], check=True)
    lock(descriptor, operation)
fcntl.flock = flock
"""
        + RUNNING
    )
    assert client.finish() == 0, client.errors


def test_sockets_of_processes_that_ended_are_removed(program, runtime_base):
    client = program(
        "mesh = crew(2)\nmesh.initialized.get()\nmesh.stop().get()\nsay('stopped')\nwait_for_ever()"
    )
    client.says("stopped")
    [folder] = runtime_base.iterdir()
    assert len([path for path in folder.iterdir() if path.is_socket()]) == 1


def test_files_of_others_with_such_a_name_are_left_alone(program, runtime_base, tmp_path):
    """A link that looks like a folder of ours must not lead the sweep out of the base."""
    target = tmp_path / "target"
    target.mkdir()
    for name in ("lock", "precious"):
        (target / name).touch()
    (runtime_base / f"monarch-{os.geteuid()}-link").symlink_to(target)
    assert program(RUNNING).finish() == 0
    assert (target / "precious").exists()


def test_a_base_that_does_not_exist_is_replaced_by_the_temporary_folder(program, runtime_base):
    client = program(RUNNING, XDG_RUNTIME_DIR=str(runtime_base / "missing"), TMPDIR=str(runtime_base))
    assert client.finish() == 0
    assert not (runtime_base / "missing").exists()


def test_a_base_with_too_long_a_path_is_named_with_the_remedy(program, runtime_base):
    base = runtime_base / ("x" * 100)
    base.mkdir()
    client = program(RUNNING, XDG_RUNTIME_DIR=str(base))
    assert client.finish() == 1
    assert "set XDG_RUNTIME_DIR or TMPDIR to a shorter folder" in client.errors
    assert list(base.iterdir()) == []
