"""A keeper in an interpreter of its own, which has imported what the program has of installed modules.

It serves where the program cannot be forked. The program starts it; or a zygote that has failed
its trial becomes it, with the same number and the same socket.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from monarch import config
from monarch._zygote import detach, linux, trial
from monarch._zygote.keeper import Keeper, load
from monarch._zygote.request import Preload

_START = "from monarch._zygote.clean import main; main()"


@dataclass(frozen=True)
class Birth:
    """What a clean keeper has to know; it has the descriptors under these numbers.

    `why` says why processes are not forked from the program, and with `fork` unset not at all.
    """

    control: int
    client: int
    preload: Preload
    fork: bool
    why: str

    def to_descriptor(self) -> int:
        """Return a descriptor of a file that holds it."""
        descriptor = linux.above_standard(os.memfd_create("monarch-birth", os.MFD_CLOEXEC))
        with open(descriptor, "wb", closefd=False) as file:
            pickle.dump(self, file)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor


def command(birth: int) -> list[str]:
    """Return the command line for the `Birth` at a descriptor: this interpreter with the same flags."""
    flags = list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]
    flags += [] if "-P" in flags else ["-P"]
    return [sys.executable, *flags, "-c", _START, str(birth)]


def become(birth: Birth) -> NoReturn:
    """Make this process, which has nothing to lose, a clean keeper."""
    descriptor = birth.to_descriptor()
    for number in (birth.control, birth.client, descriptor):
        os.set_inheritable(number, True)
    os.execv(sys.executable, command(descriptor))


def installed() -> list[str]:
    """Return the modules of this process that belong to installed packages, not to the program."""
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    folders |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    inside = tuple(f"{folder}/" for folder in folders)
    found = []
    for name, module in list(sys.modules.items()):
        origin = getattr(detach.spec_of(module), "origin", None)
        if not name.startswith("_") and origin and origin.startswith(inside):
            found.append(name)
    return found


def main() -> None:
    """Run the keeper, in a process that was made for it."""
    with open(int(sys.argv[1]), "rb") as file:
        birth: Birth = pickle.load(file)
    for number in (birth.control, birth.client):
        os.set_inheritable(number, False)
    detach.leave_session_and_files({birth.control, birth.client})
    config.configure(proc_start_method="exec")  # what we import may import monarch.actor: no zygote for us
    why = birth.why
    if birth.fork:
        load(birth.preload)
        why = trial.failure()
    how = f"executed, because {why}" if why else f"forked from a clean interpreter, because {birth.why}"
    Keeper(socket.socket(fileno=birth.control), birth.client, not why, how).run()
