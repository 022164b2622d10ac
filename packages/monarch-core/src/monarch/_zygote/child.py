"""What a process does between the fork and its own work."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import fcntl
import io
import logging
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from monarch import config
from monarch._zygote import linux
from monarch._zygote.request import Start

_kept: list[object] = []
"""What the program had and nobody here may lose: its end would close descriptors or remove files."""


def become(start: Start, keeper: int, birth: int, others: Sequence[int], own: Collection[int]) -> NoReturn:
    """Be the process that `start` describes; what goes wrong before its own work is written to `birth`.

    `keeper` is the parent, and `own` are all descriptors that belong to it. `others` are copies of
    descriptors: working directory, standard output, standard error, and those of `start`.
    """
    code = 127
    try:
        os.setsid()
        linux.die_with(keeper)
        linux.adopt_orphans()
        linux.bind(start.cpus, start.memory_nodes)
        os.umask(start.umask)
        birth = _arrange(start.descriptors, birth, others, own)
        linux.set_limits(start.limits)
        _default_signals()
        if start.entry is None:
            _execute(start, birth)
        code = _call(start, start.entry, birth)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(birth, str(error).encode(errors="replace"))
    os._exit(code)


def _arrange(wanted: Sequence[int], birth: int, others: Sequence[int], own: Collection[int]) -> int:
    """Give descriptors their numbers, close those of the keeper, and return the new one of `birth`."""
    above = max([*wanted, *own, 2]) + 1
    birth, cwd, out, err, *given = (
        fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above) for number in (birth, *others)
    )
    signal.set_wakeup_fd(-1)
    for number in own:
        os.close(number)
    with contextlib.suppress(OSError):  # a folder that was removed, or that is closed to this user
        os.fchdir(cwd)
    for number, target in zip((out, err, *given), (1, 2, *wanted)):
        os.dup2(number, target)
    for number in (cwd, out, err, *given):
        os.close(number)
    return birth


def _default_signals() -> None:
    """Undo what the keeper did to signals."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _execute(start: Start, birth: int) -> NoReturn:
    keep = {birth, *start.descriptors}
    for number in linux.descriptors():
        if number not in keep:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(number)
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(start.executable, list(start.argv), dict(start.env))


def _call(start: Start, entry: str, birth: int) -> int:
    """Call the entry point as if an interpreter had just been started for it."""
    linux.be_called("monarch-actor")
    _set_environment(start.env)
    _kept.extend([sys.modules["__main__"], sys.stdin, sys.stdout, sys.stderr])
    sys.modules["__main__"] = types.ModuleType("__main__")
    _open_standard_streams()
    _forget_settings()
    _adapt_libraries(len(start.cpus))
    os.close(birth)
    try:
        contextvars.Context().run(resolve(entry))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    return code


def resolve(entry: str) -> Callable[[], object]:
    """Return the function that "module:function" names."""
    module, _, function = entry.partition(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]


def _set_environment(env: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(env):
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _open_standard_streams() -> None:
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        original = getattr(sys, f"__{name}__")
        file: Any = io.FileIO(number, "w" if number else "r", closefd=False)
        if number == 0:
            file = io.BufferedReader(file)
        elif not unbuffered:
            file = io.BufferedWriter(file)
        stream = io.TextIOWrapper(
            file,
            encoding=getattr(original, "encoding", None),
            errors=getattr(original, "errors", None),
            line_buffering=name == "stderr" or os.isatty(number),
            write_through=unbuffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _adapt_libraries(cpus: int) -> None:
    """Redo what libraries do when they are imported, and what is different here; 0 means all processors."""
    if (random := sys.modules.get("numpy.random")) is not None:
        random.seed()  # Python's own generator does it by itself
    if cpus and (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(min(cpus, torch.get_num_threads()))


def _forget_settings() -> None:
    config.clear_runtime_config()
    for handler in list(logging.root.handlers):
        logging.root.removeHandler(handler)
    logging.root.setLevel(logging.WARNING)
