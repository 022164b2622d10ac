"""Changes what a program shows of the output of processes that run already."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from monarch._actor import Actor, endpoint, returns_future
from monarch._logs import records
from monarch._logs.output import WINDOW
from monarch._mesh import agents
from monarch.errors import ConfigError


class LogLevel(Actor):
    """Lives in a process just long enough to set the level of its root logger."""

    @endpoint
    def set(self, level: int) -> None:
        """Set it."""
        records.set_level(level)


def check(shown: bool, window: float | None, level: int) -> None:
    """Refuse what makes no sense.

    Raises:
        ConfigError: which says what is wrong.
    """
    if window is not None:
        if not isinstance(window, int | float) or not 0 <= window < math.inf:
            raise ConfigError(f"aggregate_window_sec takes seconds from 0, not {window!r}")
        if not shown:
            raise ConfigError("aggregate_window_sec is of no use without stream_to_client=True")
    if not isinstance(level, int) or not 0 <= level <= 255:
        raise ConfigError(f"level takes a logging level from 0 to 255, not {level!r}")


@returns_future
async def apply(
    spawn: Callable[[str, type[LogLevel]], LogLevel],
    processes: Mapping[str, str],
    shown: bool,
    window: float | None,
    level: int,
) -> None:
    """Tell the agents, and set the level in each process; `processes` have their agents as values."""
    told = agents.set_output(processes, shown, WINDOW if window is None else window)
    levels = spawn("log level", LogLevel)
    await levels.set.call(level)
    await levels.stop("the level is set")  # type: ignore[attr-defined]  # it is a mesh of them
    await told
