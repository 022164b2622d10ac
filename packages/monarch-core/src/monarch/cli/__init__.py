"""The `monarch` command."""

from monarch.cli.main import main

__all__ = ["main"]
