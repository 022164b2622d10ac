"""The root of the `monarch` command, and how every command fails.

A command raises; what is printed and the exit code are decided here: 1 for an error of Monarch, 2
for a wrong use of the command. With `--json` the standard output is one JSON document in any case.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

import click

from monarch.__about__ import __version__
from monarch.cli.output import print_json
from monarch.errors import MonarchError

# Each in a module of its own, which is imported when it is asked for: one command does not pay for another.
_COMMANDS = {
    "config": "monarch.cli.config",
    "debug": "monarch.cli.debug",
    "plugins": "monarch.cli.plugins",
}

_INTERRUPTED = 130  # as a shell reports the end by Ctrl-C


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name]).command
        return command


@click.group(cls=_Commands)
@click.version_option(__version__, prog_name="monarch")
def root() -> None:
    """Distributed programming for PyTorch."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    if isinstance(
        sys.stdout, io.TextIOWrapper
    ):  # what an actor prints may be more than this terminal can show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = root.main(list(arguments), prog_name="monarch", standalone_mode=False) or 0
        sys.stdout.flush()
        return int(code)
    except click.ClickException as error:
        error.show()
        return _fail(as_json, "UsageError", error.format_message(), error.exit_code)
    except MonarchError as error:
        click.echo(f"monarch: {error}", err=True)
        return _fail(as_json, type(error).__qualname__, str(error), 1)
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except BrokenPipeError:  # `monarch ... | head`: nobody reads any more, and Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _fail(as_json: bool, code: str, message: str, exit_code: int) -> int:
    if as_json:
        print_json({"error": {"code": code, "message": message}})
    return exit_code
