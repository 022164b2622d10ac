"""Moves messages between processes. It has never heard of actors."""
