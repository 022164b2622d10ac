"""How an actor process is started, and which processors and memory it may use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from monarch.errors import ShapeError, SpawnError, WrongArgument


@dataclass(frozen=True)
class BootstrapCommand:
    """The program that becomes, or starts by exec, an actor process.

    It is run with `args`, as `arg0` if that is given, with the environment of the host agent plus
    `env`, or with `env` alone if not `inherit_env`; a value of None unsets a variable. Descriptors
    above 2 have to stay open up to the final exec, and the environment has to be passed on.
    """

    program: str
    arg0: str | None = None
    args: Sequence[str] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)
    inherit_env: bool = True

    def __post_init__(self) -> None:
        for name, value in self.env.items():
            if not isinstance(name, str) or not (value is None or isinstance(value, str)):
                raise WrongArgument(
                    f"variables are text, or None to unset one; this is not: {name!r}={value!r}"
                )

    def with_env(self, env: Mapping[str, str | None]) -> BootstrapCommand:
        """Return the same command with more variables set, or unset where the value is None."""
        return replace(self, env={**self.env, **env})

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the complete environment of the process."""
        merged: dict[str, str | None] = {**(inherited if self.inherit_env else {}), **self.env}
        return {name: value for name, value in merged.items() if value is not None}


def default_bootstrap_cmd() -> BootstrapCommand:
    """Return the command that is used where none is given: this interpreter, with this virtual environment.

    The path of the interpreter is kept as it is: resolving a link would leave the environment.
    """
    # -P: the working directory must not shadow modules before the program's own path is set.
    flags = list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]
    flags += [] if "-P" in flags else ["-P"]
    return BootstrapCommand(sys.executable, None, [*flags, "-c", _START])


ENTRY = "monarch._mesh.worker:main"
"""What the default command calls."""

WARM_UP = "monarch._mesh.worker:warm_up"
"""What a process may call once before it forks others that call `ENTRY`."""

_START = "from monarch._mesh.worker import main; main()"
_BIND_KEYS = ("cpus", "physcpubind", "cpunodebind", "membind")
_NODES = Path("/sys/devices/system/node")
_GREATEST = 65_535  # no host has more processors; a typing error must not fill the memory


@dataclass(frozen=True)
class Binding:
    """Processors and NUMA nodes of one process; empty means all."""

    cpus: frozenset[int] = frozenset()
    memory_nodes: frozenset[int] = frozenset()


def checked_bindings(proc_bind: Sequence[Mapping[str, str]] | None, per_host: int) -> list[Mapping[str, str]]:
    """Return one binding for each process of a host.

    Raises:
        ShapeError: if there is not one for each (also `ValueError`).
        SpawnError: for a key that does not exist, or a value that is no list of numbers.
    """
    if proc_bind is None:
        return [{}] * per_host
    if len(proc_bind) != per_host:
        raise ShapeError(
            f"proc_bind has {len(proc_bind)} entries and a host gets {per_host} processes; give one for each"
        )
    for entry in proc_bind:
        for key, value in entry.items():
            if key not in _BIND_KEYS:
                raise SpawnError(f"proc_bind has no key {key!r}; the keys are {', '.join(_BIND_KEYS)}")
            _numbers(value)
    return list(proc_bind)


def resolve_binding(entry: Mapping[str, str]) -> Binding:
    """Turn one entry of `proc_bind` into numbers, on the host where it holds.

    Raises:
        SpawnError: if this host has no such processor or node.
    """
    cpus: set[int] = set()
    for key in ("cpus", "physcpubind"):
        cpus |= _numbers(entry.get(key, ""))
    for node in _numbers(entry.get("cpunodebind", "")):
        try:
            cpus |= _numbers((_NODES / f"node{node}" / "cpulist").read_text())
        except OSError:
            raise SpawnError(f"proc_bind names NUMA node {node}, which this host does not have") from None
    return Binding(frozenset(cpus), frozenset(_numbers(entry.get("membind", ""))))


def _numbers(text: str) -> set[int]:
    """Read a list such as `0-3,8`."""
    numbers: set[int] = set()
    try:
        for part in filter(None, str(text).strip().split(",")):
            first, _, last = part.partition("-")
            part_numbers = range(int(first), int(last or first) + 1)
            if not part_numbers or part_numbers[-1] > _GREATEST:
                raise ValueError
            numbers |= set(part_numbers)
    except ValueError:
        raise SpawnError(
            f"proc_bind takes numbers and rising ranges up to {_GREATEST}, such as '0-3,8', not {text!r}"
        ) from None
    return numbers
