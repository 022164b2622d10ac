"""What every launcher has to do, as tests."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from monarch.abc import Exit, Launcher, LaunchSpec, Process
from monarch.errors import SpawnError
from monarch.testing._behind import descriptors, is_alive, promptly, settles, words_of
from monarch.testing.abilities import LAUNCHER, Suite, needs

__all__ = ["LauncherSuite"]

_SH = "/bin/sh"
_SLEEP = ("/bin/sleep", "600")
# A shell that says when it listens for signals.
_DEAF = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
_POLITE = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done"


class Start(Protocol):
    """Starts a process, which is killed after the test."""

    def __call__(self, *argv: str, **options: Any) -> Process:
        """Start it; `options` are the other fields of `LaunchSpec`."""


class LauncherSuite(Suite):
    """Every promise of `monarch.abc.Launcher` and its processes.

    A subclass gives one fixture, `launcher`. The suite closes the launcher after each test.

        class TestSlurm(LauncherSuite):
            @pytest.fixture
            def launcher(self, fake_slurm):
                return SlurmLauncher(fake_slurm)
    """

    known_abilities = LAUNCHER

    # ---- for the subclass

    @pytest.fixture
    def launcher(self) -> Launcher:
        """Return a new launcher. A subclass has to override this."""
        raise NotImplementedError(f"{type(self).__name__} has to define the fixture 'launcher'")

    # ---- what the tests share

    @pytest.fixture
    def start(self, launcher: Launcher) -> Iterator[Start]:
        """A way to start a process."""
        started: list[Process] = []

        def start(*argv: str, **options: Any) -> Process:
            options.setdefault("env", dict(os.environ))
            process = launcher.start(LaunchSpec(argv=argv, **options))
            started.append(process)
            return process

        yield start
        try:
            for process in started:
                process.kill()
                self._ended(process)
            launcher.close()
        finally:
            for process in started:
                self._gone(process.pid, 0.0)

    def _ended(self, process: Process) -> Exit:
        """Return how a process ended, once its descriptor says that it has."""
        __tracebackhide__ = True
        if (known := process.exit()) is None:
            if not select.select([process], [], [], self.patience)[0]:
                pytest.fail(
                    f"the descriptor of process {process.pid} is not readable: not within {self.patience} s"
                )
            known = promptly(process.exit, self.patience, "exit")
        assert known is not None, "the descriptor is readable, and exit() is None"
        return known

    def _gone(self, pid: int, seconds: float) -> bool:
        """Whether a process ends within so many seconds; in any case it is gone afterwards."""
        gone = not settles(lambda: is_alive(pid), False, seconds)
        if not gone:
            os.kill(pid, signal.SIGKILL)
        return gone

    def _line(self, pipe: int) -> str:
        """Return the next line that a process writes."""
        __tracebackhide__ = True
        text = b""
        while not text.endswith(b"\n"):
            if not select.select([pipe], [], [], self.patience)[0]:
                pytest.fail(
                    f"the process writes a line to the descriptor it was given: not within {self.patience} s"
                )
            if not (more := os.read(pipe, 1)):
                pytest.fail("the process ended before it wrote a line to the descriptor it was given")
            text += more
        return text.decode().rstrip("\n")

    @pytest.fixture
    def pipe(self) -> Iterator[tuple[int, int]]:
        """A pipe: where to read, and where to write."""
        ends = os.pipe()
        yield ends
        for end in ends:
            os.close(end)

    # ---- exits

    def test_a_process_that_runs_has_not_exited(self, start: Start) -> None:
        """`start` does not wait, `exit` is None, and the descriptor is not readable."""
        process = promptly(lambda: start(*_SLEEP), self.patience, "start")
        assert promptly(process.exit, self.patience, "exit") is None
        assert select.select([process], [], [], 0) == ([], [], [])

    @pytest.mark.parametrize("code", [0, 1, 255])
    def test_the_exit_code_is_told_any_number_of_times(self, start: Start, code: int) -> None:
        """With the pid, and no signal, once the descriptor says that there is something to tell."""
        process = start(_SH, "-c", f"exit {code}")
        assert select.select([process], [], [], self.patience)[0], "its descriptor is not readable"
        assert [self._ended(process), process.exit()] == [Exit(process.pid, exit_code=code)] * 2

    @pytest.mark.parametrize(
        "number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM], ids=lambda each: each.name
    )
    def test_the_signal_is_told(self, start: Start, number: signal.Signals) -> None:
        """With the pid, and no exit code."""
        process = start(*_SLEEP)
        os.kill(process.pid, number)
        assert self._ended(process) == Exit(process.pid, signal=number)

    def test_a_process_that_has_ended_is_reaped(self, start: Start) -> None:
        """Nothing of it is left once its exit was told."""
        process = start(_SH, "-c", "exit 0")
        self._ended(process)
        there = Path(f"/proc/{process.pid}").exists
        assert settles(there, False, self.patience) is False

    def test_terminate_asks(self, start: Start, pipe: tuple[int, int]) -> None:
        """The process may clean up, and ends as it likes."""
        process = start(_SH, "-c", _POLITE, stdout=pipe[1])
        assert self._line(pipe[0]) == "ready"
        process.terminate()
        assert self._ended(process) == Exit(process.pid, exit_code=3)

    def test_kill_forces(self, start: Start, pipe: tuple[int, int]) -> None:
        """A process that does not listen to `terminate` ends by `kill`."""
        process = start(_SH, "-c", _DEAF, stdout=pipe[1])
        assert self._line(pipe[0]) == "ready"
        process.terminate()
        process.kill()
        assert self._ended(process) == Exit(process.pid, signal=signal.SIGKILL)

    def test_ending_what_has_ended_is_no_error(self, start: Start) -> None:
        """And changes nothing of how it ended, whether that was told before or not."""
        told, untold = start(_SH, "-c", "exit 0"), start(_SH, "-c", "exit 0")
        self._ended(told)
        assert select.select([untold], [], [], self.patience)[0]
        for process in (told, untold):
            process.terminate()
            process.kill()
            assert self._ended(process).exit_code == 0

    def test_kill_takes_along_what_the_process_started(self, start: Start, pipe: tuple[int, int]) -> None:
        """Its process group ends with it."""
        process = start(_SH, "-c", "sleep 600 & echo $!; wait", stdout=pipe[1])
        grandchild = int(self._line(pipe[0]))
        process.kill()
        assert self._gone(grandchild, self.patience)

    @needs("kills_sessions")
    def test_kill_takes_along_what_left_the_session(self, start: Start, pipe: tuple[int, int]) -> None:
        """A process that its child put into a session of its own ends too."""
        program = (
            "import subprocess, time; "
            "print(subprocess.Popen(['/bin/sleep', '600'], start_new_session=True).pid, flush=True); "
            "time.sleep(600)"
        )
        process = start(sys.executable, "-c", program, stdout=pipe[1])
        grandchild = int(self._line(pipe[0]))
        process.kill()
        assert self._gone(grandchild, self.patience)

    # ---- what a process is given

    def test_a_process_has_a_session_of_its_own(self, start: Start) -> None:
        """What the terminal does to ours does not reach it."""
        process = start(*_SLEEP)
        assert settles(lambda: os.getsid(process.pid), process.pid, self.patience) == process.pid

    def test_arguments_arrive_as_they_are(self, start: Start) -> None:
        """Empty ones, spaces, quotes and newlines too."""
        argv = [_SH, "-c", "sleep 600; :", "", "a b", "'\"$HOME\n", "é"]
        process = start(*argv)
        assert settles(lambda: words_of(process.pid, "cmdline"), argv, self.patience) == argv

    def test_the_program_may_go_by_another_name(self, start: Start) -> None:
        """`executable` is run, and `argv[0]` is what it is called."""
        argv = ["my-name", "600"]
        process = start(*argv, executable=_SLEEP[0])
        assert settles(lambda: words_of(process.pid, "cmdline"), argv, self.patience) == argv

    def test_exactly_the_given_environment_is_there(self, start: Start) -> None:
        """Nothing of this process's environment is added."""
        process = start(*_SLEEP, env={"COLOUR": "green", "EMPTY": ""})
        wanted = ["COLOUR=green", "EMPTY="]
        assert settles(lambda: sorted(words_of(process.pid, "environ")), wanted, self.patience) == wanted

    def test_given_descriptors_stay_open_and_others_do_not(self, start: Start, pipe: tuple[int, int]) -> None:
        """Under the same numbers; not even what this process would let be inherited comes along."""
        given, other = pipe
        os.set_inheritable(other, True)
        process = start(*_SLEEP, descriptors=(given,))
        wanted = {0, 1, 2, given}
        assert settles(lambda: descriptors(process.pid), wanted, self.patience) == wanted
        assert os.readlink(f"/proc/{process.pid}/fd/{given}") == os.readlink(f"/proc/self/fd/{given}")

    def test_standard_input_is_empty(self, start: Start, pipe: tuple[int, int]) -> None:
        """Whatever this process has there."""
        ours, kept = os.pipe(), os.dup(0)
        os.write(ours[1], b"not for you\n")
        os.dup2(ours[0], 0)
        try:
            process = start(_SH, "-c", "wc -c", stdout=pipe[1])
        finally:
            os.dup2(kept, 0)
            for descriptor in (kept, *ours):
                os.close(descriptor)
        assert self._line(pipe[0]).strip() == "0"
        assert self._ended(process).exit_code == 0

    def test_output_goes_to_the_descriptors_given(self, start: Start, tmp_path: Path) -> None:
        """Standard output to one and errors to another, which then have no second number there."""
        out, err = tmp_path / "out", tmp_path / "err"
        with out.open("w") as stdout, err.open("w") as stderr:
            given = {"stdout": stdout.fileno(), "stderr": stderr.fileno()}
            idle = start(*_SLEEP, **given)
            self._ended(start(_SH, "-c", "echo said; echo complained >&2", **given))
        assert (out.read_text(), err.read_text()) == ("said\n", "complained\n")
        assert settles(lambda: descriptors(idle.pid), {0, 1, 2}, self.patience) == {0, 1, 2}

    def test_output_and_errors_may_go_to_one_descriptor(self, start: Start, tmp_path: Path) -> None:
        """In the order of writing."""
        both = tmp_path / "both"
        with both.open("w") as file:
            number = file.fileno()
            self._ended(start(_SH, "-c", "echo 1; echo 2 >&2; echo 3", stdout=number, stderr=number))
        assert both.read_text() == "1\n2\n3\n"

    def test_output_is_that_of_this_process_otherwise(self, start: Start) -> None:
        """What nobody redirects goes where the launcher's process writes."""
        process = start(*_SLEEP)
        for number in (1, 2):
            ours = os.readlink(f"/proc/self/fd/{number}")
            theirs = f"/proc/{process.pid}/fd/{number}"
            assert settles(lambda theirs=theirs: os.readlink(theirs), ours, self.patience) == ours  # type: ignore[misc]

    def test_processors_are_those_given(self, start: Start) -> None:
        """The process may run on no other, and the thread that started it keeps its own."""
        before = os.sched_getaffinity(0)
        given = {max(before)}
        process = start(*_SLEEP, cpus=frozenset(given))
        assert settles(lambda: os.sched_getaffinity(process.pid), given, self.patience) == given
        assert os.sched_getaffinity(0) == before

    def test_processors_are_those_of_this_process_otherwise(self, start: Start) -> None:
        """A restriction is for one process, and not for the next."""
        ours = os.sched_getaffinity(0)
        start(*_SLEEP, cpus=frozenset({max(ours)}))
        process = start(*_SLEEP)
        assert settles(lambda: os.sched_getaffinity(process.pid), ours, self.patience) == ours

    @needs("binds_memory")
    def test_memory_comes_from_the_nodes_given(self, start: Start) -> None:
        """The kernel says so of every mapping; the next process is free again."""

        def bound(pid: int) -> bool:
            policies = [line.split()[1] for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines()]
            return bool(policies) and {*policies} == {"bind:0"}

        first, second = start(*_SLEEP, memory_nodes=frozenset({0})), start(*_SLEEP)
        assert settles(lambda: bound(first.pid), True, self.patience)
        assert not bound(second.pid)

    @pytest.mark.parametrize(
        ("entry", "end"),
        [("os:abort", {"signal": signal.SIGABRT}), ("os:getpid", {"exit_code": 0})],
        ids=["killed", "returned"],
    )
    def test_a_function_may_be_called_instead_of_a_program(
        self, start: Start, entry: str, end: dict[str, int]
    ) -> None:
        """`entry` says what `argv` does, and there is no telling which of them was used."""
        module, _, function = entry.partition(":")
        program = f"import {module}; {module}.{function}()"
        process = start(sys.executable, "-c", program, entry=entry)
        assert self._ended(process) == Exit(process.pid, **end)

    # ---- what cannot be started

    @pytest.mark.parametrize(
        ("argv", "options", "named"),
        [
            pytest.param(("/no/such/program",), {}, "/no/such/program", id="missing"),
            pytest.param(
                ("x",), {"executable": "/no/such/program"}, "/no/such/program", id="missing-executable"
            ),
            pytest.param(("/",), {}, "/", id="a-folder"),
            pytest.param(("/bin/true", "nul\0"), {}, "/bin/true", id="nul-in-argument"),
            pytest.param(("/bin/true",), {"cpus": frozenset({1023})}, "1023", id="no-such-processor"),
        ],
    )
    def test_what_cannot_be_started_is_a_spawn_error_that_names_it(
        self, start: Start, argv: tuple[str, ...], options: dict[str, Any], named: str
    ) -> None:
        """Whatever the reason is."""
        with pytest.raises(SpawnError) as refusal:
            start(*argv, **options)
        assert named in str(refusal.value)

    def test_a_failed_start_leaves_everything_as_it_was(self, start: Start) -> None:
        """The calling thread keeps its processors, no descriptor is left, and the next start succeeds."""
        self._ended(start(_SH, "-c", "exit 0"))
        processors, before = os.sched_getaffinity(0), descriptors()
        for _ in range(5):
            with pytest.raises(SpawnError):
                start("/no/such/program", cpus=frozenset({max(processors)}))
        assert os.sched_getaffinity(0) == processors
        assert settles(lambda: descriptors() - before, set[int](), self.patience / 4) == set()
        assert self._ended(start(_SH, "-c", "exit 0")).exit_code == 0

    # ---- from anywhere, any number

    def test_a_process_outlives_the_thread_that_started_it(self, start: Start, pipe: tuple[int, int]) -> None:
        """It goes on when that thread is gone, and ends as it likes."""
        started: list[Process] = []
        program = "echo ready; read line </dev/fd/$0; exit 4"
        ours, theirs = os.pipe()

        def run() -> None:
            started.append(start(_SH, "-c", program, str(ours), stdout=pipe[1], descriptors=(ours,)))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert self._line(pipe[0]) == "ready"
        assert started[0].exit() is None
        os.write(theirs, b"go on\n")
        assert self._ended(started[0]).exit_code == 4
        os.close(ours)
        os.close(theirs)

    def test_many_processes_start_at_once_from_many_threads(self, start: Start) -> None:
        """Each has its own pid and its own end."""
        ends: dict[int, Exit] = {}

        def run(code: int) -> None:
            ends[code] = self._ended(start(_SH, "-c", f"exit {code}"))

        threads = [threading.Thread(target=run, args=(code,)) for code in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {code: end.exit_code for code, end in ends.items()} == {code: code for code in range(16)}
        assert len({end.pid for end in ends.values()}) == 16

    def test_closing_leaves_nothing_open_and_does_no_harm_again(
        self, launcher: Launcher, start: Start
    ) -> None:
        """Not a descriptor is left of the launcher and its processes."""
        before = descriptors()
        killed = start(*_SLEEP)
        killed.kill()
        for process in (killed, start(_SH, "-c", "exit 0")):
            self._ended(process)
        launcher.close()
        launcher.close()
        assert settles(lambda: descriptors() - before, set[int](), self.patience / 4) == set()
