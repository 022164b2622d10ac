"""The base class of actors."""

from __future__ import annotations

import logging
from functools import cached_property

from monarch._runtime.context import current


class ActorNameFilter(logging.Filter):
    """Adds the actor and its rank to log records made while it runs, and changes nothing else."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set `record.actor`, unless it is set; keep every record."""
        context = current.get()
        if not hasattr(record, "actor"):  # else it is a field of the user's
            record.actor = "" if context is None else _label(context.actor_instance)
        return True


def _label(instance: object) -> str:
    name, rank = instance.name, instance.rank  # type: ignore[attr-defined]
    return f"{name}{dict(rank)}" if len(rank) else str(name)


class Actor:
    """Base class of everything that is spawned on a mesh.

    One instance lives in each process of the mesh. Its messages are handled one at a time, in
    order for each sender. A subclass may define, as `def` or `async def`:

    - `__supervise__(self, failure: MeshFailure) -> bool`: hear of failures of meshes that this
      actor spawned; true means handled, otherwise this actor fails too;
    - `__cleanup__(self, exc: Exception | None)`: run at the end, with the error if there was one;
    - `_handle_undeliverable_message(self, envelope) -> bool`: hear of a broadcast that nobody took.
    """

    @cached_property
    def logger(self) -> logging.Logger:
        """A logger named after the class, whose records carry the actor and its rank as `actor`."""
        logger = logging.getLogger(f"{type(self).__module__}.{type(self).__qualname__}")
        if not any(isinstance(known, ActorNameFilter) for known in logger.filters):
            logger.addFilter(ActorNameFilter())
        return logger
