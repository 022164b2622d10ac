"""Identities of the actors that every client has, known to all its processes."""

AGENT = b"hostagnt"
REGISTRY = b"registry"
