"""What extents, shapes and meshes share about the names of dimensions: one check, one wording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from monarch.errors import ShapeError


def checked_labels(labels: Iterable[str], dimensions: int) -> tuple[str, ...]:
    """The labels as a tuple; ShapeError unless they are distinct and one for each dimension."""
    labels = tuple(labels)
    if len(labels) != dimensions:
        raise ShapeError(
            f"{len(labels)} labels ({listed(labels)}) for {dimensions} dimensions; give one label for each"
        )
    if len(set(labels)) != dimensions:
        repeated = [label for label, count in Counter(labels).items() if count > 1]
        raise ShapeError(f"more than one dimension is called {listed(repeated)}; give each its own name")
    return labels


def no_dimension(label: str, labels: Sequence[str]) -> str:
    """The message for a dimension that is not there, with those that are."""
    return f"mesh has no dimension {label!r}; it has {listed(labels)}"


def listed(names: Iterable[object]) -> str:
    """``'x', 'y' and 'z'``, or ``none``."""
    *front, last = [repr(name) for name in names] or ["none"]
    return f"{', '.join(front)} and {last}" if front else last
