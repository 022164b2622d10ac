"""The agent of a host: starts its processes, watches them, and says how they ended."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from monarch import config
from monarch._actor import Actor, Port, endpoint
from monarch._logs.output import Output, OutputOptions, Pipes
from monarch._mesh.boot import Boot
from monarch._mesh.command import ENTRY, BootstrapCommand, default_bootstrap_cmd, resolve_binding
from monarch._mesh.out_of_memory import KernelKills
from monarch._runtime import here
from monarch._runtime.client import folder_of, new_address
from monarch._runtime.process import Process as Runtime
from monarch._runtime.promise import Promise
from monarch._runtime.restart import Budget, Restart
from monarch._runtime.sending import ask_processes
from monarch._runtime.supervision import MeshFailure
from monarch._transport.reactor import Waiter
from monarch.abc import Exit, LaunchSpec, Listener, Process
from monarch.errors import MeshClosed, MonarchError, ProcessDied, SpawnError, SupervisionError, TransportError
from monarch.plugins import launcher_for, transport_for
from monarch.shape import Extent
from monarch.wire.codec import SHUTDOWN, STATUS, Envelope

_log = logging.getLogger(__name__)

_OWNER_GONE = "the process of its owner is gone"
_OUTPUT_SECONDS = 1.0  # without any progress, for what has been written to be shown


@dataclass(frozen=True)
class SpawnRequest:
    """Processes to start on one host: for each its rank in the mesh, its command and its binding."""

    mesh: bytes
    mesh_name: str
    extent: Extent
    ranks: Sequence[int]
    commands: Sequence[BootstrapCommand]
    bindings: Sequence[Mapping[str, str]]
    parcel: bytes
    owner_process: str
    owner: bytes
    owner_incarnation: int
    restart: Restart
    output: OutputOptions


@dataclass
class _Running:
    """A process of this host, from the binding of its socket to its end, over all restarts."""

    address: str
    listener: Listener
    request: SpawnRequest
    rank: int
    command: BootstrapCommand
    binding: Mapping[str, str]
    budget: Budget
    output: OutputOptions
    process: Process | None = None
    incarnation: int = 0
    stopping: str | None = None
    waiting: bool = False
    """It has ended and is to be started again."""
    overdue: str | None = None
    """How it failed to start, if it is killed for that."""
    recycling: bool = False
    """It ends since another process of its mesh failed, and comes back."""
    on_end: list[Callable[[], None]] = field(default_factory=list)


class HostAgent(Actor):
    """One for each host, in the client for the host of the client."""

    def __init__(self) -> None:
        self._runtime: Runtime = here.get()
        self._launcher = launcher_for("local")
        self._running: dict[str, _Running] = {}
        self._lock = threading.RLock()
        # Closes when this process ends, however it ends; every process of the host watches the other end.
        self._lifeline, held = os.pipe()
        self._runtime.private_descriptors += (self._lifeline, held)
        self._runtime.network.on_refused = self._kill_refused
        self._runtime.on_lost = self._end_orphans
        self._ending = False
        self._kernel_kills = KernelKills()
        self._output = Output(self._runtime.private_descriptors)

    @endpoint(explicit_response_port=True)
    def spawn(self, port: Port, request: SpawnRequest) -> None:
        """Answer with the addresses of the new processes, which take messages at once; then start them."""
        budget, started = Budget(request.restart), list[_Running]()
        try:
            for each in zip(request.ranks, request.commands, request.bindings):
                started.append(self._bind(request, *each, budget))
        except MonarchError as error:
            for running in started:
                running.listener.close()
                del self._running[running.address]
            port.exception(error)
            return
        port.send([running.address for running in started])
        if self._runtime.fates.is_over(request.owner_process, request.owner_incarnation):
            self._end(started, _OWNER_GONE)  # its end was dealt with before this was its own
        for running in started:
            self._launch(running)

    def _bind(
        self,
        request: SpawnRequest,
        rank: int,
        command: BootstrapCommand,
        binding: Mapping[str, str],
        budget: Budget,
    ) -> _Running:
        address = new_address(folder_of(self._runtime.address), "proc")
        running = _Running(address, _listen(address), request, rank, command, binding, budget, request.output)
        with self._lock:
            self._running[address] = running
        self._runtime.fates.introduce((address,), self._runtime.address)
        return running

    def _launch(self, running: _Running) -> None:
        descriptor = os.memfd_create("monarch-parcel", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, running.request.parcel)
            if self._ending or running.stopping is not None:
                raise SpawnError("it was stopped before it started")
            with self._output.pipes() as pipes:
                process = self._launcher.start(self._spec(running, descriptor, pipes))
                running.process = process
                self._output.attach(
                    running.address,
                    running.request.mesh_name,
                    running.rank,
                    process.pid,
                    pipes,
                    running.output,
                )
        except Exception as error:  # the agent lives on, whatever this process met with
            running.listener.close()
            self._ended(running, Exit(None), f"could not be started: {error}")
            return
        finally:
            os.close(descriptor)
        running.listener.release()
        self._watch(running, running.process)
        question = Envelope(kind=STATUS)
        first_word = ask_processes(self._runtime, (running.address,), question, len, observed=False)
        check = partial(self._check_started, running, running.process, first_word)
        start_check = self._runtime.later(config.get("proc_start_timeout"), check)
        first_word.add_callback(start_check.cancel)

    def _spec(self, running: _Running, parcel: int, pipes: Pipes) -> LaunchSpec:
        listener, command = running.listener.fileno(), running.command
        boot = Boot(
            running.address,
            self._runtime.root,
            self._runtime.address,
            listener,
            self._lifeline,
            parcel,
            pipes.inodes,
            running.incarnation,
        )
        bound = resolve_binding(running.binding)
        return LaunchSpec(
            argv=[command.arg0 or command.program, *command.args],
            executable=command.program,
            env=command.environment(os.environ) | boot.to_env(),
            descriptors=(listener, self._lifeline, parcel),
            cpus=bound.cpus,
            memory_nodes=bound.memory_nodes,
            stdout=pipes.write[0],
            stderr=pipes.write[1],
            entry=ENTRY if command == default_bootstrap_cmd() else None,
        )

    def _check_started(self, running: _Running, process: Process, first_word: Promise) -> None:
        if first_word.settled or running.process is not process:
            return
        running.overdue = (
            f"did not say a word in {config.get('proc_start_timeout')} s (proc_start_timeout); "
            "does its bootstrap command keep descriptors and environment?"
        )
        process.kill()

    def _kill_refused(self, address: str) -> None:
        if (running := self._running.get(address)) is not None:
            self._kill([running])

    # ---- ends

    def _watch(self, running: _Running, process: Process) -> None:
        self._runtime.reactor.watch(process.fileno(), lambda events: self._on_exit(running, process))

    def _on_exit(self, running: _Running, process: Process) -> None:
        # Not watched any more before its descriptor is closed, whose number another thread may get at once.
        self._runtime.reactor.forget(process.fileno())
        ended = process.exit()
        if ended is None:
            self._watch(running, process)
            return
        running.listener.close()
        how = running.overdue or str(ended)
        if ended.signal == signal.SIGKILL and self._kernel_kills.explain():
            how += " by the kernel, as memory ran out"
        self._ended(running, ended, how)

    def _ended(self, running: _Running, ended: Exit, how: str) -> None:
        what = f"process of mesh {running.request.mesh_name!r} rank {running.rank}"
        if ended.pid is not None:
            what += f" (pid {ended.pid})"
        facts: dict[str, Any] = {"mesh": running.request.mesh_name, "rank": running.rank}
        stderr = self._last_words(running)
        recycled, delay = running.recycling, self._delay(running)
        if delay is not None:
            try:
                running.listener = _listen(running.address)
            except TransportError as refused:
                delay, how = None, f"{how} and cannot be restarted: {refused}"
        error: SupervisionError
        if running.stopping is not None:
            error = MeshClosed(f"{what} is stopped: {running.stopping}", **facts)
        else:
            error = ProcessDied(
                f"{what} {how}" if delay is None else f"{what} {how} and is restarted",
                exit_code=ended.exit_code,
                signal=ended.signal,
                pid=ended.pid,
                stderr=stderr,
                restarting=delay is not None,
                incarnation=running.incarnation,
                **facts,
            )
        incarnation = running.incarnation
        if delay is not None:
            self._restart(running, delay)
        else:
            with self._lock:
                self._running.pop(running.address, None)
        self._runtime.fates.declare(running.address, error, incarnation)
        if running.stopping is None and not self._ending and not recycled:
            request, failure = running.request, self._failure(running, ended, how, delay is not None, stderr)
            self._runtime.report(request.owner_process, request.owner, request.mesh, failure)
        elif delay is None and not self._ending:
            self._runtime.report_end(running.request.owner_process, running.request.mesh, running.rank)
        if delay is None:
            for tell in running.on_end:
                tell()

    @staticmethod
    def _failure(running: _Running, ended: Exit, how: str, restarting: bool, stderr: str) -> MeshFailure:
        request = running.request
        return MeshFailure(
            mesh_name=request.mesh_name,
            rank=running.rank,
            coordinates=dict(request.extent.point_of_rank(running.rank)),
            class_name="process",
            cause=f"the process {how}",
            exit_code=ended.exit_code,
            signal=ended.signal,
            pid=ended.pid,
            process=running.address,
            stderr=stderr,
            restarting=restarting,
        )

    # ---- output

    def _last_words(self, running: _Running) -> str:
        if running.stopping is None:
            return self._output.ended(running.address)
        self._output.forget(running.address)
        return ""

    @endpoint
    def set_output(self, addresses: Sequence[str], shown: bool, window: float) -> None:
        """Say whether the client sees what processes write, and in how many seconds it is folded."""
        for running in [self._running[address] for address in addresses if address in self._running]:
            running.output = replace(running.output, shown=shown, window=window)
            self._output.set_options(running.address, running.output)
        self._output.flush(_OUTPUT_SECONDS)  # what is written from now on is treated as was asked

    # ---- restarts

    def _delay(self, running: _Running) -> float | None:
        """Return how long to wait before a process that ended is started again; None if it is not."""
        if running.stopping is not None or self._ending:
            return None
        if running.recycling:
            running.recycling = False
            return running.budget.policy.backoff
        delay = running.budget.spend(running.rank)
        if delay is not None and running.budget.policy.scope == "mesh":
            self._recycle_others(running)
        return delay

    def _restart(self, running: _Running, delay: float) -> None:
        """Start the next process at the same address, which takes messages already, after `delay` seconds."""
        running.incarnation += 1
        running.process = running.overdue = None
        running.waiting = True
        self._runtime.later(delay, partial(self._launch_again, running))
        if running.stopping is not None:  # since it was decided
            self._ask_to_end(running, running.stopping)

    def _launch_again(self, running: _Running) -> None:
        if self._waits_no_more(running):
            self._launch(running)

    def _waits_no_more(self, running: _Running) -> bool:
        """Take a process out of its back-off; False if somebody else did."""
        with self._lock:
            waited, running.waiting = running.waiting, False
        return waited

    def _recycle_others(self, failed: _Running) -> None:
        """End the other processes of a mesh; actors clean up, and what does not end in time is killed."""
        with self._lock:
            others = [
                each
                for each in self._running.values()
                if each.request.mesh == failed.request.mesh and each is not failed
            ]
        others = [each for each in others if each.process is not None and not each.recycling]
        for each in others:
            each.recycling = True
            self._runtime.peer(each.address).post(Envelope(kind=SHUTDOWN, rank=1))
        ends = [(each, each.incarnation) for each in others]

        def kill_late() -> None:
            self._kill([each for each, incarnation in ends if each.incarnation == incarnation])

        self._runtime.later(config.get("cleanup_timeout"), kill_late)

    def _end_orphans(self, owner_process: str, incarnation: float) -> None:
        """The process that owns meshes of processes is gone: nobody else ends them."""
        with self._lock:
            orphans = [
                each
                for each in self._running.values()
                if each.request.owner_process == owner_process
                and each.request.owner_incarnation <= incarnation
            ]
        self._end(orphans, _OWNER_GONE)

    # ---- stopping

    @endpoint(explicit_response_port=True)
    def stop_processes(self, port: Port, addresses: Sequence[str] | None, reason: str) -> None:
        """End processes, all of the host if None, and answer when they are gone and their output is shown."""
        with self._lock:
            wanted = self._running if addresses is None else addresses
            chosen = [self._running[address] for address in wanted if address in self._running]

        def answer() -> None:
            self._output.flush(_OUTPUT_SECONDS)
            port.send(None)

        def ended() -> None:
            # Not on the thread that reads: a terminal may take its time.
            threading.Thread(target=answer, name="monarch-stopped", daemon=True).start()

        self._when_ended(chosen, ended if chosen else lambda: port.send(None))
        self._end(chosen, reason)

    def _when_ended(self, chosen: Sequence[_Running], act: Callable[[], None]) -> None:
        """Act once, as soon as all of `chosen` have ended."""
        left = {running.address for running in chosen}

        def ended(address: str) -> None:
            with self._lock:
                left.discard(address)
                if left:
                    return
            act()

        with self._lock:
            for running in chosen:
                if running.address in self._running:
                    running.on_end.append(partial(ended, running.address))
                else:
                    left.discard(running.address)
            if left:
                return
        act()

    def _end(self, chosen: Sequence[_Running], reason: str) -> None:
        for running in chosen:
            self._ask_to_end(running, reason)
        kill_late = self._runtime.later(config.get("process_exit_timeout"), lambda: self._kill(chosen))
        self._when_ended(chosen, kill_late.cancel)

    def _ask_to_end(self, running: _Running, reason: str) -> None:
        running.stopping = running.stopping or reason
        if self._waits_no_more(running):
            running.listener.close()
            self._ended(running, Exit(None), "is gone")
        else:
            self._runtime.peer(running.address).post(Envelope(kind=SHUTDOWN))

    def _kill(self, chosen: Sequence[_Running]) -> None:
        for running in chosen:
            process = running.process
            if process is not None and running.address in self._running:
                process.kill()

    def end_all(self, seconds: float) -> None:
        """End every process within `seconds`, by force from then on; called on any thread."""
        self._ending = True
        with self._lock:
            running = list(self._running.values())
        gone = Waiter()
        self._when_ended(running, lambda: self._runtime.reactor.signal(gone))
        for entry in running:
            self._ask_to_end(entry, "its client has ended")
        if not self._runtime.reactor.wait(gone, seconds):
            self._kill(running)
            self._launcher.close()  # some may not have started yet
            self._runtime.reactor.wait(gone, config.get("process_exit_timeout"))
        self._output.close(_OUTPUT_SECONDS)
        self._launcher.close()


def _listen(address: str) -> Listener:
    return transport_for(address.partition(":")[0]).listen(address)
