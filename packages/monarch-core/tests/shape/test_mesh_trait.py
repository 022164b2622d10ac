import pytest

from monarch.errors import OutOfRange, ShapeError, UnknownDimension, UnknownLabel
from monarch.shape import Extent, MeshTrait, NDSlice, Region, Shape


class RankMesh(MeshTrait):
    """The smallest mesh: it has nothing but its shape."""

    def __init__(self, shape):
        self.shape = shape

    @property
    def _ndslice(self):
        return self.shape.ndslice

    @property
    def _labels(self):
        return tuple(self.shape.labels)

    def _new_with_shape(self, shape):
        return RankMesh(shape)

    @property
    def ranks(self):
        return self.shape.ranks()


@pytest.fixture
def mesh():
    return RankMesh(Shape(["x", "y"], NDSlice.new_row_major([2, 6])))


def test_a_mesh_measures_itself(mesh):
    assert (len(mesh), mesh.sizes, mesh.extent) == (12, {"x": 2, "y": 6}, Extent(["x", "y"], [2, 6]))
    assert mesh.region == Region(["x", "y"], NDSlice.new_row_major([2, 6]))


@pytest.mark.parametrize(
    ("dim", "size"),
    [
        pytest.param(None, 12, id="all"),
        pytest.param("y", 6, id="one"),
        pytest.param(["x", "y"], 12, id="several"),
        pytest.param([], 1, id="none-of-them"),
    ],
)
def test_size_multiplies_the_dimensions_asked_for(mesh, dim, size):
    assert mesh.size(dim) == size


@pytest.mark.parametrize("dim", ["z", ["x", "z"]], ids=["one", "among-several"])
def test_size_of_an_unknown_dimension_is_a_key_error(mesh, dim):
    with pytest.raises(UnknownLabel, match="mesh has no dimension 'z'; it has 'x' and 'y'") as caught:
        mesh.size(dim)
    assert isinstance(caught.value, KeyError)


@pytest.mark.parametrize(
    ("selectors", "sizes", "ranks"),
    [
        pytest.param({}, {"x": 2, "y": 6}, list(range(12)), id="nothing-cut"),
        pytest.param({"x": 1}, {"y": 6}, [6, 7, 8, 9, 10, 11], id="an-int-drops-its-dimension"),
        pytest.param({"y": slice(4, 6)}, {"x": 2, "y": 2}, [4, 5, 10, 11], id="a-slice-keeps-it"),
        pytest.param(
            {"y": slice(0, 6, 4)}, {"x": 2, "y": 2}, [0, 4, 6, 10], id="a-step-that-does-not-divide"
        ),
        pytest.param({"x": 1, "y": slice(-2, None)}, {"y": 2}, [10, 11], id="both"),
        pytest.param({"x": 1, "y": 2}, {}, [8], id="one-member"),
    ],
)
def test_slice_cuts_along_named_dimensions(mesh, selectors, sizes, ranks):
    part = mesh.slice(**selectors)
    assert (part.sizes, part.ranks) == (sizes, ranks)


@pytest.mark.parametrize(
    ("selectors", "error", "builtin", "message"),
    [
        ({"z": 0}, UnknownDimension, TypeError, "mesh has no dimension 'z'; it has 'x' and 'y'"),
        ({"x": 2}, OutOfRange, IndexError, "index 2 is outside dimension 'x' of size 2; use 0 to 1"),
        ({"x": -1}, OutOfRange, IndexError, "index -1 is outside dimension 'x'"),
        ({"y": slice(3, 3)}, ShapeError, ValueError, "empty range of dimension 'y' of size 6"),
        ({"y": "a"}, TypeError, TypeError, "dimension 'y' takes an int or a slice, not 'a'"),
    ],
    ids=["unknown", "past-the-end", "negative", "empty", "text"],
)
def test_slice_refuses_what_is_not_there(mesh, selectors, error, builtin, message):
    with pytest.raises(error, match=message) as caught:
        mesh.slice(**selectors)
    assert isinstance(caught.value, builtin)


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        pytest.param({"y": ("u", "v"), "u": 3}, {"x": 2, "u": 3, "v": 2}, id="last-inferred"),
        pytest.param({"y": ("u", "v"), "v": 3}, {"x": 2, "u": 2, "v": 3}, id="first-inferred"),
        pytest.param({"y": ("u", "v"), "u": 3, "v": 2}, {"x": 2, "u": 3, "v": 2}, id="all-given"),
        pytest.param({"x": ("a", "b"), "y": ("c",), "a": 1}, {"a": 1, "b": 2, "c": 6}, id="two-at-once"),
        pytest.param({"y": ("y", "v"), "v": 2}, {"x": 2, "y": 3, "v": 2}, id="a-part-keeps-the-name"),
    ],
)
def test_split_factors_dimensions_and_keeps_the_order(mesh, arguments, sizes):
    assert (mesh.split(**arguments).sizes, mesh.split(**arguments).ranks) == (sizes, mesh.ranks)


