"""The agent of a host: starts its processes, watches them, and says how they ended."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from monarch import config
from monarch._actor import Actor, Port, endpoint
from monarch._logs.output import Output, OutputOptions, Pipes
from monarch._mesh.boot import Boot
from monarch._mesh.command import ENTRY, BootstrapCommand, default_bootstrap_cmd, resolve_binding
from monarch._runtime import here
from monarch._runtime.client import folder_of, new_address
from monarch._runtime.process import Process as Runtime
from monarch._runtime.promise import Promise
from monarch._runtime.sending import ask_processes
from monarch._runtime.supervision import MeshFailure
from monarch._transport.reactor import Waiter
from monarch.abc import Exit, LaunchSpec, Listener, Process
from monarch.errors import MeshClosed, MonarchError, ProcessDied, SpawnError, SupervisionError
from monarch.plugins import launcher_for, transport_for
from monarch.shape import Extent
from monarch.wire.codec import SHUTDOWN, STATUS, Envelope

_log = logging.getLogger(__name__)

_OUTPUT_SECONDS = 1.0  # without any progress, when the client ends and shows the last output


@dataclass(frozen=True)
class SpawnRequest:
    """Processes to start on one host: for each its rank in the mesh, its command and its binding."""

    mesh_name: str
    extent: Extent
    ranks: Sequence[int]
    commands: Sequence[BootstrapCommand]
    bindings: Sequence[Mapping[str, str]]
    parcel: bytes
    owner_process: str
    owner: bytes
    output: OutputOptions


@dataclass
class _Running:
    """A process of this host, from the binding of its socket to its end."""

    address: str
    listener: Listener
    mesh_name: str
    rank: int
    coordinates: Mapping[str, int]
    owner_process: str
    owner: bytes
    process: Process | None = None
    first_word: Promise | None = None
    stopping: str | None = None
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
        self._ending = False
        self._output = Output(self._runtime.private_descriptors)

    @endpoint(explicit_response_port=True)
    def spawn(self, port: Port, request: SpawnRequest) -> None:
        """Answer with the addresses of the new processes, which take messages at once; then start them."""
        try:
            started = [self._bind(request, rank) for rank in request.ranks]
        except MonarchError as error:
            port.exception(error)
            return
        port.send([running.address for running in started])
        for running, command, binding in zip(started, request.commands, request.bindings):
            self._launch(running, command, binding, request)

    def _bind(self, request: SpawnRequest, rank: int) -> _Running:
        address = new_address(folder_of(self._runtime.address), "proc")
        listener = transport_for(address.partition(":")[0]).listen(address)
        coordinates = request.extent.point_of_rank(rank)
        running = _Running(
            address,
            listener,
            request.mesh_name,
            rank,
            dict(coordinates),
            request.owner_process,
            request.owner,
        )
        with self._lock:
            self._running[address] = running
        self._runtime.fates.introduce((address,), self._runtime.address)
        return running

    def _launch(
        self,
        running: _Running,
        command: BootstrapCommand,
        binding: Mapping[str, str],
        request: SpawnRequest,
    ) -> None:
        descriptor = os.memfd_create("monarch-parcel", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, request.parcel)
            if self._ending or running.stopping is not None:
                raise SpawnError("it was stopped before it started")
            with self._output.pipes() as pipes:
                process = self._launcher.start(self._spec(running, command, binding, descriptor, pipes))
                running.process = process
                self._output.attach(
                    running.address, running.mesh_name, running.rank, process.pid, pipes, request.output
                )
        except Exception as error:  # the agent lives on, whatever this process met with
            running.listener.close()
            self._ended(running, Exit(None), f"could not be started: {error}")
            return
        finally:
            os.close(descriptor)
        running.listener.release()
        self._runtime.reactor.watch(running.process.fileno(), lambda events: self._on_exit(running))
        running.first_word = ask_processes(self._runtime, (running.address,), Envelope(kind=STATUS), len)
        self._runtime.later(config.get("proc_start_timeout"), lambda: self._check_started(running))

    def _spec(
        self,
        running: _Running,
        command: BootstrapCommand,
        binding: Mapping[str, str],
        parcel: int,
        pipes: Pipes,
    ) -> LaunchSpec:
        listener = running.listener.fileno()
        boot = Boot(
            running.address,
            self._runtime.root,
            self._runtime.address,
            listener,
            self._lifeline,
            parcel,
            pipes.inodes,
        )
        bound = resolve_binding(binding)
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

    def _check_started(self, running: _Running) -> None:
        if running.process is None or running.first_word is None or running.first_word.settled:
            return
        seconds = config.get("proc_start_timeout")
        error = ProcessDied(
            f"process of mesh {running.mesh_name!r} rank {running.rank} (pid {running.process.pid}) "
            f"did not say a word in {seconds} s (proc_start_timeout); "
            "does its bootstrap command keep descriptors and environment?",
            pid=running.process.pid,
        )
        self._runtime.fates.declare(running.address, error)
        running.process.kill()

    def _kill_refused(self, address: str) -> None:
        running = self._running.get(address)
        if running is not None and running.process is not None:
            running.process.kill()

    # ---- ends

    def _on_exit(self, running: _Running) -> None:
        assert running.process is not None
        descriptor = running.process.fileno()
        ended = running.process.exit()
        if ended is not None:
            self._runtime.reactor.forget(descriptor)
            running.listener.close()
            self._ended(running, ended, str(ended))

    def _ended(self, running: _Running, ended: Exit, how: str) -> None:
        with self._lock:
            self._running.pop(running.address, None)
        what = f"process of mesh {running.mesh_name!r} rank {running.rank}"
        if ended.pid is not None:
            what += f" (pid {ended.pid})"
        facts: dict[str, Any] = {"mesh": running.mesh_name, "rank": running.rank}
        stderr = self._last_words(running)
        error: SupervisionError
        if running.stopping is not None:
            error = MeshClosed(f"{what} is stopped: {running.stopping}", **facts)
        else:
            error = ProcessDied(
                f"{what} {how}",
                exit_code=ended.exit_code,
                signal=ended.signal,
                pid=ended.pid,
                stderr=stderr,
                **facts,
            )
        self._runtime.fates.declare(running.address, error)
        if running.stopping is None and not self._ending:
            self._runtime.report(
                running.owner_process, running.owner, self._failure(running, ended, how, stderr)
            )
        for tell in running.on_end:
            tell()

    @staticmethod
    def _failure(running: _Running, ended: Exit, how: str, stderr: str) -> MeshFailure:
        return MeshFailure(
            mesh_name=running.mesh_name,
            rank=running.rank,
            coordinates=running.coordinates,
            class_name="process",
            cause=f"the process {how}",
            exit_code=ended.exit_code,
            signal=ended.signal,
            pid=ended.pid,
            process=running.address,
            stderr=stderr,
        )

    # ---- output

    def _last_words(self, running: _Running) -> str:
        if running.stopping is None:
            return self._output.ended(running.address)
        self._output.forget(running.address)
        return ""

    @endpoint
    def set_output(self, addresses: Sequence[str], shown: bool, window: float | None) -> None:
        """Say whether the client sees what processes write, and in how many seconds it is folded."""
        self._output.set_options(addresses, shown, window)

    # ---- stopping

    @endpoint(explicit_response_port=True)
    def stop_processes(self, port: Port, addresses: Sequence[str] | None, reason: str) -> None:
        """End processes, all of the host if None, and answer when they are gone."""
        with self._lock:
            wanted = self._running if addresses is None else addresses
            chosen = [self._running[address] for address in wanted if address in self._running]
            left = {running.address for running in chosen}
        if not left:
            port.send(None)
            return

        def ended(address: str) -> None:
            left.discard(address)
            if not left:
                port.send(None)

        for running in chosen:
            running.on_end.append(partial(ended, running.address))
            self._ask_to_end(running, reason)
        self._runtime.later(config.get("process_exit_timeout"), lambda: self._kill(chosen))

    def _ask_to_end(self, running: _Running, reason: str) -> None:
        running.stopping = running.stopping or reason
        self._runtime.peer(running.address).post(Envelope(kind=SHUTDOWN))

    def _kill(self, chosen: Sequence[_Running]) -> None:
        for running in chosen:
            if running.process is not None and running.address in self._running:
                running.process.kill()

    def end_all(self, seconds: float) -> None:
        """End every process within `seconds`, by force from then on; called on any thread."""
        self._ending = True
        with self._lock:
            running = list(self._running.values())
        gone = Waiter()
        left = {entry.address for entry in running}

        def ended(address: str) -> None:
            left.discard(address)
            if not left:
                self._runtime.reactor.signal(gone)

        for entry in running:
            entry.on_end.append(partial(ended, entry.address))
            self._ask_to_end(entry, "its client has ended")
        if left and not self._runtime.reactor.wait(gone, seconds):
            self._kill(running)
            self._runtime.reactor.wait(gone, config.get("process_exit_timeout"))
        self._output.close(_OUTPUT_SECONDS)
        self._launcher.close()
