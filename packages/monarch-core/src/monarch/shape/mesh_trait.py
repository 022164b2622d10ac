"""What every mesh of hosts, processes, actors or values can do with its dimensions."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self, TypeAlias

from monarch.errors import ShapeError, UnknownDimension
from monarch.shape._labels import listed, no_dimension
from monarch.shape.extent import Extent
from monarch.shape.ndslice import NDSlice
from monarch.shape.shape import Region, Shape

_Selector: TypeAlias = int | slice  # in the class below, `slice` is the method


class MeshTrait(ABC):
    """Cutting, renaming and measuring a mesh, for classes that supply three hooks.

    Each method returns a new mesh over some of the same members, in the same order; no member
    is started, stopped or asked anything.
    """

    @property
    @abstractmethod
    def _ndslice(self) -> NDSlice:
        """The ranks of this mesh."""

    @property
    @abstractmethod
    def _labels(self) -> tuple[str, ...]:
        """A name for each dimension of `_ndslice`."""

    @abstractmethod
    def _new_with_shape(self, shape: Shape) -> Self:
        """The mesh of the members at the ranks of `shape`, which are some of `_ndslice`."""

    def slice(self, **selectors: _Selector) -> Self:
        """The part at an index or a range of each named dimension: ``slice(host=0, gpu=slice(2, 6))``.

        An int drops its dimension, a slice keeps it. The bounds of a slice mean what they mean
        for a list; an int must be ``0 .. size - 1``.

        UnknownDimension (a TypeError), OutOfRange (an IndexError), or ShapeError (a ValueError)
        if a range is empty or its step is not positive.
        """
        shape = Shape(self._labels, self._ndslice)
        for dim, selector in selectors.items():
            shape = shape.select(dim, selector) if isinstance(selector, slice) else shape.at(dim, selector)
        return self._new_with_shape(shape)

    def split(self, **kwargs: Sequence[str] | int) -> Self:
        """Factor dimensions: ``split(host=("dp", "pp"), pp=2)`` arranges host as dp by pp, with pp of 2.

        Of the names that a dimension is split into, one may go without a size. Dimensions not
        mentioned stay. ShapeError (a ValueError) if the sizes do not fit, a size is given for no
        new dimension, or two dimensions would share a name.
        """
        parts, given = _split_arguments(self._labels, kwargs)
        labels: list[str] = []
        sizes: list[int] = []
        strides: list[int] = []
        for dim, size, stride in zip(self._labels, self._ndslice.sizes, self._ndslice.strides, strict=True):
            names = parts.get(dim, (dim,))
            factors = _factors(dim, size, names, given)
            labels += names
            sizes += factors
            strides += [stride * inner for inner in NDSlice.new_row_major(factors).strides]
        if unused := [name for name in given if name not in labels]:
            raise ShapeError(
                f"sizes given for {listed(unused)}, but no dimension is split into that; "
                f"the new dimensions are {listed(labels)}"
            )
        return self._new_with_shape(
            Shape(labels, NDSlice(offset=self._ndslice.offset, sizes=sizes, strides=strides))
        )

    def flatten(self, name: str) -> Self:
        """All members in one dimension called `name`.

        ShapeError (a ValueError) if the ranks do not follow each other without gaps.
        """
        ndslice, size = self._ndslice, len(self._ndslice)
        dense = NDSlice.new_row_major(ndslice.sizes).strides
        axes = zip(ndslice.sizes, ndslice.strides, dense, strict=True)
        if any(size > 1 and stride != wanted for size, stride, wanted in axes):
            raise ShapeError(
                f"cannot flatten sparse mesh: sizes {ndslice.sizes} have strides {ndslice.strides}, "
                f"and without gaps they would be {dense}; flatten before you slice"
            )
        return self._new_with_shape(Shape([name], NDSlice(offset=ndslice.offset, sizes=[size], strides=[1])))

    def rename(self, **names: str) -> Self:
        """New names for some dimensions: ``rename(host="dp", gpu="tp")``.

        UnknownDimension (a ValueError) for a dimension that is not there, ShapeError (a
        ValueError) if two would share a name.
        """
        if missing := [dim for dim in names if dim not in self._labels]:
            raise UnknownDimension(no_dimension(missing[0], self._labels))
        return self._new_with_shape(Shape([names.get(dim, dim) for dim in self._labels], self._ndslice))

    def size(self, dim: str | Sequence[str] | None = None) -> int:
        """The size of a dimension, the product of the sizes of several, or without one of all.

        UnknownLabel (a KeyError) for a dimension that is not there.
        """
        if dim is None:
            return len(self)
        if isinstance(dim, str):
            return self.extent[dim]
        return math.prod(self.extent[label] for label in dim)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the dimensions by label, outermost first."""
        return dict(self.extent)

    @property
    def extent(self) -> Extent:
        """The labels and sizes of the dimensions."""
        return Extent(self._labels, self._ndslice.sizes)

    @property
    def region(self) -> Region:
        """The ranks of this mesh within the mesh that it was cut from."""
        return Region(self._labels, self._ndslice)

    def __len__(self) -> int:
        return len(self._ndslice)


class ShapedMesh(MeshTrait):
    """A mesh that keeps its `Shape`."""

    _shape: Shape

    @property
    def _ndslice(self) -> NDSlice:
        return self._shape.ndslice

    @property
    def _labels(self) -> tuple[str, ...]:
        return tuple(self._shape.labels)


def _split_arguments(
    labels: Sequence[str], arguments: Mapping[str, Sequence[str] | int]
) -> tuple[dict[str, Sequence[str]], dict[str, int]]:
    """What each dimension is split into, and the sizes given for new dimensions."""
    parts: dict[str, Sequence[str]] = {}
    given: dict[str, int] = {}
    for name, value in arguments.items():
        if name in labels:
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise ShapeError(f"{name}={value!r}: give a tuple of the names to split {name!r} into")
            parts[name] = value
        elif isinstance(value, Sequence):
            raise UnknownDimension(f"{no_dimension(name, labels)}, so it cannot be split into {value!r}")
        else:
            given[name] = operator.index(value)
            if given[name] < 1:
                raise ShapeError(f"{name}={value}: the size of a new dimension is at least 1")
    return parts, given


def _factors(dim: str, size: int, names: Sequence[str], given: Mapping[str, int]) -> list[int]:
    """The size of each of `names`, of which one at most is not `given`; their product is `size`."""
    unknown = [name for name in names if name not in given]
    shown = ", ".join(f"{name}={given.get(name, '?')}" for name in names)
    what = f"cannot split dimension {dim!r} of size {size} into ({shown})"
    if len(unknown) > 1:
        raise ShapeError(f"{what}: give sizes for all but one of {listed(unknown)}, e.g. {unknown[-1]}=2")
    product = math.prod(given[name] for name in names if name in given)
    inferred, rest = divmod(size, product)
    if rest and unknown:
        raise ShapeError(f"{what}: {size} is not a multiple of {product}; choose sizes that divide it")
    if not unknown and product != size:
        raise ShapeError(f"{what}: the product is {product}; choose sizes whose product is {size}")
    return [given.get(name, inferred) for name in names]
