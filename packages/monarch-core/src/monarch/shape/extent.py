"""Named sizes, in order: the outline of a mesh without its ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from operator import index
from typing import TYPE_CHECKING

from monarch.errors import ShapeError, UnknownLabel
from monarch.shape._labels import checked_labels, no_dimension
from monarch.shape.ndslice import NDSlice
from monarch.shape.point import Point

if TYPE_CHECKING:
    from monarch.shape.shape import Region


class Extent(Mapping[str, int]):
    """Dimensions and their sizes, outermost first, as a mapping ``label -> size``.

    Equal only to an extent with the same labels and sizes in the same order: the order decides
    which rank is where. ShapeError if labels repeat, a size is negative, or the numbers of
    labels and sizes differ.
    """

    __slots__ = ("_nelements", "_sizes")

    def __init__(self, labels: Iterable[str], sizes: Iterable[int]) -> None:
        sizes = tuple(map(index, sizes))
        self._sizes = dict(zip(checked_labels(labels, len(sizes)), sizes, strict=True))
        if any(size < 0 for size in sizes):
            raise ShapeError(f"the extent {self} has a negative size; sizes start at 0")
        self._nelements = math.prod(sizes)

    @property
    def labels(self) -> list[str]:
        """The names of the dimensions, outermost first."""
        return list(self._sizes)

    @property
    def sizes(self) -> list[int]:
        """The sizes of the dimensions, in the order of `labels`."""
        return list(self._sizes.values())

    @property
    def nelements(self) -> int:
        """The number of points: the product of the sizes, 1 if there is no dimension."""
        return self._nelements

    @property
    def region(self) -> Region:
        """The region of ranks ``0 .. nelements - 1`` in row-major order."""
        from monarch.shape.shape import Region  # an extent and a region each make the other

        return Region(self._sizes, NDSlice.new_row_major(self._sizes.values()))

    def point_of_rank(self, rank: int) -> Point:
        """The point at `rank`, counted in row-major order; OutOfRange outside ``0 .. nelements - 1``."""
        return Point(rank, self)

    def points(self) -> Iterator[Point]:
        """Every point, by rising rank."""
        return (Point(rank, self) for rank in range(self._nelements))

    def __getitem__(self, label: str) -> int:
        try:
            return self._sizes[label]
        except KeyError:
            raise UnknownLabel(no_dimension(label, self.labels)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Extent):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[tuple[str, int], ...]:
        return tuple(self._sizes.items())

    def __reduce__(self) -> tuple[type[Extent], tuple[list[str], list[int]]]:
        return Extent, (self.labels, self.sizes)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{label}: {size}" for label, size in self._sizes.items()) + "}"