def test_split_of_a_sparse_mesh_keeps_its_ranks(mesh):
    part = mesh.slice(y=slice(0, 4))
    assert part.split(y=("u", "v"), u=2).ranks == part.ranks == [0, 1, 2, 3, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"y": ("u", "v"), "u": 4},
            r"cannot split dimension 'y' of size 6 into \(u=4, v=\?\): 6 is not a multiple of 4; choose",
            id="not-divisible",
        ),
        pytest.param({"y": ("u", "v"), "u": 4, "v": 2}, "product is 8; choose .* is 6", id="product-too-big"),
        pytest.param(
            {"y": ("u", "v"), "u": 3, "v": 1}, "product is 3; choose .* is 6", id="product-too-small"
        ),
        pytest.param({"y": ("u", "v")}, "all but one of 'u' and 'v', e.g. v=2", id="two-unknown"),
        pytest.param({"y": "uv"}, "y='uv': give a tuple of the names", id="text-for-a-tuple"),
        pytest.param({"y": 3}, "y=3: give a tuple of the names", id="a-number-for-a-tuple"),
        pytest.param({"y": ("x",)}, "more than one dimension is called 'x'", id="name-taken"),
        pytest.param({"q": 3}, "sizes given for 'q'", id="size-of-nothing"),
        pytest.param({"y": ("u", "v"), "u": 0}, "u=0: .* at least 1", id="size-0"),
        pytest.param({"z": ("u", "v"), "u": 2}, "no dimension 'z'; it has 'x' and 'y'", id="unknown"),
    ],
)
def test_split_refuses_what_does_not_fit(mesh, arguments, message):
    with pytest.raises(ShapeError, match=message):
        mesh.split(**arguments)


def test_flatten_keeps_all_ranks_in_one_dimension(mesh):
    assert (mesh.flatten("all").sizes, mesh.flatten("all").ranks) == ({"all": 12}, list(range(12)))


@pytest.mark.parametrize(
    ("selectors", "ranks"),
    [
        pytest.param({"x": 1}, [6, 7, 8, 9, 10, 11], id="a-row"),
        pytest.param({"x": 1, "y": 2}, [8], id="one-member"),
        pytest.param({"x": slice(1, 2), "y": slice(0, 2)}, [6, 7], id="within-a-row"),
        pytest.param({"x": slice(1, 2), "y": 3}, [9], id="one-member-with-a-wide-stride"),
    ],
)
def test_a_part_without_gaps_can_be_flattened(mesh, selectors, ranks):
    assert mesh.slice(**selectors).flatten("all").ranks == ranks


@pytest.mark.parametrize(
    "selectors",
    [
        pytest.param({"y": 0}, id="a-column"),
        pytest.param({"y": slice(0, 2)}, id="parts-of-rows"),
        pytest.param({"x": 0, "y": slice(0, 6, 2)}, id="a-step"),
    ],
)
def test_flatten_of_a_sparse_mesh_is_refused(mesh, selectors):
    with pytest.raises(ShapeError, match=r"cannot flatten sparse mesh: .*; flatten before you slice"):
        mesh.slice(**selectors).flatten("all")


@pytest.mark.parametrize(
    ("names", "sizes"),
    [
        pytest.param({"x": "dp"}, {"dp": 2, "y": 6}, id="one"),
        pytest.param({"x": "y", "y": "x"}, {"y": 2, "x": 6}, id="exchanged"),
    ],
)
def test_rename_changes_labels_only(mesh, names, sizes):
    assert (mesh.rename(**names).sizes, mesh.rename(**names).ranks) == (sizes, mesh.ranks)


@pytest.mark.parametrize(
    ("names", "error"),
    [
        pytest.param({"z": "a"}, UnknownDimension, id="unknown"),
        pytest.param({"x": "y"}, ShapeError, id="name-taken"),
    ],
)
def test_rename_refuses_unknown_and_repeated_names(mesh, names, error):
    with pytest.raises(error):
        mesh.rename(**names)
