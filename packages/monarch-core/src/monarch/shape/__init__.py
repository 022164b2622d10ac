"""The arithmetic of ranks: named dimensions over strided views of 0, 1, 2, ...

An `Extent` names dimensions and their sizes. An `NDSlice` picks ranks by offset, sizes and
strides; a `Shape` labels it. A `Point` is one place in an extent. `MeshTrait` gives all of it
to anything that is laid out as a mesh, and `ValueMesh` is the plainest such thing.

Nothing here does I/O, knows a process, or imports torch or numpy.
"""

from monarch.shape.extent import Extent
from monarch.shape.mesh_trait import MeshTrait, ShapedMesh
from monarch.shape.ndslice import NDSlice, Slice
from monarch.shape.point import Point
from monarch.shape.selection import Selection
from monarch.shape.shape import Region, Shape
from monarch.shape.value_mesh import ValueMesh

__all__ = [
    "Extent",
    "MeshTrait",
    "NDSlice",
    "Point",
    "Region",
    "Selection",
    "Shape",
    "ShapedMesh",
    "Slice",
    "ValueMesh",
]
