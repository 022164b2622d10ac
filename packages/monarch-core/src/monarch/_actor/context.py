"""Where am I? What an actor, or the client, may ask about itself."""

from __future__ import annotations

from monarch._runtime import here
from monarch._runtime.context import Context, current
from monarch.shape import Point


def context() -> Context:
    """Return the context of the running actor, or of the client, which starts here if it has not yet."""
    found = current.get()
    if found is not None:
        return found
    client = here.get().client
    assert client is not None
    return Context(client, client.rank)


def current_rank() -> Point:
    """Return the rank that the message at hand was addressed to, within the part of the mesh addressed."""
    return context().message_rank


def current_size() -> dict[str, int]:
    """Return the sizes, by label, of the part of the mesh that the message at hand was addressed to."""
    return dict(context().message_rank.extent)


def current_actor_name() -> str:
    """Return the name that the running actor was spawned with, or "client"."""
    return context().actor_instance.name
