"""Relays between a terminal, or a pipe, and a session at a breakpoint."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator

import click

from monarch._debug.link import END, LINE, OUT, PROMPT, Link
from monarch.cli.sessions import Session, connect, lost


def attach(session: Session) -> None:
    """Be the terminal of a session until it ends, or until the end of the input.

    Raises:
        SessionTaken: if another terminal is attached.
        NoSuchSession: if it ended before.
        SessionLost: if its process ends meanwhile.
    """
    waiting = session.waiting
    link = connect(session)
    try:
        ended = _relay(session, link)
    except KeyboardInterrupt:  # not at a prompt, where it cancels the line
        ended = "detached while it runs; it waits where it stops next"
    finally:
        link.leave()
    click.echo(f"session {waiting.id} of {waiting.actor!r} rank {waiting.rank}: {ended}", err=True)


def _relay(session: Session, link: Link) -> str:
    """Relay until the end; returns what became of the session."""
    while True:
        message = link.receive()
        if message is None:
            raise lost(session)
        kind, text = message
        if kind == OUT:
            click.echo(text, nl=False)
        elif kind == END:
            return text
        elif kind == PROMPT and not _answer(link, text):
            return "detached; it waits at the same place"


def _answer(link: Link, prompt: str) -> bool:
    """Send the next line of the user; False at the end of the input."""
    line = _typed(link, prompt) if sys.stdin.isatty() else sys.stdin.readline()
    if not line:
        return False
    with contextlib.suppress(ConnectionError):  # that it is gone is what is read next
        link.send(LINE, line.rstrip("\n"))
    return True


def _typed(link: Link, prompt: str) -> str:
    """Return a line that was edited at the terminal; empty at the end of the input."""
    with contextlib.suppress(ImportError):  # some builds of Python lack it, and lines are not edited then
        import readline  # noqa: F401

    while True:
        try:
            with _interrupted_by(link):
                return input(prompt) + "\n"
        except EOFError:
            click.echo()
            return ""
        except KeyboardInterrupt:  # it cancels the line, and nothing in the actor
            click.echo()
            if select.select([link], [], [], 0)[0]:
                return "\n"


@contextlib.contextmanager
def _interrupted_by(link: Link) -> Iterator[None]:
    """Interrupt the wait for a line as Ctrl-C would, when something comes from the session: its end."""
    line_is_read, reading_ends = os.pipe()

    def watch() -> None:
        ready, _, _ = select.select([link.fileno(), line_is_read], [], [])
        if line_is_read not in ready:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.close(reading_ends)
        watcher.join()
        os.close(line_is_read)
