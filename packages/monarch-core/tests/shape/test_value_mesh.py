import pickle

import pytest

from monarch.errors import OutOfRange, ShapeError, UnknownLabel
from monarch.shape import Extent, MeshTrait, NDSlice, Shape, ValueMesh

DENSE = Shape(["x", "y"], NDSlice.new_row_major([2, 3]))
SPARSE = Shape(["x", "y"], NDSlice(offset=4, sizes=[2, 3], strides=[10, 2]))


@pytest.fixture(params=[DENSE, SPARSE], ids=["dense", "sparse"])
def mesh(request):
    return ValueMesh(request.param, list("abcdef"))


def test_a_value_mesh_is_a_mesh(mesh):
    assert isinstance(mesh, MeshTrait)
    assert (len(mesh), mesh.sizes, mesh.extent) == (6, {"x": 2, "y": 3}, Extent(["x", "y"], [2, 3]))


def test_iteration_yields_points_and_values_by_rank(mesh):
    assert [(point.rank, value) for point, value in mesh] == list(enumerate("abcdef"))
    assert list(mesh) == list(mesh.items())
    assert dict(list(mesh)[4][0]) == {"x": 1, "y": 1}


def test_values_is_a_list_of_its_own(mesh):
    mesh.values().clear()
    assert mesh.values() == list("abcdef")


def test_values_are_copied_from_any_iterable():
    given = list("abcdef")
    mesh = ValueMesh(DENSE, given)
    given.clear()
    assert mesh.values() == ValueMesh(DENSE, iter("abcdef")).values()


def test_a_value_is_found_by_rank_and_by_coordinates(mesh):
    assert (mesh.get(4), mesh.item(x=1, y=1)) == ("e", "e")


def test_the_value_of_no_dimension_needs_no_coordinate():
    assert ValueMesh(Shape.unity(), ["only"]).item() == "only"


@pytest.mark.parametrize(
    ("coordinates", "error", "builtin", "message"),
    [
        ({"x": 1}, UnknownLabel, KeyError, "no coordinate for 'y'"),
        ({"x": 1, "y": 1, "z": 0}, UnknownLabel, KeyError, "no dimension 'z'; it has 'x' and 'y'; leave"),
        ({"x": 1, "y": 3}, OutOfRange, IndexError, "index 3 is outside dimension 'y' of size 3"),
        ({"x": -1, "y": 0}, OutOfRange, IndexError, "index -1 is outside dimension 'x'"),
    ],
    ids=["missing", "extra", "past-the-end", "negative"],
)
def test_item_refuses_what_is_not_a_place(mesh, coordinates, error, builtin, message):
    with pytest.raises(error, match=message) as caught:
        mesh.item(**coordinates)
    assert isinstance(caught.value, builtin)


@pytest.mark.parametrize("rank", [-1, 6])
def test_get_refuses_a_rank_outside(mesh, rank):
    with pytest.raises(OutOfRange, match=f"rank {rank} is outside a mesh of 6"):
        mesh.get(rank)


@pytest.mark.parametrize(
    ("selectors", "values"),
    [
        pytest.param({"x": 1}, "def", id="an-int"),
        pytest.param({"y": slice(0, None, 2)}, "acdf", id="a-step"),
        pytest.param({"x": 1, "y": 2}, "f", id="one-member"),
    ],
)
def test_slicing_keeps_the_values_of_the_ranks_that_stay(mesh, selectors, values):
    assert mesh.slice(**selectors).values() == list(values)


def test_a_slice_counts_its_ranks_from_0(mesh):
    assert [(point.rank, dict(point)) for point, _ in mesh.slice(x=1)] == [(i, {"y": i}) for i in range(3)]


def test_slices_can_be_sliced(mesh):
    assert mesh.slice(x=1).slice(y=slice(1, 3)).slice(y=1).values() == ["f"]


def test_a_dense_mesh_flattens_and_splits():
    mesh = ValueMesh(DENSE, list("abcdef"))
    assert mesh.slice(x=1).flatten("all").item(all=2) == "f"
    assert mesh.flatten("all").split(all=("a", "b"), a=3).item(a=2, b=1) == "f"
    assert mesh.rename(x="a").item(a=1, y=0) == "d"


def test_from_indexed_takes_any_order_and_the_last_value_wins():
    pairs = [(rank, rank * rank) for rank in (5, 3, 1, 0, 2, 4)]
    assert ValueMesh.from_indexed(SPARSE, [(3, "early"), *pairs]).values() == [0, 1, 4, 9, 16, 25]


def test_from_indexed_names_the_ranks_without_a_value():
    with pytest.raises(ShapeError, match="no value for rank 0, 2, 4, 5 of 6"):
        ValueMesh.from_indexed(DENSE, [(1, "a"), (3, "b")])


def test_a_long_list_of_missing_ranks_is_cut():
    with pytest.raises(ShapeError, match="rank 0, 1, 2, 3, 4, 5, 6, 7 and 92 more of 100"):
        ValueMesh.from_indexed(Extent(["x"], [100]).region.as_shape(), [])


def test_from_indexed_refuses_a_rank_outside():
    with pytest.raises(OutOfRange, match="no rank 6, 9 in a mesh of 6; use 0 to 5"):
        ValueMesh.from_indexed(DENSE, [(9, "a"), (6, "b")])


def test_there_are_as_many_values_as_ranks():
    with pytest.raises(ShapeError, match="3 values for 6 ranks"):
        ValueMesh(DENSE, list("abc"))


@pytest.mark.parametrize("shape", [DENSE.extent, DENSE.region], ids=["extent", "region"])
def test_only_a_shape_will_do(shape):
    with pytest.raises(TypeError, match="ValueMesh takes a Shape, not"):
        ValueMesh(shape, list("abcdef"))


def test_a_value_mesh_survives_pickling(mesh):
    copy = pickle.loads(pickle.dumps(mesh))
    assert (copy.values(), copy.extent, copy.region) == (mesh.values(), mesh.extent, mesh.region)


def test_repr_shows_each_place_with_its_value():
    assert repr(ValueMesh(DENSE, list("abcdef")).slice(y=0)) == (
        "ValueMesh({x: 2}):\n  (({'x': 0/2}, 'a'),\n   ({'x': 1/2}, 'd'))"
    )


def test_repr_of_many_or_long_values_stays_short():
    mesh = ValueMesh(Extent(["x"], [1000]).region.as_shape(), ["v" * 10_000] * 1000)
    assert repr(mesh).endswith("... and 992 more)")
    assert len(repr(mesh)) < 800
