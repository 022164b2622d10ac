"""Settings that a project keeps in a file: `monarch.toml`, or `[tool.monarch]` of its `pyproject.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monarch.errors import ConfigError

_OWN, _SHARED = "monarch.toml", "pyproject.toml"


def find(folder: Path) -> tuple[Path | None, Mapping[str, Any]]:
    """Return the settings file of `folder` or of the next folder above that has one, and its table.

    Raises:
        ConfigError: if a file cannot be read, or has no table of settings where one is.
    """
    for place in (folder, *folder.parents):
        for name in (_OWN, _SHARED):
            path = place / name
            if (text := _read(path)) and (name == _OWN or "[tool.monarch" in text):
                return path, _table(path, text)
    return None, {}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _table(path: Path, text: str) -> Mapping[str, Any]:
    import tomllib  # most programs have no such file

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error
    table = content if path.name == _OWN else content.get("tool", {}).get("monarch", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: tool.monarch has to be a table of settings, not {table!r}")
    return table
