"""Labelled slices of ranks: `Shape`, which is cut further, and `Region`, which locates ranks."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Self

from monarch.errors import OutOfRange, ShapeError, UnknownDimension
from monarch.shape._labels import checked_labels, no_dimension
from monarch.shape.extent import Extent
from monarch.shape.ndslice import NDSlice
from monarch.shape.point import Point


class _LabelledSlice:
    """One distinct label for each dimension of an NDSlice; immutable and hashable."""

    __slots__ = ("_labels", "_ndslice")

    def __init__(self, labels: Iterable[str], slice: NDSlice) -> None:
        self._labels = checked_labels(labels, slice.ndim)
        self._ndslice = slice

    @property
    def labels(self) -> list[str]:
        """The names of the dimensions, outermost first."""
        return list(self._labels)

    def _key(self) -> tuple[tuple[str, ...], NDSlice]:
        return self._labels, self._ndslice

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[str, ...], NDSlice]]:
        return type(self), self._key()

    def __repr__(self) -> str:
        labels = ", ".join(f'"{label}"' for label in self._labels)
        return f"{type(self).__name__} {{ labels: [{labels}], slice: {self._ndslice} }}"


class Shape(_LabelledSlice):
    """Ranks arranged in named dimensions. ShapeError if labels repeat or do not match the slice."""

    __slots__ = ()

    @staticmethod
    def unity() -> Shape:
        """The shape with no dimension and the single rank 0."""
        return Shape((), NDSlice(offset=0, sizes=(), strides=()))

    @property
    def ndslice(self) -> NDSlice:
        """The ranks without their labels."""
        return self._ndslice

    @property
    def extent(self) -> Extent:
        """The labels and sizes, without the ranks."""
        return Extent(self._labels, self._ndslice.sizes)

    @property
    def region(self) -> Region:
        """The same ranks and labels, as a region."""
        return Region(self._labels, self._ndslice)

    def ranks(self) -> list[int]:
        """Every rank, in row-major order."""
        return list(self._ndslice)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where `rank` stands, as ``label -> index``; OutOfRange (a ValueError) if it is not here."""
        return dict(zip(self._labels, self._ndslice.coordinates(rank), strict=True))

    def at(self, label: str, index: int) -> Shape:
        """The part at one `index` of a dimension, without that dimension.

        UnknownDimension (a TypeError) if it is not there; OutOfRange (an IndexError) outside
        ``0 .. size - 1``: a negative index does not count from the end.
        """
        dim = self._dim(label)
        size = self._ndslice.sizes[dim]
        try:
            place = operator.index(index)
        except TypeError:
            raise TypeError(f"dimension {label!r} takes an int or a slice, not {index!r}") from None
        if not 0 <= place < size:
            raise OutOfRange(
                f"index {place} is outside dimension {label!r} of size {size}; use 0 to {size - 1}"
            )
        return self._with(dim, first=place, kept=())

    def select(self, label: str, slice: slice) -> Shape:
        """The part in a `slice` of a dimension, which stays, perhaps smaller.

        Bounds mean what they mean for a list: negative ones count from the end and those beyond
        the size stop there. UnknownDimension if the dimension is not there, ShapeError if the
        step is not positive or nothing is left.
        """
        dim = self._dim(label)
        size = self._ndslice.sizes[dim]
        if slice.step is not None and operator.index(slice.step) < 1:
            raise ShapeError(f"{slice} of dimension {label!r} has a step below 1; ranks keep their order")
        chosen = range(size)[slice]
        if not chosen:
            raise ShapeError(
                f"{slice} is an empty range of dimension {label!r} of size {size}; select at least one index"
            )
        return self._with(dim, first=chosen.start, kept=((label, len(chosen), chosen.step),))

    def index(self, **coords: int) -> Shape:
        """`at` for several dimensions: ``index(host=0, gpu=3)`` is left without host and gpu."""
        shape = self
        for label, place in coords.items():
            shape = shape.at(label, place)
        return shape

    def _dim(self, label: str) -> int:
        if label not in self._labels:
            raise UnknownDimension(no_dimension(label, self._labels))
        return self._labels.index(label)

    def _with(self, dim: int, first: int, kept: tuple[tuple[str, int, int], ...]) -> Shape:
        """This shape from index `first` of `dim` on, which becomes the `kept` (label, size, step)."""
        labels, sizes, strides = list(self._labels), self._ndslice.sizes, self._ndslice.strides
        stride = strides[dim]
        labels[dim : dim + 1] = [label for label, _, _ in kept]
        sizes[dim : dim + 1] = [size for _, size, _ in kept]
        strides[dim : dim + 1] = [stride * step for _, _, step in kept]
        offset = self._ndslice.offset + first * stride
        return Shape(labels, NDSlice(offset=offset, sizes=sizes, strides=strides))

    def __len__(self) -> int:
        return len(self._ndslice)

    def __str__(self) -> str:
        pairs = zip(self._labels, self._ndslice.sizes, strict=True)
        return "{" + ",".join(f"{label}={size}" for label, size in pairs) + "}"


class Region(_LabelledSlice):
    """The ranks of a mesh within the bigger space that they were cut from, whose ranks are its base ranks."""

    __slots__ = ()

    def slice(self) -> NDSlice:
        """The base ranks, without their labels."""
        return self._ndslice

    def as_shape(self) -> Shape:
        """The same ranks and labels, as a shape."""
        return Shape(self._labels, self._ndslice)

    def point_of_base_rank(self, rank: int) -> Point:
        """The point of this region at base rank `rank`; OutOfRange (a ValueError) if there is none."""
        return Point(self._ndslice.index(rank), Extent(self._labels, self._ndslice.sizes))
