"""Settings of the core: one typed table and four layers.

A value comes from the first of: `configure(...)` in this process, the environment variable
`MONARCH_<NAME>`, the settings file of the project, the default in `SETTINGS`. The file is
`monarch.toml`, or `pyproject.toml` with a table `[tool.monarch]`, in the working directory or the
next folder above that has one. Processes that a program spawns inherit what was configured before
the spawn, and what the file says. Environment and file are read once. Durations are seconds, or text
such as `"500ms"`, `"30s"`, `"5m"`, `"1h"`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monarch.config._file import find
from monarch.errors import ConfigError, ConfigTypeError

__all__ = [
    "SETTINGS",
    "Setting",
    "clear_runtime_config",
    "configure",
    "configured",
    "get_file_config",
    "get_global_config",
    "get_runtime_config",
]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")


@dataclass(frozen=True)
class Setting:
    """One setting: its kind is `int` (a count or bytes), `float` (seconds), `bool` or `str`."""

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()

    def parse(self, value: object) -> Any:
        """Return `value` in the setting's type.

        Raises:
            ConfigTypeError: if the value has the wrong type.
            ConfigError: if text cannot be read, or the value is negative or not one of `choices`.
        """
        if isinstance(value, str):
            value = self._from_text(value)
        fits = type(value) is self.kind or (self.kind is float and type(value) is int)
        if not fits:
            wanted = "seconds or text such as '30s'" if self.kind is float else self.kind.__name__
            raise ConfigTypeError(
                f"setting {self.name!r} takes {wanted}, not {type(value).__name__}: {value!r}"
            )
        if self.kind is str:
            if self.choices and value not in self.choices:
                raise ConfigError(
                    f"setting {self.name!r} takes {' or '.join(map(repr, self.choices))}, not {value!r}"
                )
            return value
        number = self.kind(value)
        if not number >= 0:  # so that not-a-number is refused, too
            raise ConfigError(f"setting {self.name!r} must not be negative: {value!r}")
        return number

    def _from_text(self, text: str) -> Any:
        try:
            if self.kind is bool:
                return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
            if self.kind is float and (match := _DURATION.fullmatch(text.strip())):
                return float(match[1]) * _UNITS[match[2]]
            return self.kind(text)
        except (KeyError, ValueError):
            raise ConfigError(f"setting {self.name!r} cannot be read from {text!r}") from None


_TABLE = (
    Setting(
        "codec_max_frame_length", int, 10 << 30, "Largest message in bytes, out-of-band buffers included."
    ),
    Setting("message_delivery_timeout", float, 30.0, "Longest wait in seconds for a peer to take a message."),
    Setting("host_spawn_ready_timeout", float, 30.0, "Longest wait in seconds for a host to accept a spawn."),
    Setting(
        "proc_start_timeout",
        float,
        120.0,
        "Longest time in seconds from the launch of a process to its first word.",
    ),
    Setting(
        "proc_start_method",
        str,
        "fork",
        "How processes start: 'fork' shares imported modules, 'exec' imports them in each process.",
        choices=("fork", "exec"),
    ),
    Setting("cleanup_timeout", float, 3.0, "Longest run in seconds of an actor's `__cleanup__`."),
    Setting("stop_actor_timeout", float, 10.0, "Longest wait in seconds for an actor to stop."),
    Setting(
        "process_exit_timeout",
        float,
        10.0,
        "Longest wait in seconds for a stopped process before it is killed.",
    ),
    Setting("enable_log_forwarding", bool, True, "Whether the client shows what actor processes write."),
    Setting(
        "log_folder",
        str,
        "~/.local/state/monarch/logs",
        "Folder for files with all output of actor processes, one folder in it for each run; empty for none. "
        "`XDG_STATE_HOME` replaces `~/.local/state`.",
    ),
    Setting("tail_log_lines", int, 20, "Last lines of its stderr that the failure of a process carries."),
)
SETTINGS: Mapping[str, Setting] = {each.name: each for each in _TABLE}

_runtime: dict[str, Any] = {}
_file_values: dict[str, Any] | None = None
_file_path: Path | None = None
_cached: dict[str, Any] = {}  # what is not in `_runtime`, by name
os.register_at_fork(after_in_child=_cached.clear)  # a fork may be given another environment


def setting(name: str) -> Setting:
    """Return one setting.

    Raises:
        ConfigError: if there is none of this name; the nearest one is named.
    """
    try:
        return SETTINGS[name]
    except KeyError:
        near = difflib.get_close_matches(name, SETTINGS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the settings are: {', '.join(sorted(SETTINGS))}"
        raise ConfigError(f"there is no setting {name!r}; {hint}") from None


def configure(**values: object) -> None:
    """Set settings for this process and for processes spawned from now on.

    Raises:
        ConfigError: for an unknown setting (also `ValueError`). Nothing is changed then.
        ConfigTypeError: for a value of the wrong type (also `TypeError`).
    """
    parsed = {name: setting(name).parse(value) for name, value in values.items()}
    _runtime.update(parsed)


@contextmanager
def configured(**values: object) -> Iterator[dict[str, Any]]:
    """Apply settings for the length of a `with` block, for the whole process."""
    before = dict(_runtime)
    configure(**values)
    try:
        yield get_global_config()
    finally:
        _runtime.clear()
        _runtime.update(before)


def get(name: str) -> Any:
    """Return the value in force of one setting.

    Raises:
        ConfigError: if there is no such setting, or the environment or the file has a wrong value.
    """
    if name in _runtime:
        return _runtime[name]
    if name not in _cached:  # read once: this is asked for every message
        known = setting(name)
        text = os.environ.get(_variable(name))
        if text is not None:
            _cached[name] = known.parse(text)
        else:
            _cached[name] = get_file_config().get(name, known.default)
    return _cached[name]


def source_of(name: str) -> str:
    """Return where the value in force of a setting comes from: "call", a variable, a file, or "default"."""
    if setting(name).name in _runtime:
        return "call"
    if _variable(name) in os.environ:
        return _variable(name)
    if name in get_file_config():
        return "the program" if _file_path is None else str(_file_path)
    return "default"


def _variable(name: str) -> str:
    return f"MONARCH_{name.upper()}"


def get_file_config() -> dict[str, Any]:
    """Return what the settings file of this project says.

    Raises:
        ConfigError: if it cannot be read, has an unknown setting, or a value that is not acceptable.
    """
    global _file_path
    if _file_values is None:
        _file_path, table = find(_working_directory())
        use_file_config(table)
    assert _file_values is not None
    return dict(_file_values)


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it has been removed
        return Path("/")


def use_file_config(values: Mapping[str, object]) -> None:
    """Take these values for those of the file, as a process does that another one has spawned."""
    global _file_values
    try:
        _file_values = {name: setting(name).parse(value) for name, value in values.items()}
    except ConfigError as error:
        raise type(error)(f"{_file_path}: {error}" if _file_path else str(error)) from None
    _cached.clear()


def get_global_config() -> dict[str, Any]:
    """Return every setting with the value in force, all layers merged."""
    return {name: get(name) for name in SETTINGS}


def get_runtime_config() -> dict[str, Any]:
    """Return only what `configure` set in this process."""
    return dict(_runtime)


def clear_runtime_config() -> None:
    """Forget what `configure` set; environment and defaults hold again."""
    _runtime.clear()
