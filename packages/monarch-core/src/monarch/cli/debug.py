"""`monarch debug`: the breakpoints where actors wait."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from monarch.cli.attach import attach
from monarch.cli.output import print_json, table
from monarch.cli.sessions import Answer, Session, cast, choose, find, ranks
from monarch.errors import NoSuchSession

_client = click.option("--client", type=int, metavar="PID", help="Only those of the program with this PID.")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

_FOR_PDB = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.group(name="debug", invoke_without_command=True, subcommand_metavar="[COMMAND] [ARGS]...")
@_client
@_json
@click.pass_context
def command(ctx: click.Context, client: int | None, as_json: bool) -> None:
    """Breakpoints where actors wait.

    Without a command it asks for commands at a terminal, and elsewhere prints the list.
    """
    if ctx.invoked_subcommand is not None:  # an option before the command counts as one after it
        ctx.default_map = {ctx.invoked_subcommand: {"client": client, "as_json": as_json}}
        return
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        show_list(find(client), as_json)
        return
    from monarch.cli.debug_shell import Shell

    Shell(client).run()


@command.command("list")
@_client
@_json
def list_command(client: int | None, as_json: bool) -> None:
    """List the breakpoints where actors wait."""
    show_list(find(client), as_json)


@command.command("attach")
@_client
@click.argument("session", nargs=-1, metavar="[ID | ACTOR [RANK]]")
def attach_command(session: Sequence[str], client: int | None) -> None:
    """Attach to one of them.

    It takes the commands of pdb. The end of the input (Ctrl-D) and `detach` leave it waiting; `continue`
    lets the actor run, up to breakpoints set here; `quit` forgets those and continues.
    """
    attach(choose(find(client), session))


@command.command("cast", context_settings=_FOR_PDB)
@_client
@_json
@click.argument("actor")
@click.argument("ranks_", metavar="RANKS")
@click.argument("words", metavar="PDB-COMMAND", nargs=-1, required=True)
def cast_command(actor: str, ranks_: str, words: Sequence[str], client: int | None, as_json: bool) -> None:
    """Send one command of pdb to several of them at once.

    RANKS is 3, 0,4:8, gpus=0:2 or all.
    """
    show_answers(cast(of_actor(find(client), actor, ranks_), " ".join(words)), as_json)


@command.command("continue")
@_client
@_json
def continue_command(client: int | None, as_json: bool) -> None:
    """Let all of them continue.

    It forgets the breakpoints that were set by hand.
    """
    show_answers(cast(find(client), "quit"), as_json)


def of_actor(sessions: Sequence[Session], actor: str, which: str) -> list[Session]:
    """Return the sessions of some ranks of one actor mesh.

    Raises:
        NoSuchSession: if there is none.
    """
    is_chosen: Callable[[Any], bool] = ranks(which)
    chosen = [each for each in sessions if each.waiting.actor == actor and is_chosen(each.waiting)]
    if not chosen:
        actors = ", ".join(sorted({each.waiting.actor for each in sessions})) or "none"
        raise NoSuchSession(f"no breakpoint waits in {actor!r}, ranks {which}; actors that wait: {actors}")
    return chosen


def show_list(sessions: Sequence[Session], as_json: bool) -> None:
    """Print what waits."""
    if as_json:
        print_json({"sessions": [each.document() for each in sessions]})
    elif not sessions:
        click.echo("no actor waits at a breakpoint", err=True)
    else:
        head, *rows = table(
            ("ID", "ACTOR", "RANK", "STATE", "FOR", "CLIENT", "AT"), [_row(each) for each in sessions]
        )
        click.echo(head)
        for row, session in zip(rows, sessions):
            waiting = session.waiting
            click.echo(f"{row}\n    {waiting.line}  {waiting.source or '(source not available)'}")


def _row(session: Session) -> tuple[str, ...]:
    waiting = session.waiting
    labels = ", ".join(f"{label}={index}" for label, index in waiting.coordinates.items())
    rank = f"{waiting.rank} ({labels})" if labels else str(waiting.rank)
    seconds = f"{max(time.time() - waiting.since, 0):.0f} s"
    return waiting.id, waiting.actor, rank, waiting.state, seconds, str(session.client), waiting.place()


def show_answers(answers: Sequence[Answer], as_json: bool) -> None:
    """Print what came back from a cast."""
    if as_json:
        print_json({"answers": [each.document() for each in answers]})
        return
    for each in answers:
        waiting = each.session.waiting
        click.echo(f"[{waiting.actor} {waiting.rank}] {each.state}")
        for line in each.output.splitlines():
            click.echo(f"    {line}")
