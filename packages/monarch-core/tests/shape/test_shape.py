import pickle

import pytest

from monarch.errors import OutOfRange, ShapeError, UnknownDimension
from monarch.shape import Extent, NDSlice, Point, Region, Shape

SHAPE = Shape(["x", "y"], NDSlice(offset=4, sizes=[2, 3], strides=[10, 2]))


def test_a_shape_has_labels_ranks_and_extent():
    assert (SHAPE.labels, SHAPE.ranks(), len(SHAPE)) == (["x", "y"], [4, 6, 8, 14, 16, 18], 6)
    assert SHAPE.extent == Extent(["x", "y"], [2, 3])


def test_unity_is_rank_0_without_a_dimension():
    assert (Shape.unity().labels, Shape.unity().ranks()) == ([], [0])


def test_at_drops_the_dimension():
    assert SHAPE.at("x", 1) == Shape(["y"], NDSlice(offset=14, sizes=[3], strides=[2]))


def test_index_drops_each_dimension_given():
    assert SHAPE.index(y=1) == Shape(["x"], NDSlice(offset=6, sizes=[2], strides=[10]))
    assert SHAPE.index(y=1, x=1).ranks() == [16]


@pytest.mark.parametrize(
    ("chosen", "ranks"),
    [
        pytest.param(slice(None), [4, 6, 8, 14, 16, 18], id="everything"),
        pytest.param(slice(1, 3), [6, 8, 16, 18], id="range"),
        pytest.param(slice(None, None, 2), [4, 8, 14, 18], id="step"),
        pytest.param(slice(-1, None), [8, 18], id="from-the-end"),
        pytest.param(slice(None, -1), [4, 6, 14, 16], id="up-to-the-end"),
        pytest.param(slice(0, 99), [4, 6, 8, 14, 16, 18], id="beyond-the-end"),
    ],
)
def test_select_keeps_the_dimension_and_reads_bounds_as_a_list_does(chosen, ranks):
    part = SHAPE.select("y", chosen)
    assert (part.labels, part.ranks()) == (["x", "y"], ranks)


@pytest.mark.parametrize("chosen", [slice(0, 0), slice(2, 1), slice(3, 9)], ids=str)
def test_selecting_nothing_is_refused(chosen):
    with pytest.raises(ShapeError, match="empty range of dimension 'y' of size 3"):
        SHAPE.select("y", chosen)


@pytest.mark.parametrize("step", [0, -1])
def test_a_step_below_1_is_refused(step):
    with pytest.raises(ShapeError, match="dimension 'y' has a step below 1"):
        SHAPE.select("y", slice(None, None, step))


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_its_dimension_is_an_index_error(index):
    with pytest.raises(OutOfRange, match=f"index {index} is outside dimension 'x' of size 2; use 0 to 1"):
        SHAPE.at("x", index)


def test_an_index_must_be_an_integer():
    with pytest.raises(TypeError, match=r"dimension 'x' takes an int or a slice, not \[0\]"):
        SHAPE.at("x", [0])


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda: SHAPE.at("z", 0), id="at"),
        pytest.param(lambda: SHAPE.select("z", slice(1)), id="select"),
        pytest.param(lambda: SHAPE.index(z=0), id="index"),
    ],
)
def test_an_unknown_dimension_is_a_type_error_that_names_the_dimensions(cut):
    with pytest.raises(UnknownDimension, match="no dimension 'z'; it has 'x' and 'y'") as caught:
        cut()
    assert isinstance(caught.value, TypeError)


def test_without_a_dimension_the_message_says_so():
    with pytest.raises(UnknownDimension, match="no dimension 'z'; it has none"):
        Shape.unity().at("z", 0)


def test_coordinates_locate_a_rank():
    assert SHAPE.coordinates(16) == {"x": 1, "y": 1}
    with pytest.raises(ValueError, match="rank 3 is not in"):
        SHAPE.coordinates(3)


@pytest.mark.parametrize("labels", [["x"], ["x", "x"]], ids=["too-few", "duplicate"])
@pytest.mark.parametrize("kind", [Shape, Region])
def test_each_dimension_needs_a_label_of_its_own(kind, labels):
    with pytest.raises(ShapeError):
        kind(labels, SHAPE.ndslice)


@pytest.mark.parametrize("value", [SHAPE, SHAPE.region], ids=["shape", "region"])
def test_equal_values_hash_alike_and_pickle(value):
    copy = pickle.loads(pickle.dumps(value))
    assert (copy, hash(copy)) == (value, hash(value))


def test_what_differs_is_not_equal():
    assert Shape(["a", "b"], SHAPE.ndslice) != SHAPE
    assert SHAPE.at("x", 0) != SHAPE
    assert SHAPE.region != SHAPE


def test_a_region_is_the_shape_under_another_name():
    assert SHAPE.region == Region(["x", "y"], SHAPE.ndslice)
    assert (SHAPE.region.labels, SHAPE.region.slice()) == (["x", "y"], SHAPE.ndslice)
    assert SHAPE.region.as_shape() == SHAPE


def test_a_region_finds_the_point_of_a_base_rank():
    assert SHAPE.region.point_of_base_rank(16) == Point(4, SHAPE.extent)
    with pytest.raises(ValueError, match="rank 3 is not in"):
        SHAPE.region.point_of_base_rank(3)


def test_repr_and_str():
    assert repr(SHAPE.at("x", 0)) == (
        'Shape { labels: ["y"], slice: Slice { offset: 4, sizes: [3], strides: [2] } }'
    )
    assert str(SHAPE) == "{x=2,y=3}"
