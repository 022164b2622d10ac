"""The launcher suite on a launcher that is right, and the test for each fault on one that has it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from monarch.abc import Exit
from monarch.errors import SpawnError
from monarch.testing import LauncherSuite


class Process:
    """A child process, right in everything that the suite without abilities asks."""

    def __init__(self, child):
        self.child, self.pid = child, child.pid
        self.pidfd = os.pidfd_open(child.pid)
        self.end = None

    def fileno(self):
        return self.pidfd

    def exit(self):
        if self.end is None and (code := self.child.poll()) is not None:
            os.close(self.pidfd)
            self.end = self.ended(code)
        return self.end

    def ended(self, code):
        return Exit(self.pid, signal=-code) if code < 0 else Exit(self.pid, exit_code=code)

    def terminate(self):
        self.send(signal.SIGTERM)

    def kill(self):
        self.send(signal.SIGKILL)

    def send(self, number):
        if self.end is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


class Launcher:
    """Starts them, one after the other."""

    process = Process

    def __init__(self):
        self.lock = threading.Lock()

    def start(self, spec):
        with self.lock, self.bound(spec.cpus):
            try:
                return self.process(self.popen(spec))
            except (OSError, ValueError) as error:
                raise self.error(spec, error) from error

    def error(self, spec, error):
        return SpawnError(f"{spec.executable or spec.argv[0]}: {error}")

    @contextlib.contextmanager
    def bound(self, cpus):
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, cpus or before)
        except OSError as error:
            raise SpawnError(f"no processors {cpus}") from error
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def popen(self, spec):
        return subprocess.Popen(spec.argv, **self.options(spec))

    def options(self, spec):
        return {
            "executable": spec.executable,
            "env": spec.env,
            "stdin": subprocess.DEVNULL,
            "stdout": spec.stdout,
            "stderr": spec.stderr,
            "pass_fds": spec.descriptors,
            "start_new_session": True,
        }

    def close(self):
        pass


# ---- faults of processes


class AlwaysEnded(Process):
    """Its descriptor is readable from the start."""

    caught_by = "a_process_that_runs_has_not_exited"

    def __init__(self, child):
        super().__init__(child)
        os.close(self.pidfd)
        self.pidfd = os.eventfd(1)


class NeverReadable(Process):
    caught_by = "exit_code_is_told"

    def __init__(self, child):
        super().__init__(child)
        os.close(self.pidfd)
        self.pidfd = os.eventfd(0)


class BlocksInExit(Process):
    caught_by = "a_process_that_runs_has_not_exited"

    def exit(self):
        select.select([self.pidfd], [], [], 1.5)
        return super().exit()


class LosesTheCode(Process):
    caught_by = "exit_code_is_told"

    def ended(self, code):
        return Exit(self.pid)


class ForgetsItsEnd(Process):
    caught_by = "exit_code_is_told"
    told = None

    def exit(self):
        if self.told is not None:
            return Exit(self.pid)
        self.told = super().exit()
        return self.told


class SignalsAsCodes(Process):
    """As a shell reports them."""

    caught_by = "the_signal_is_told"

    def ended(self, code):
        return Exit(self.pid, exit_code=128 - code if code < 0 else code)


class NotReaped(Process):
    caught_by = "is_reaped"

    def exit(self):
        if self.end is None:
            seen = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if seen is not None:
                self.end = Exit(self.pid, exit_code=seen.si_status)
        return self.end


class TerminatesByForce(Process):
    caught_by = "terminate_asks"

    def terminate(self):
        self.kill()


class KillsPolitely(Process):
    caught_by = "kill_forces"

    def kill(self):
        self.terminate()


class KillsOne(Process):
    caught_by = "kill_takes_along_what_the_process_started"

    def send(self, number):
        if self.end is None:
            os.kill(self.pid, number)


class FailsAfterTheEnd(Process):
    caught_by = "ending_what_has_ended"

    def send(self, number):
        os.killpg(self.pid, number)


class KilledWhenItHadEnded(Process):
    """Takes the last wish for what happened."""

    caught_by = "ending_what_has_ended"

    def kill(self):
        super().kill()
        self.end = self.end and Exit(self.pid, signal=signal.SIGKILL)


class KeepsItsDescriptor(Process):
    caught_by = "closing_leaves_nothing_open"

    def exit(self):
        if self.end is None and (code := self.child.poll()) is not None:
            self.end = self.ended(code)
        return self.end


# ---- faults of launchers


class Waits(Launcher):
    caught_by = "a_process_that_runs_has_not_exited"

    def start(self, spec):
        process = super().start(spec)
        select.select([process], [], [], 1.5)
        process.kill()  # nobody else knows of it by now
        return process


class Changes(Launcher):
    """Starts something else than it was asked for."""

    def change(self, spec):
        raise NotImplementedError

    def options(self, spec):
        return super().options(spec) | self.change(spec)


class OurSession(Changes):
    caught_by = "session_of_its_own"

    def change(self, spec):
        return {"start_new_session": False, "process_group": 0}


class OurEnvironmentToo(Changes):
    caught_by = "exactly_the_given_environment"

    def change(self, spec):
        return {"env": {**os.environ, **spec.env}}


class OurInput(Changes):
    caught_by = "standard_input_is_empty"

    def change(self, spec):
        return {"stdin": None}


class OurOutput(Changes):
    caught_by = "output_goes_to_the_descriptors"

    def change(self, spec):
        return {"stdout": None}


class OurErrors(Changes):
    caught_by = "one_descriptor"

    def change(self, spec):
        return {"stderr": None}


class NoOutput(Changes):
    caught_by = "output_is_that_of_this_process"

    def change(self, spec):
        return {"stderr": subprocess.DEVNULL if spec.stderr is None else spec.stderr}


class OutputTwice(Changes):
    """What became the standard output stays open under its own number."""

    caught_by = "output_goes_to_the_descriptors"

    def change(self, spec):
        return {"pass_fds": (*spec.descriptors, *filter(None, (spec.stdout, spec.stderr)))}


class DropsDescriptors(Changes):
    caught_by = "given_descriptors_stay_open"

    def change(self, spec):
        return {"pass_fds": ()}


class LeaksDescriptors(Changes):
    caught_by = "given_descriptors_stay_open"

    def popen(self, spec):
        for descriptor in spec.descriptors:
            os.set_inheritable(descriptor, True)
        return super().popen(spec)

    def change(self, spec):
        return {"pass_fds": (), "close_fds": False}


class IgnoresExecutable(Changes):
    caught_by = "another_name"

    def change(self, spec):
        return {"executable": None}


class ThroughAShell(Launcher):
    caught_by = "arguments_arrive_as_they_are"

    def popen(self, spec):
        return subprocess.Popen(["/bin/sh", "-c", "exec " + " ".join(spec.argv)], **self.options(spec))


class AnyProcessor(Launcher):
    caught_by = "processors_are_those_given"

    def bound(self, cpus):
        return contextlib.nullcontext()


class StaysBound(Launcher):
    caught_by = "failed_start_leaves_everything"

    @contextlib.contextmanager
    def bound(self, cpus):
        if cpus:
            os.sched_setaffinity(0, cpus)
        yield


class PassesErrorsOn(Launcher):
    caught_by = "what_cannot_be_started"

    def error(self, spec, error):
        return error


class NamesNothing(Launcher):
    caught_by = "what_cannot_be_started"

    def error(self, spec, error):
        return SpawnError("it cannot be started")


class LeaksWhenItFails(Launcher):
    caught_by = "failed_start_leaves_everything"

    def error(self, spec, error):
        os.open(os.devnull, os.O_RDONLY)
        return super().error(spec, error)


class KilledWhenForgotten:
    def __init__(self, process):
        self.process = process

    def __del__(self):
        self.process.kill()


class DiesWithTheThread(Launcher):
    caught_by = "outlives_the_thread"

    def __init__(self):
        super().__init__()
        self.thread = threading.local()

    def start(self, spec):
        process = super().start(spec)
        self.thread.last = KilledWhenForgotten(process)
        return process


class NotForThreads(Launcher):
    caught_by = "many_processes_start_at_once"

    def start(self, spec):
        self.spec = spec
        time.sleep(0.01)
        return super().start(self.spec)


class ClosesOnce(Launcher):
    caught_by = "closing_leaves_nothing_open"

    def __init__(self):
        super().__init__()
        self.helper = os.open(os.devnull, os.O_RDONLY)

    def close(self):
        os.close(self.helper)


class WrongEntry(Launcher):
    caught_by = "a_function_may_be_called"

    def popen(self, spec):
        if spec.entry is None:
            return super().popen(spec)
        module, _, _ = spec.entry.partition(":")
        return subprocess.Popen([sys.executable, "-c", f"import {module}"], **self.options(spec))


# ---- the suite on them


class TestRight(LauncherSuite):
    kind = Launcher
    process = Process

    @pytest.fixture
    def launcher(self):
        launcher = self.kind()
        launcher.process = self.process
        return launcher


def _faulty(fault):
    others = {
        name: None for name in dir(LauncherSuite) if name.startswith("test_") and fault.caught_by not in name
    }
    kind = "kind" if issubclass(fault, Launcher) else "process"
    return type(f"Test{fault.__name__}", (TestRight,), {kind: fault, "patience": 0.5, **others})


globals().update(
    {
        f"Test{fault.__name__}": _faulty(fault)
        for base in (Process, Launcher, Changes)
        for fault in base.__subclasses__()
        if fault is not Changes
    }
)
