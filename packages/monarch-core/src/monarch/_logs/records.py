"""Log records of actors say whose they are, and are shown without any set-up."""

from __future__ import annotations

import logging

from monarch._runtime.context import current

_FORMAT = "%(levelname)s:%(name)s:%(message)s"


def install() -> None:
    """Name actors in the records of this process, and write records that nobody else handles.

    Each record gets `monarch_actor` and `monarch_rank`, empty and -1 outside actors. The handler is
    the one of last resort: `logging.basicConfig` and other set-up replace it.
    """
    make = logging.getLogRecordFactory()

    def make_named(*args: object, **kwargs: object) -> logging.LogRecord:
        record = make(*args, **kwargs)
        context = current.get()
        actor = None if context is None else context.actor_instance
        record.monarch_actor = "" if actor is None else actor.name
        record.monarch_rank = -1 if actor is None else actor.rank.rank
        return record

    logging.setLogRecordFactory(make_named)
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(logging.Formatter(_FORMAT))


def set_level(level: int) -> None:
    """Let records from `level` on through the root logger of this process."""
    logging.getLogger().setLevel(level)
    if logging.lastResort is not None:
        logging.lastResort.setLevel(level)
