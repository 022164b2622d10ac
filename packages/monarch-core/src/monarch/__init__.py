"""Monarch: distributed programming for PyTorch. Actors and meshes are in `monarch.actor`."""

from monarch.__about__ import __version__
from monarch.shape import Extent, NDSlice, Point, Region, Selection, Shape, Slice, ValueMesh

__all__ = ["Extent", "NDSlice", "Point", "Region", "Selection", "Shape", "Slice", "ValueMesh", "__version__"]
