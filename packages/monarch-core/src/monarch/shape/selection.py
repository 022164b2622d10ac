"""A little language that selects members of a mesh, dimension by dimension.

    selection = meet ("|" meet)*        either
    meet      = product ("&" product)*  both
    product   = term ("," term)*        one term for each dimension, outermost first
    term      = "*"                     every index
              | "?"                     one index, drawn at random
              | 3 | 0:4 | ::2           an index or a range, as for a list but not negative
              | "(" selection ")"

Dimensions that a product does not reach are selected whole.
"""

from __future__ import annotations

from collections.abc import Callable

from monarch.shape._selecting import Positions, anything, everything, parsed
from monarch.shape.ndslice import NDSlice
from monarch.shape.shape import Shape


class Selection:
    """Some members of any mesh that has enough dimensions. Made by `from_string`, `all` and `any`."""

    __slots__ = ("_positions", "_text")

    def __init__(self, text: str, positions: Positions) -> None:
        self._text = text
        self._positions = positions

    @staticmethod
    def all() -> Selection:
        """Every member."""
        return Selection("all", everything)

    @staticmethod
    def any() -> Selection:
        """One member, drawn at random each time that `ranks` is called."""
        return Selection("any", anything)

    @staticmethod
    def from_string(text: str) -> Selection:
        """The selection that `text` describes, e.g. ``"(*, 0:4)"``, or ``"all"`` or ``"any"``.

        ShapeError (a ValueError) with the column of the first thing that it cannot read.
        """
        named = {"all": Selection.all, "any": Selection.any}.get(text.strip())
        return named() if named else Selection(text, parsed(text))

    def ranks(self, over: Shape | NDSlice) -> list[int]:
        """The ranks selected of `over`, each once, in its row-major order; there may be none.

        ShapeError (a ValueError) if the selection names more dimensions than there are,
        OutOfRange (an IndexError) if it names a single index that is not there.
        """
        ndslice = over.ndslice if isinstance(over, Shape) else over
        return [ndslice.get(position) for position in sorted(self._positions(tuple(ndslice.sizes)))]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        return self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Callable[[str], Selection], tuple[str]]:
        return Selection.from_string, (self._text,)

    def __repr__(self) -> str:
        return f"Selection({self._text!r})"
