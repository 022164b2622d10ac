"""A strided, n-dimensional view of flat ranks."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from monarch.errors import OutOfRange, ShapeError


class NDSlice:
    """The ranks ``offset + i0 * strides[0] + i1 * strides[1] + ...`` for each ``0 <= ik < sizes[k]``.

    Ordered row-major: the last dimension moves fastest, whatever its stride. With no dimension it
    holds just `offset`. Immutable and hashable. ShapeError if a number is too small, the numbers
    of sizes and strides differ, or a rank would occur twice.
    """

    __slots__ = ("_by_stride", "_offset", "_sizes", "_strides")

    def __init__(self, *, offset: int, sizes: Iterable[int], strides: Iterable[int]) -> None:
        self._offset = operator.index(offset)
        self._sizes = tuple(map(operator.index, sizes))
        self._strides = tuple(map(operator.index, strides))
        self._check()
        # Largest stride first: the order in which `_find` takes a rank apart. A dimension of
        # size 1 adds nothing to any rank, so its stride means nothing and it is left out.
        dims = (dim for dim, size in enumerate(self._sizes) if size != 1)
        self._by_stride = tuple(sorted(dims, key=self._strides.__getitem__, reverse=True))
        self._check_distinct()

    def _check(self) -> None:
        if len(self._sizes) != len(self._strides):
            raise ShapeError(
                f"{self} has sizes and strides of different lengths; give both for each dimension"
            )
        if self._offset < 0 or min(self._sizes, default=0) < 0 or min(self._strides, default=1) < 1:
            raise ShapeError(f"{self} has too small a number; offset and sizes start at 0, strides at 1")

    def _check_distinct(self) -> None:
        reach = 0  # how far the dimensions of smaller stride go from the offset
        for dim in reversed(self._by_stride):
            if self._strides[dim] <= reach:
                raise ShapeError(
                    f"{self} could hold a rank twice: the stride {self._strides[dim]} must be "
                    f"greater than {reach}, which smaller strides already reach"
                )
            reach += max(self._sizes[dim] - 1, 0) * self._strides[dim]

    @staticmethod
    def new_row_major(sizes: Iterable[int]) -> NDSlice:
        """The ranks ``0, 1, 2, ...`` arranged in `sizes`."""
        sizes = tuple(map(operator.index, sizes))
        factors = (max(size, 1) for size in reversed(sizes[1:]))
        strides = tuple(itertools.accumulate(factors, operator.mul, initial=1))[: len(sizes)]
        return NDSlice(offset=0, sizes=sizes, strides=strides[::-1])

    @staticmethod
    def from_list(ranks: Iterable[int]) -> list[NDSlice]:
        """One-dimensional slices that together hold just these ranks, each once, by rising rank."""
        runs: list[list[int]] = []
        for rank in sorted(set(ranks)):
            run = runs[-1] if runs else []
            if len(run) == 1 or (run and rank - run[-1] == run[1] - run[0]):
                run.append(rank)
            else:
                runs.append([rank])
        strides = [run[1] - run[0] if len(run) > 1 else 1 for run in runs]
        return [
            NDSlice(offset=run[0], sizes=[len(run)], strides=[stride])
            for run, stride in zip(runs, strides, strict=True)
        ]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._sizes)

    @property
    def offset(self) -> int:
        """The first rank."""
        return self._offset

    @property
    def sizes(self) -> list[int]:
        """The size of each dimension."""
        return list(self._sizes)

    @property
    def strides(self) -> list[int]:
        """How far apart neighbours of each dimension are, in ranks."""
        return list(self._strides)

    def get(self, index: int) -> int:
        """The rank at position `index` in row-major order; OutOfRange (an IndexError) if there is none."""
        if not 0 <= index < len(self):
            raise OutOfRange(f"index {index} is outside the {len(self)} ranks of {self}")
        rank = self._offset
        for size, stride in zip(reversed(self._sizes), reversed(self._strides), strict=True):
            index, place = divmod(index, size)
            rank += place * stride
        return rank

    def nditem(self, coordinates: Sequence[int]) -> int:
        """The rank at `coordinates`, one for each dimension; OutOfRange (an IndexError) if there is none."""
        if len(coordinates) != len(self._sizes):
            raise OutOfRange(
                f"{len(coordinates)} coordinates for the {len(self._sizes)} dimensions of {self}"
            )
        rank = self._offset
        for place, size, stride in zip(coordinates, self._sizes, self._strides, strict=True):
            if not 0 <= place < size:
                raise OutOfRange(f"coordinates {list(coordinates)} are outside {self}")
            rank += place * stride
        return rank

    def coordinates(self, value: int) -> list[int]:
        """The coordinates at which the rank `value` stands; OutOfRange (a ValueError) if it is not here."""
        found = self._find(value)
        if found is None:
            raise OutOfRange(f"rank {value} is not in {self}")
        return found

    def index(self, value: int) -> int:
        """The row-major position of the rank `value`: undoes `get`, and raises as `coordinates` does."""
        position = 0
        for place, size in zip(self.coordinates(value), self._sizes, strict=True):
            position = position * size + place
        return position

    def _find(self, value: int) -> list[int] | None:
        rest = value - self._offset
        found = [0] * len(self._sizes)
        for dim in self._by_stride:
            # Smaller strides together reach less than this stride, so the quotient is the place.
            found[dim], rest = divmod(rest, self._strides[dim])
            if not 0 <= found[dim] < self._sizes[dim]:
                return None
        return found if rest == 0 else None

    @overload
    def __getitem__(self, i: int) -> int: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[int, ...]: ...
    def __getitem__(self, i: int | slice) -> int | tuple[int, ...]:
        if isinstance(i, slice):
            return tuple(map(self.get, range(len(self))[i]))
        return self.get(i)

    def __contains__(self, value: int) -> bool:
        return self._find(value) is not None

    def __iter__(self) -> Iterator[int]:
        axes = zip(self._sizes, self._strides, strict=True)
        steps = (range(0, size * stride, stride) for size, stride in axes)
        return map(sum, itertools.product((self._offset,), *steps))

    def __len__(self) -> int:
        return math.prod(self._sizes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NDSlice):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        return self._offset, self._sizes, self._strides

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, self._key()

    def __repr__(self) -> str:
        return f"Slice {{ offset: {self._offset}, sizes: {self.sizes}, strides: {self.strides} }}"


def _unpickled(offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> NDSlice:
    return NDSlice(offset=offset, sizes=sizes, strides=strides)


Slice = NDSlice
