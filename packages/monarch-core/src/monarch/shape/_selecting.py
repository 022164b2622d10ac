"""Reads the language of `selection`: each term of the text becomes a function that selects."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from monarch.errors import OutOfRange, ShapeError

# From the sizes of some dimensions to the row-major positions selected among them.
Positions: TypeAlias = Callable[[tuple[int, ...]], set[int]]
# A term waits for what selects among the dimensions inside its own.
_Term: TypeAlias = Callable[[Positions], Positions]

_TOKEN = re.compile(r"\d*:\d*(?::\d*)?|\d+|[*?(),|&]")
_EXPECTED = "an index, a range such as 0:4, '*', '?' or '('"


def parsed(text: str) -> Positions:
    """What `text` selects; ShapeError with the column of the first thing that cannot be read."""
    return _Parser(text).parse()


class _Parser:
    """Recursive descent over the grammar in `selection`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._token = ""
        self._advance(0)

    def parse(self) -> Positions:
        term = self._union()
        if self._token:
            self._fail("the end, ',', '&' or '|'")
        return term(everything)

    def _union(self) -> _Term:
        term = self._meet()
        while self._take("|"):
            term = _combined(set.union, term, self._meet())
        return term

    def _meet(self) -> _Term:
        term = self._product()
        while self._take("&"):
            term = _combined(set.intersection, term, self._product())
        return term

    def _product(self) -> _Term:
        term = self._one()
        return _nested(term, self._product()) if self._take(",") else term

    def _one(self) -> _Term:
        if self._take("("):
            term = self._union()
            if not self._take(")"):
                self._fail("')', ',', '&' or '|'")
            return term
        if self._take("*"):
            return _along(range)
        if self._take("?"):
            return _along(_drawn)
        return self._index() if self._token.isdecimal() else self._range()

    def _index(self) -> _Term:
        index = int(self._token)
        self._advance(len(self._token))
        return _along(lambda size: [_inside(index, size)])

    def _range(self) -> _Term:
        if ":" not in self._token:
            self._fail(_EXPECTED)
        start, stop, step = ([int(n) if n else None for n in self._token.split(":")] + [None])[:3]
        if step == 0:
            self._fail("a step of at least 1")
        self._advance(len(self._token))
        return _along(lambda size: range(size)[start:stop:step])

    def _take(self, token: str) -> bool:
        taken = self._token == token
        if taken:
            self._advance(len(token))
        return taken

    def _advance(self, past: int) -> None:
        """Move on to the next token; it is empty at the end and where nothing can be read."""
        rest = self._text[self._at + past :]
        self._at = len(self._text) - len(rest.lstrip())
        found = _TOKEN.match(self._text, self._at)
        self._token = found.group() if found else ""
        if not found and self._at < len(self._text):
            self._fail(_EXPECTED)

    def _fail(self, expected: str) -> NoReturn:
        found = repr(self._token or self._text[self._at]) if self._at < len(self._text) else "the end"
        raise ShapeError(
            f"cannot read the selection {self._text!r} at column {self._at + 1}: "
            f"expected {expected}, found {found}"
        )


def everything(sizes: tuple[int, ...]) -> set[int]:
    """Every position."""
    return set(range(math.prod(sizes)))


def anything(sizes: tuple[int, ...]) -> set[int]:
    """One position, drawn at random; none if there is none."""
    return set(_drawn(math.prod(sizes)))


def _drawn(size: int) -> list[int]:
    return random.sample(range(size), min(size, 1))


def _inside(index: int, size: int) -> int:
    if index >= size:
        raise OutOfRange(
            f"the selection has index {index} for a dimension of size {size}; use 0 to {size - 1}"
        )
    return index


def _along(indices: Callable[[int], range | list[int]]) -> _Term:
    """One dimension, of whose size `indices` chooses some; each chooses inside anew."""

    def term(inner: Positions) -> Positions:
        def positions(sizes: tuple[int, ...]) -> set[int]:
            if not sizes:
                raise ShapeError("the selection names more dimensions than the mesh has; leave some out")
            size, *inside = sizes
            stride = math.prod(inside)
            return {i * stride + p for i in indices(size) for p in inner(tuple(inside))}

        return positions

    return term


def _nested(outer: _Term, inner: _Term) -> _Term:
    return lambda innermost: outer(inner(innermost))


def _combined(combine: Callable[[set[int], set[int]], set[int]], left: _Term, right: _Term) -> _Term:
    def term(inner: Positions) -> Positions:
        one, other = left(inner), right(inner)
        return lambda sizes: combine(one(sizes), other(sizes))

    return term
