import pickle

import pytest

from monarch.errors import ShapeError, UnknownLabel
from monarch.shape import Extent, NDSlice, Region

GRID = Extent(["x", "y"], [2, 3])


def test_an_extent_is_a_mapping_from_label_to_size():
    assert dict(GRID) == {"x": 2, "y": 3}
    assert (len(GRID), "x" in GRID, "z" in GRID, GRID.get("z")) == (2, True, False, None)


def test_labels_and_sizes_are_lists_of_their_own():
    GRID.labels.append("z")
    GRID.sizes.append(9)
    assert (GRID.labels, GRID.sizes) == (["x", "y"], [2, 3])


@pytest.mark.parametrize(
    ("sizes", "nelements"),
    [
        pytest.param([], 1, id="no-dimension-is-one-point"),
        pytest.param([2, 3], 6, id="two-dimensions"),
        pytest.param([2, 0], 0, id="an-empty-dimension"),
    ],
)
def test_nelements_is_the_product_of_the_sizes(sizes, nelements):
    assert Extent("abc"[: len(sizes)], sizes).nelements == nelements


def test_equality_and_hash_respect_the_order_of_dimensions():
    assert Extent(("x", "y"), (2, 3)) == GRID
    assert hash(GRID) == hash(Extent(("x", "y"), (2, 3)))
    assert Extent(["y", "x"], [3, 2]) != GRID
    assert GRID != {"x": 2, "y": 3}


def test_repr_shows_label_and_size():
    assert (repr(GRID), repr(Extent([], []))) == ("{x: 2, y: 3}", "{}")


def test_an_extent_survives_pickling():
    assert pickle.loads(pickle.dumps(GRID)) == GRID


def test_its_region_has_every_rank_in_row_major_order():
    assert GRID.region == Region(["x", "y"], NDSlice(offset=0, sizes=[2, 3], strides=[3, 1]))


def test_its_points_come_by_rising_rank():
    assert [dict(point) for point in Extent(["x", "y"], [2, 2]).points()] == [
        {"x": 0, "y": 0},
        {"x": 0, "y": 1},
        {"x": 1, "y": 0},
        {"x": 1, "y": 1},
    ]
    assert dict(GRID.point_of_rank(5)) == {"x": 1, "y": 2}


def test_an_unknown_label_is_a_key_error_that_names_the_labels():
    with pytest.raises(UnknownLabel, match="no dimension 'z'; it has 'x' and 'y'") as caught:
        GRID["z"]
    assert isinstance(caught.value, KeyError)


@pytest.mark.parametrize(
    ("labels", "sizes", "message"),
    [
        pytest.param(["x", "x"], [2, 3], "more than one dimension is called 'x'", id="duplicate-label"),
        pytest.param(["x"], [2, 3], "1 labels .* for 2 dimensions", id="too-few-labels"),
        pytest.param(["x"], [-1], "negative size", id="negative-size"),
    ],
)
def test_impossible_extents_are_refused(labels, sizes, message):
    with pytest.raises(ShapeError, match=message):
        Extent(labels, sizes)


def test_a_size_must_be_an_integer():
    with pytest.raises(TypeError):
        Extent(["x"], [1.5])
