"""What commands print: for people, or as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click


def print_json(document: Any) -> None:
    """Print the one document of a command."""
    click.echo(json.dumps(document, indent=2))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the head, then one for each row."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in (head, *rows)
    ]
