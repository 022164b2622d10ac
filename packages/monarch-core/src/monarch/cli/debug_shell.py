"""What `monarch debug` is at a terminal: it asks for commands, and attaches without leaving."""

from __future__ import annotations

import cmd

import click

from monarch.cli.attach import attach
from monarch.cli.debug import of_actor, show_answers, show_list
from monarch.cli.sessions import cast, choose, find
from monarch.errors import DebugError


class Shell(cmd.Cmd):
    """Commands about the sessions of one client, or of all."""

    prompt = "monarch debug> "
    doc_header = "Commands (help <command> says more):"

    def __init__(self, client: int | None) -> None:
        super().__init__()
        self._client = client

    def run(self) -> None:
        """Show the list, then do commands up to `quit`; Ctrl-C cancels a line."""
        self.do_list("")
        while True:
            try:
                return self.cmdloop()
            except KeyboardInterrupt:
                click.echo()

    def onecmd(self, line: str) -> bool:
        """Do one command; an error of it ends nothing."""
        try:
            return super().onecmd(line)
        except DebugError as error:
            click.echo(f"monarch: {error}", err=True)
        except click.ClickException as error:
            error.show()
        return False

    def emptyline(self) -> bool:
        """An empty line lists anew; it must not repeat a `cast`."""
        self.do_list("")
        return False

    def do_list(self, arg: str) -> None:
        """list: show the breakpoints where actors wait."""
        show_list(find(self._client), as_json=False)

    def do_attach(self, arg: str) -> None:
        """attach ID, attach ACTOR RANK: debug there. Ctrl-D or `detach` comes back and leaves it waiting."""
        attach(choose(find(self._client), arg.split()))

    def do_cast(self, arg: str) -> None:
        """cast ACTOR RANKS PDB-COMMAND: send one command to several. RANKS is 3, 0,4:8, gpus=0:2 or all."""
        words = arg.split(maxsplit=2)
        if len(words) < 3:
            raise click.UsageError("cast takes an actor, ranks and a command of pdb")
        actor, ranks, command = words
        show_answers(cast(of_actor(find(self._client), actor, ranks), command), as_json=False)

    def do_continue(self, arg: str) -> None:
        """continue: let all continue, and forget the breakpoints set by hand."""
        show_answers(cast(find(self._client), "quit"), as_json=False)

    def do_quit(self, arg: str) -> bool:
        """quit: leave. What waits goes on waiting."""
        return True

    def do_EOF(self, arg: str) -> bool:
        """Ctrl-D: leave. What waits goes on waiting."""
        click.echo()
        return True
