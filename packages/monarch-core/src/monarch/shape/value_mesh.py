"""A mesh of plain values: what a call to every actor of a mesh returns."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from monarch.errors import OutOfRange, ShapeError, UnknownLabel
from monarch.shape._labels import listed, no_dimension
from monarch.shape.mesh_trait import ShapedMesh
from monarch.shape.point import Point
from monarch.shape.shape import Shape

T = TypeVar("T")

_SHOWN = 8  # values in a repr, and ranks in a message


class ValueMesh(ShapedMesh, Generic[T]):
    """One value for each rank of `shape`, in row-major order.

    Iterating yields ``(Point, value)``. The values are one list: equal values are not shared or
    compressed. ShapeError (a ValueError) unless there are as many values as ranks.
    """

    def __init__(self, shape: Shape, values: Iterable[T]) -> None:
        if not isinstance(shape, Shape):
            raise TypeError(f"ValueMesh takes a Shape, not {shape!r}; use extent.region.as_shape()")
        self._shape = shape
        self._values = list(values)
        if len(self._values) != len(shape):
            raise ShapeError(f"{len(self._values)} values for {len(shape)} ranks; give one for each")

    @classmethod
    def from_indexed(cls, shape: Shape, pairs: Iterable[tuple[int, T]]) -> ValueMesh[T]:
        """The mesh of ``(rank, value)`` pairs in any order, ranks counted from 0 within `shape`.

        The last value of a rank wins. OutOfRange for a rank outside the shape, ShapeError (both
        are ValueErrors) if a rank has no value.
        """
        values = dict(pairs)
        if outside := [rank for rank in values if not 0 <= rank < len(shape)]:
            raise OutOfRange(f"no rank {_some(outside)} in a mesh of {len(shape)}; use 0 to {len(shape) - 1}")
        if missing := [rank for rank in range(len(shape)) if rank not in values]:
            raise ShapeError(
                f"no value for rank {_some(missing)} of {len(shape)}; give at least one for each rank"
            )
        return cls(shape, [values[rank] for rank in range(len(shape))])

    def _new_with_shape(self, shape: Shape) -> ValueMesh[T]:
        position = self._ndslice.index
        return ValueMesh(shape, [self._values[position(rank)] for rank in shape.ndslice])

    def item(self, **coords: int) -> T:
        """The value at these coordinates, one for each dimension.

        UnknownLabel (a KeyError) if one is missing or too many, OutOfRange (an IndexError) if
        one is outside its dimension.
        """
        labels = self._labels
        if extra := [label for label in coords if label not in labels]:
            raise UnknownLabel(f"{no_dimension(extra[0], labels)}; leave {extra[0]!r} out")
        if missing := [label for label in labels if label not in coords]:
            raise UnknownLabel(f"item() has no coordinate for {listed(missing)}; add it, or use slice()")
        return self._values[self._ndslice.index(self._shape.index(**coords).ndslice.offset)]

    def items(self) -> Iterator[tuple[Point, T]]:
        """Each point of `extent` with its value, by rising rank."""
        extent = self.extent
        return ((Point(rank, extent), value) for rank, value in enumerate(self._values))

    def values(self) -> list[T]:
        """Every value, by rising rank."""
        return list(self._values)

    def get(self, rank: int) -> T:
        """The value at `rank`, counted from 0 in row-major order; OutOfRange if there is none."""
        if not 0 <= rank < len(self):
            raise OutOfRange(f"rank {rank} is outside a mesh of {len(self)}; use 0 to {len(self) - 1}")
        return self._values[rank]

    def __iter__(self) -> Iterator[tuple[Point, T]]:
        return self.items()

    def __repr__(self) -> str:
        shown = [f"({point}, {reprlib.repr(value)})" for point, value in self if point.rank < _SHOWN]
        if len(self) > _SHOWN:
            shown.append(f"... and {len(self) - _SHOWN} more")
        return f"ValueMesh({self.extent}):\n  (" + ",\n   ".join(shown) + ")"


def _some(ranks: list[int]) -> str:
    more = f" and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else ""
    return ", ".join(map(str, sorted(ranks)[:_SHOWN])) + more
