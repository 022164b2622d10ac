"""The page of commands has the help of every command as the command prints it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from monarch.cli.main import root

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


def commands(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield a command and those below it, each as it would run at a terminal of 80 columns."""
    name = "monarch" if parent is None else command.name
    context = click.Context(command, parent=parent, info_name=name, terminal_width=80)
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from commands(command.get_command(context, below), context)


def block(context: click.Context) -> str:
    return f"```text\n$ {context.command_path} --help\n{context.get_help()}\n```"


@pytest.mark.parametrize("context", [*commands(root)], ids=lambda context: context.command_path)
def test_the_page_has_the_help_of_the_command(context):
    assert block(context) in PAGE.read_text(), f"put this there:\n{block(context)}"


def test_the_page_has_no_command_that_is_gone():
    shown = {line for line in PAGE.read_text().splitlines() if line.startswith("$ ")}
    assert shown == {f"$ {context.command_path} --help" for context in commands(root)}
