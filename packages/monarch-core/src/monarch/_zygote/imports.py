"""Notices when a long import has ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_LONG = 0.1  # seconds of imports in each process that are worth a new zygote

# Python leaves frames of its own import system out of the tracebacks of imports that fail.
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"


class _Watch:
    """Comes before all finders, and measures imports of whole packages that others find.

    An import within an import is part of it, and submodules are part of their package.
    """

    def __init__(self, ended: Callable[[Collection[str]], None]) -> None:
        self._ended = ended
        self._busy = self._looking = False
        self._seconds = 0.0

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module by the other finders."""
        if self._busy or self._looking or "." in name:
            return None
        self._looking = True  # there are finders that ask all others, as this one does
        try:
            others = [each for each in sys.meta_path if each is not self and hasattr(each, "find_spec")]
            spec = next(filter(None, (each.find_spec(name, path, target) for each in others)), None)
        finally:
            self._looking = False
        if spec is not None:
            self._measure(spec.loader)
        return spec

    def _measure(self, loader: Any) -> None:
        """Let the next execution of a module by `loader` be measured."""
        execute = getattr(type(loader), "exec_module", None)
        if execute is None or not hasattr(loader, "__dict__") or isinstance(loader, type):
            return

        def exec_module(module: ModuleType) -> None:
            loader.__dict__.pop("exec_module", None)
            if self._busy:
                execute(loader, module)
                return
            self._busy = True
            start = time.perf_counter()
            try:
                execute(loader, module)
            finally:
                self._busy = False
                self._seconds += time.perf_counter() - start
            if self._seconds > _LONG:
                self._seconds = 0.0
                self._ended([module.__name__])

        exec_module.__code__ = exec_module.__code__.replace(co_filename=_IMPORT_SYSTEM)
        loader.exec_module = exec_module


_watch: _Watch | None = None


def watch_imports(ended: Callable[[Collection[str]], None]) -> None:
    """Call `ended` with the name of each module whose import, or imports up to it, took long."""
    global _watch
    _watch = _Watch(ended)
    sys.meta_path.insert(0, _watch)


def ignore_imports() -> None:
    """Undo `watch_imports`."""
    if _watch in sys.meta_path:
        sys.meta_path.remove(_watch)
