"""One place in an extent. Every message carries one, so making it computes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from monarch.errors import OutOfRange, UnknownLabel
from monarch.shape._labels import no_dimension

if TYPE_CHECKING:
    from monarch.shape.extent import Extent


class Point(Mapping[str, int]):
    """The point at `rank` (row-major, from 0) of `extent`, as a mapping ``label -> index``.

    OutOfRange if the extent has no such rank. Equal to a point of the same rank and extent.
    """

    __slots__ = ("_coordinates", "_extent", "_rank")

    def __init__(self, rank: int, extent: Extent) -> None:
        if not 0 <= rank < extent.nelements:
            raise OutOfRange(f"rank {rank} is outside the extent {extent} of {extent.nelements} points")
        self._rank = rank
        self._extent = extent
        self._coordinates: dict[str, int] | None = None  # until someone looks

    @property
    def rank(self) -> int:
        """The position in row-major order, from 0."""
        return self._rank

    @property
    def extent(self) -> Extent:
        """The extent that this is a point of."""
        return self._extent

    def size(self, label: str | None = None) -> int:
        """The size of the dimension `label`, or the number of points of the extent without one."""
        return self._extent.nelements if label is None else self._extent[label]

    def __getitem__(self, label: str) -> int:
        try:
            return self._indices()[label]
        except KeyError:
            raise UnknownLabel(no_dimension(label, self._extent.labels)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._extent)

    def __len__(self) -> int:
        return len(self._extent)

    def _indices(self) -> dict[str, int]:
        if self._coordinates is None:
            rest, indices = self._rank, []
            for size in reversed(self._extent.sizes):
                rest, position = divmod(rest, size)
                indices.append(position)
            self._coordinates = dict(zip(self._extent, reversed(indices), strict=True))
        return self._coordinates

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Point):
            return NotImplemented
        return self._rank == other._rank and self._extent == other._extent

    def __hash__(self) -> int:
        return hash((self._rank, self._extent))

    def __reduce__(self) -> tuple[type[Point], tuple[int, Extent]]:
        return Point, (self._rank, self._extent)

    def __repr__(self) -> str:
        places = (f"{label!r}: {position}/{self._extent[label]}" for label, position in self.items())
        return "{" + ", ".join(places) + "}"
