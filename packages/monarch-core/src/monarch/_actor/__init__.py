"""What a user writes: actors, endpoints, channels, futures. Public as `monarch.actor`."""

from monarch._actor.accumulator import Accumulator
from monarch._actor.actor import Actor
from monarch._actor.channel import Channel, PortReceiver
from monarch._actor.context import context, current_actor_name, current_rank, current_size
from monarch._actor.endpoint import (
    Endpoint,
    EndpointProperty,
    NotAnEndpoint,
    as_endpoint,
    checker,
    concurrent_endpoint,
    endpoint,
    send,
)
from monarch._actor.future import Future, future_of, returns_future
from monarch._runtime.port import Port

__all__ = [
    "Accumulator",
    "Actor",
    "Channel",
    "Endpoint",
    "EndpointProperty",
    "Future",
    "NotAnEndpoint",
    "Port",
    "PortReceiver",
    "as_endpoint",
    "checker",
    "concurrent_endpoint",
    "context",
    "current_actor_name",
    "current_rank",
    "current_size",
    "endpoint",
    "future_of",
    "returns_future",
    "send",
]
