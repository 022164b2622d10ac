"""What holds for every mesh: each operation agrees with the same thing done to a plain list of ranks."""

import math
import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from monarch.shape import Extent, NDSlice, Selection, Shape, ValueMesh

repeatable = settings(derandomize=True, deadline=None)


@st.composite
def selectors_of(draw, sizes):
    """An int or a non-empty range for some dimensions of a mesh of these sizes."""
    selectors = {}
    for label in draw(st.lists(st.sampled_from(sorted(sizes)), unique=True)) if sizes else []:
        size = sizes[label]
        start = draw(st.integers(0, size - 1))
        stop = draw(st.integers(start + 1, size + 2))
        step = draw(st.integers(1, size))
        first = draw(st.sampled_from([start, start - size]))  # the same index, counted from the end
        selectors[label] = draw(st.sampled_from([start, slice(first, stop, step)]))
    return selectors


@st.composite
def dense_shapes(draw):
    sizes = draw(st.lists(st.integers(1, 5), max_size=4))
    return Extent("abcd"[: len(sizes)], sizes).region.as_shape()


def rank_mesh(shape):
    """The mesh whose values are its ranks, so that any value shows where it came from."""
    return ValueMesh(shape, shape.ranks())


@st.composite
def meshes(draw):
    """Rank meshes, dense and sparse, of up to four dimensions."""
    mesh = rank_mesh(draw(dense_shapes()))
    return mesh.slice(**draw(selectors_of(mesh.sizes)))


def cut_by_hand(mesh, selectors):
    """The values that `selectors` leave, from the coordinates of every point."""

    def stays(point):
        return all(
            point[label] in (range(mesh.sizes[label])[chosen] if isinstance(chosen, slice) else [chosen])
            for label, chosen in selectors.items()
        )

    return [value for point, value in mesh if stays(point)]


@repeatable
@given(st.data(), meshes())
def test_a_slice_of_a_slice_has_the_ranks_that_the_coordinates_say(data, mesh):
    for _ in range(2):
        selectors = data.draw(selectors_of(mesh.sizes))
        by_hand = cut_by_hand(mesh, selectors)
        mesh = mesh.slice(**selectors)
        assert mesh.values() == list(mesh._ndslice) == by_hand


@repeatable
@given(st.data(), meshes())
def test_slicing_dimensions_together_or_one_by_one_is_the_same(data, mesh):
    selectors = data.draw(selectors_of(mesh.sizes))
    one_by_one = mesh
    for label, chosen in selectors.items():
        one_by_one = one_by_one.slice(**{label: chosen})
    assert mesh.slice(**selectors).region == one_by_one.region


@repeatable
@given(meshes())
def test_index_and_coordinates_undo_get_and_nditem(mesh):
    ndslice = mesh._ndslice
    for position, rank in enumerate(ndslice):
        assert (ndslice.get(position), ndslice.index(rank)) == (rank, position)
        assert ndslice.nditem(ndslice.coordinates(rank)) == rank


@repeatable
@given(meshes())
def test_a_slice_contains_what_it_iterates_over_and_nothing_else(mesh):
    ranks = set(mesh._ndslice)
    assert len(ranks) == len(mesh)
    for rank in range(-1, max(ranks) + 3):
        assert (rank in mesh._ndslice) == (rank in ranks)


@repeatable
@given(st.integers(0, 9), st.lists(st.tuples(st.integers(1, 4), st.integers(1, 30)), max_size=4))
def test_a_slice_is_accepted_only_if_its_ranks_are_distinct(offset, axes):
    sizes, strides = [size for size, _ in axes], [stride for _, stride in axes]
    try:
        ranks = list(NDSlice(offset=offset, sizes=sizes, strides=strides))
    except ValueError:
        return
    assert len(set(ranks)) == math.prod(sizes)


@repeatable
@given(st.lists(st.integers(0, 60)))
def test_from_list_holds_each_rank_once(ranks):
    pieces = NDSlice.from_list(ranks)
    assert [rank for piece in pieces for rank in piece] == sorted(set(ranks))


@repeatable
@given(st.integers(1, 9), st.integers(1, 9))
def test_flatten_undoes_split(u, v):
    flat = rank_mesh(Extent(["all"], [u * v]).region.as_shape())
    split = flat.split(all=("u", "v"), u=u)
    assert split.sizes == {"u": u, "v": v}
    assert split.values() == flat.values()
    assert split.flatten("all").region == flat.region


@repeatable
@given(st.data(), meshes())
def test_split_of_any_mesh_keeps_its_ranks(data, mesh):
    for label, size in mesh.sizes.items():
        v = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        assert list(mesh.split(**{label: ("u", "v")}, v=v)._ndslice) == mesh.values()


@repeatable
@given(meshes())
def test_flatten_works_exactly_where_the_ranks_have_no_gaps(mesh):
    first = mesh.get(0)
    dense = mesh.values() == list(range(first, first + len(mesh)))
    try:
        flat = mesh.flatten("all")
    except ValueError:
        assert not dense
    else:
        assert (dense, flat.values()) == (True, mesh.values())


@repeatable
@given(meshes())
def test_points_and_coordinates_agree(mesh):
    shape = mesh.region.as_shape()
    for point, rank in mesh:
        assert dict(point) == shape.coordinates(rank)
        assert mesh.region.point_of_base_rank(rank) == point
        assert mesh.item(**point) == mesh.get(point.rank) == rank
        assert shape.index(**point).ranks() == [rank]


@repeatable
@given(st.data(), meshes())
def test_a_selection_of_ranges_agrees_with_slice(data, mesh):
    selectors = data.draw(selectors_of(mesh.sizes))
    terms = [_term(selectors.get(label, slice(None)), size) for label, size in mesh.sizes.items()]
    selection = Selection.from_string(", ".join(terms) or "all")
    assert selection.ranks(mesh.region.as_shape()) == mesh.slice(**selectors).values()


def _term(chosen, size):
    if not isinstance(chosen, slice):
        return str(chosen)
    return ":".join(map(str, chosen.indices(size)))


@repeatable
@given(meshes())
def test_everything_survives_pickling(mesh):
    shape = mesh.region.as_shape()
    points = list(mesh.extent.points())
    everything = [mesh.extent, mesh.region, shape, shape.ndslice, points]
    assert pickle.loads(pickle.dumps(everything)) == everything
    copy = pickle.loads(pickle.dumps(mesh))
    assert (copy.region, copy.values()) == (mesh.region, mesh.values())


@repeatable
@given(dense_shapes(), st.randoms(use_true_random=False))
def test_from_indexed_does_not_care_about_order(shape, random):
    pairs = list(enumerate(shape.ranks()))
    random.shuffle(pairs)
    assert ValueMesh.from_indexed(shape, pairs).values() == shape.ranks()


def test_unity_is_what_is_left_when_every_dimension_is_dropped():
    assert Extent(["x"], [1]).region.as_shape().at("x", 0) == Shape.unity()
