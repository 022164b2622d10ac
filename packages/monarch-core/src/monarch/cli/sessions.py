"""The breakpoints that wait on this host: which there are, and how to talk to them."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import click

from monarch._debug.link import END, LINE, OUT, PROMPT, Link, is_same_user
from monarch._debug.waiting import FOLDER, WAITING, Waiting, read_all, socket_of
from monarch._runtime.folders import living
from monarch.errors import DebugError, NoSuchSession, SessionLost, SessionTaken

_ANSWER_SECONDS = 10.0  # for one command that was sent to many


class Session(NamedTuple):
    """A session, and the client that its actor belongs to."""

    client: int
    folder: Path
    waiting: Waiting

    def document(self) -> dict[str, Any]:
        """Return all there is to say about it."""
        return {"client": self.client, **asdict(self.waiting)}


class Answer(NamedTuple):
    """What one session had to say to a command that was sent to many.

    `state` is "waiting" if it stands at a prompt again, "running" if it did not come to one in time,
    "lost" if its process ended, "taken" if another terminal is attached, so that it was not asked, or
    else how the session ended.
    """

    session: Session
    state: str
    output: str

    def document(self) -> dict[str, Any]:
        """Return what a program wants to know of it."""
        waiting = self.session.waiting
        who = {"id": waiting.id, "actor": waiting.actor, "rank": waiting.rank}
        return {**who, "state": self.state, "output": self.output}


def find(client: int | None) -> list[Session]:
    """Return the sessions of one client, or of all, ordered by actor and rank."""
    found = [
        Session(pid, folder / FOLDER, waiting)
        for pid, folder in living()
        if client in (None, pid)
        for waiting in read_all(folder / FOLDER)
    ]
    return sorted(found, key=lambda each: (each.client, each.waiting.actor, each.waiting.rank))


def choose(sessions: Sequence[Session], words: Sequence[str]) -> Session:
    """Return the session that is meant by an id, by actor and rank, or by nothing if there is only one.

    Raises:
        NoSuchSession: if there is none.
        DebugError: if there are several.
    """
    chosen = [each for each in sessions if _is_meant(each.waiting, words)]
    what = " ".join(words) or "any"
    if not chosen:
        known = ", ".join(each.waiting.id for each in sessions) or "none"
        raise NoSuchSession(f"no breakpoint waits as {what!r}; there are: {known}")
    if len(chosen) > 1:
        ids = ", ".join(each.waiting.id for each in chosen)
        raise DebugError(f"{len(chosen)} breakpoints wait as {what!r}; attach to one of {ids}")
    return chosen[0]


def _is_meant(waiting: Waiting, words: Sequence[str]) -> bool:
    match words:
        case []:
            return True
        case [word]:
            return word in (waiting.id, waiting.actor)
        case [actor, rank]:
            return waiting.actor == actor and ranks(rank)(waiting)
        case _:
            raise click.UsageError("attach takes the id of a session, or an actor and a rank")


def ranks(text: str) -> Callable[[Waiting], bool]:
    """Read ranks such as `3`, `0,4:8`, `gpus=0:2`, `all`, or each of them as `ranks(...)`."""
    wrapped = re.fullmatch(r"ranks\((.*)\)", text)
    inner = wrapped[1] if wrapped else text
    if inner == "all":
        return lambda waiting: True
    numbers: list[range] = []
    labels: list[tuple[str, range]] = []
    try:
        for part in inner.split(","):
            label, is_label, value = part.strip().rpartition("=")
            if is_label:
                labels.append((label, _range(value)))
            else:
                numbers.append(_range(value))
    except ValueError:
        raise click.UsageError(f"ranks are written as 3, 0,4:8, gpus=0:2 or all, not as {text!r}") from None

    def matches(waiting: Waiting) -> bool:
        of_number = not numbers or any(waiting.rank in each for each in numbers)
        return of_number and all(waiting.coordinates.get(label, -1) in each for label, each in labels)

    return matches


def _range(text: str) -> range:
    first, is_slice, rest = text.partition(":")
    if not is_slice:
        return range(int(first), int(first) + 1)
    last, _, step = rest.partition(":")
    return range(int(first or 0), int(last or 1 << 31), int(step or 1))


def connect(session: Session) -> Link:
    """Attach to a session.

    Raises:
        SessionTaken: if somebody else is.
        NoSuchSession: if it ended meanwhile.
    """
    waiting = session.waiting
    if waiting.state != WAITING:
        raise SessionTaken(f"another terminal is attached to session {waiting.id}; detach there first")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(str(socket_of(session.folder, waiting)))
        if not is_same_user(sock):
            raise ConnectionRefusedError("it belongs to another user")
    except OSError as error:
        sock.close()
        raise NoSuchSession(f"session {waiting.id} cannot be reached: {error}") from error
    return Link(sock)


def lost(session: Session) -> SessionLost:
    """Return the error for a session whose process is gone."""
    waiting = session.waiting
    return SessionLost(
        f"session {waiting.id} is lost: the process of {waiting.actor!r} rank {waiting.rank} "
        f"(pid {waiting.pid} on {waiting.host}) has ended"
    )


def cast(sessions: Sequence[Session], command: str) -> list[Answer]:
    """Send one command to several sessions, to all before any is waited for, and return their answers."""
    links: list[tuple[Session, Link | str]] = [(each, _prompted(each)) for each in sessions]
    for _, link in links:
        if isinstance(link, Link):
            link.send(LINE, command)
    return [
        Answer(session, link, "") if isinstance(link, str) else _answer(session, link)
        for session, link in links
    ]


def _prompted(session: Session) -> Link | str:
    """Attach and read up to the prompt; returns what is the matter if that is not possible."""
    try:
        link = connect(session)
    except SessionTaken:
        return "taken"
    except NoSuchSession:
        return "lost"
    state, _ = _until_prompt(link)
    if state == WAITING:
        return link
    link.leave()
    return state


def _answer(session: Session, link: Link) -> Answer:
    try:
        return Answer(session, *_until_prompt(link))
    finally:
        link.leave()


def _until_prompt(link: Link) -> tuple[str, str]:
    """Read up to the next prompt; returns where that ended, and the output up to there."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    output = ""
    while True:
        try:
            message = link.receive(max(deadline - time.monotonic(), 0.001))
        except TimeoutError:
            return "running", output
        match message:
            case (kind, text) if kind == OUT:
                output += text
            case (kind, _) if kind == PROMPT:
                return WAITING, output
            case (kind, text) if kind == END:
                return text, output
            case _:
                return "lost", output
