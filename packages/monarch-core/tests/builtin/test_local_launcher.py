"""The `local` launcher, which every program uses for the processes of its own host."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from pathlib import Path

import pytest

from monarch import config
from monarch.abc import Exit, LaunchSpec
from monarch.errors import SpawnError
from monarch.plugins import launcher_for

SH = "/bin/sh"


@pytest.fixture
def start():
    """Start a process with a launcher; it is killed after the test."""
    launcher, started = launcher_for("local"), []

    def _start(*argv, **options):
        options.setdefault("env", dict(os.environ))
        started.append(launcher.start(LaunchSpec(argv=argv, **options)))
        return started[-1]

    yield _start
    for process in started:
        process.kill()
        ended(process)


@pytest.fixture
def printed(start, tmp_path):
    """Run a command of the shell that writes to the file `$OUT`, and return what it wrote."""

    def _printed(command, **options):
        out = tmp_path / "out"
        options["env"] = {**options.get("env", os.environ), "OUT": str(out)}
        assert ended(start(SH, "-c", command, **options)).exit_code == 0
        return out.read_text().strip()

    return _printed


def ended(process):
    if (known := process.exit()) is None:
        assert select.select([process], [], [], 10)[0], "it runs on"
        known = process.exit()
    return known


def test_a_process_that_runs_has_not_exited(start):
    process = start("sleep", "600", executable="/bin/sleep")
    assert process.exit() is None
    assert select.select([process], [], [], 0) == ([], [], [])


@pytest.mark.parametrize("code", [0, 1, 255])
def test_the_exit_code_is_told_any_number_of_times(start, code):
    process = start(SH, "-c", f"exit {code}")
    assert [ended(process), process.exit()] == [Exit(process.pid, exit_code=code)] * 2


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM], ids=lambda number: number.name
)
def test_the_signal_is_told(start, number):
    process = start("/bin/sleep", "600")
    os.kill(process.pid, number)
    assert ended(process) == Exit(process.pid, signal=number)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (Exit(1, exit_code=3), "exited with code 3"),
        (Exit(1, exit_code=0), "exited with code 0"),
        (Exit(1, signal=9), "was killed by signal 9"),
        (Exit(1), "is gone"),
    ],
)
def test_an_end_reads_as_part_of_a_sentence(end, text):
    assert str(end) == text


def test_terminate_asks_and_kill_forces(start):
    deaf = start(
        sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    )
    deaf.kill()
    assert ended(deaf).signal == signal.SIGKILL
    polite = start("/bin/sleep", "600")
    polite.terminate()
    assert ended(polite).signal == signal.SIGTERM


def test_ending_what_has_ended_is_no_error(start):
    process = start("/bin/true")
    ended(process)
    process.terminate()
    process.kill()
    assert process.exit().exit_code == 0


def test_kill_takes_along_what_the_process_started(start, tmp_path, until):
    pid_file = tmp_path / "pid"
    process = start(
        SH, "-c", f"/bin/sleep 600 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait"
    )
    until(pid_file.exists)
    child = os.pidfd_open(int(pid_file.read_text()))
    process.kill()
    assert select.select([child], [], [], 2)[0]
    os.close(child)


def test_a_process_has_a_session_of_its_own(start):
    process = start("/bin/sleep", "600")
    assert os.getsid(process.pid) == process.pid != os.getsid(0)


def test_exactly_the_given_environment_is_there(printed):
    assert printed("echo $COLOUR-$HOME > $OUT", env={"COLOUR": "green"}) == "green-"


def test_the_program_may_go_by_another_name(printed, start, tmp_path):
    out = tmp_path / "name"
    ended(start("my-name", "-c", f"tr '\\0' '|' < /proc/$$/cmdline > {out}", executable=SH))
    assert out.read_text().startswith("my-name|")


def test_standard_input_is_empty(printed):
    assert printed("wc -c > $OUT") == "0"


def test_given_descriptors_stay_open_and_others_do_not(printed):
    kept, closed = os.pipe()
    os.set_inheritable(closed, True)
    look = (
        f"(test -e /proc/$$/fd/{kept} && echo kept; test -e /proc/$$/fd/{closed} && echo open; true) > $OUT"
    )
    assert printed(look, descriptors=(kept,)) == "kept"
    os.close(kept)
    os.close(closed)


def test_processors_are_those_given(start):
    cpu = max(os.sched_getaffinity(0))
    process = start("/bin/sleep", "600", cpus=frozenset({cpu}))
    assert os.sched_getaffinity(process.pid) == {cpu}


def test_the_calling_thread_keeps_its_processors(start):
    before = os.sched_getaffinity(0)
    start("/bin/true", cpus=frozenset({max(before)}))
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(
    ("argv", "options", "words"),
    [
        pytest.param(("/no/such/program",), {}, "/no/such/program.*No such file", id="missing"),
        pytest.param(
            ("name",), {"executable": "/no/such/program"}, "/no/such/program", id="missing-executable"
        ),
        pytest.param(("/",), {}, "'/'.*Permission denied", id="a-folder"),
        pytest.param(("/bin/true", "nul\0"), {}, "/bin/true.*null", id="nul-in-argument"),
        pytest.param(("/bin/true",), {"cpus": frozenset({1023})}, "1023", id="no-such-processor"),
    ],
)
def test_what_cannot_be_started_is_a_spawn_error_that_names_it(start, argv, options, words):
    with pytest.raises(SpawnError, match=words):
        start(*argv, **options)


def test_a_failed_start_leaves_the_calling_thread_as_it_was(start):
    before = os.sched_getaffinity(0)
    with pytest.raises(SpawnError):
        start("/no/such/program", cpus=frozenset({max(before)}))
    assert os.sched_getaffinity(0) == before


def test_processes_may_be_started_on_many_threads(start):
    ends = []
    threads = [threading.Thread(target=lambda: ends.append(ended(start("/bin/true")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [end.exit_code for end in ends] == [0] * 8


def parent_of(process):
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def stopped_keeper(start):
    """The keeper of this process, which does nothing until the end of the test."""
    keeper = parent_of(start("/bin/sleep", "600"))
    os.kill(keeper, signal.SIGSTOP)
    yield keeper
    os.kill(keeper, signal.SIGCONT)


def test_closing_gives_up_what_is_being_started(stopped_keeper, until):
    launcher, raised = launcher_for("local"), []

    def start():
        with pytest.raises(SpawnError, match="/bin/sleep.*launcher was closed") as caught:
            launcher.start(LaunchSpec(argv=["/bin/sleep", "601"], env={}))
        raised.append(caught)

    thread = threading.Thread(target=start)
    thread.start()
    until(lambda: launcher._waiting)
    launcher.close()
    thread.join(5)
    assert raised


def test_a_start_that_takes_too_long_is_an_error(stopped_keeper):
    with config.configured(proc_start_timeout=0.05), pytest.raises(SpawnError, match="did not start it"):
        launcher_for("local").start(LaunchSpec(argv=["/bin/sleep", "601"], env={}))


def test_what_was_given_up_does_not_run_on(start, stopped_keeper, until):
    with config.configured(proc_start_timeout=0.05), pytest.raises(SpawnError):
        launcher_for("local").start(LaunchSpec(argv=["/bin/sleep", "602"], env={}))
    os.kill(stopped_keeper, signal.SIGCONT)
    start("/bin/true")  # the keeper has done what it was asked before
    until(lambda: b"/bin/sleep\x00602\x00" not in command_lines())


def command_lines():
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


def test_a_process_whose_keeper_was_killed_is_gone(start):
    process = start("/bin/sleep", "600")
    os.kill(parent_of(process), signal.SIGKILL)
    assert ended(process) == Exit(process.pid)


def test_after_a_keeper_was_killed_there_is_another(start):
    first = start("/bin/sleep", "600")
    os.kill(parent_of(first), signal.SIGKILL)
    ended(first)
    assert ended(start(SH, "-c", "exit 3")).exit_code == 3


@pytest.mark.parametrize(
    ("entry", "code"), [("os:getpid", 0), ("sys:exit", 0), ("os:abort", -6), ("no.such:function", 1)]
)
def test_an_entry_is_called_instead_of_the_program(start, entry, code):
    with open(os.devnull, "wb") as null:
        end = ended(start(SH, "-c", "exit 9", entry=entry, stderr=null.fileno()))
    assert (end.exit_code, end.signal) == ((code, None) if code >= 0 else (None, -code))
