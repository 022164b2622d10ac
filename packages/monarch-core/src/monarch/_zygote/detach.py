"""Makes a fresh fork of the program a process of its own, which has nothing of it but its modules."""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
import threading
import weakref
from collections.abc import Collection
from types import FrameType, ModuleType
from typing import Any

from monarch._zygote import linux


def leave_session_and_files(keep: Collection[int]) -> None:
    """Leave the terminal, and let go of every open file except `keep`.

    The numbers stay taken, by the null device: objects of the program will close them some time.
    """
    if os.getsid(0) != os.getpid():
        os.setsid()
    null = linux.above_standard(os.open(os.devnull, os.O_RDWR))
    for number in (0, 1, 2):
        os.dup2(null, number)
    for number in linux.descriptors():
        if number not in keep and number != null:
            try:
                os.fstat(number)
            except OSError:
                continue  # the one that listed them
            try:
                os.dup2(null, number, inheritable=False)
            except OSError:  # it is above the limit, which was higher when it was opened
                os.close(number)
    os.close(null)


def forget_the_program(imported: Collection[str]) -> None:
    """Undo what holds for the program alone; imports of `imported` count as finished."""
    sys.settrace(None)
    sys.setprofile(None)
    sys.excepthook = sys.__excepthook__
    sys.unraisablehook = sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    _forget_signals()
    _forget_ends()
    _finish_imports(imported)
    if (asyncio := sys.modules.get("asyncio")) is not None:
        asyncio._set_running_loop(None)


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def _forget_ends() -> None:
    """Nothing that the program wants done at its end is done here."""
    atexit._clear()
    finalize: Any = weakref.finalize
    finalize._registry.clear()
    finalize._registered_with_atexit = False
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util._finalizer_registry.clear()
        util._run_after_forkers()
        atexit.register(util._exit_function)


def _finish_imports(imported: Collection[str]) -> None:
    """No import is under way here: those that were are finished, or are done again."""
    specs = {name: spec_of(module) for name, module in list(sys.modules.items())}
    for name in imported:
        if (spec := specs.get(name)) is not None:
            spec._initializing = False
    halfway = {name for name, spec in specs.items() if getattr(spec, "_initializing", False)}
    halfway |= _running_modules() - {"__main__", *imported}
    for name in specs:
        if any(name == each or name.startswith(f"{each}.") for each in halfway):
            del sys.modules[name]
    bootstrap: Any = importlib._bootstrap
    bootstrap._module_locks.clear()


def _running_modules() -> set[str]:
    """Return the modules whose code the caller is called from: not all loaders mark theirs as unfinished."""
    running: set[str] = set()
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            running.add(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    return running


def spec_of(module: object) -> Any:
    """Return the spec of a module without a look at any other attribute: some load themselves then."""
    if not isinstance(module, ModuleType):
        return None
    return object.__getattribute__(module, "__dict__").get("__spec__")
