import pickle

import pytest

from monarch.errors import OutOfRange, UnknownLabel
from monarch.shape import Extent, Point

EXTENT = Extent(["hosts", "gpus"], [2, 4])
POINT = Point(5, EXTENT)


def test_a_point_is_a_mapping_from_label_to_index():
    assert dict(POINT) == {"hosts": 1, "gpus": 1}
    assert (len(POINT), POINT["gpus"], "racks" in POINT) == (2, 1, False)


def test_a_point_knows_its_rank_extent_and_sizes():
    assert (POINT.rank, POINT.extent) == (5, EXTENT)
    assert (POINT.size("gpus"), POINT.size()) == (4, 8)


def test_the_only_point_of_no_dimension_is_empty():
    point = Point(0, Extent([], []))
    assert (dict(point), repr(point), point.size()) == ({}, "{}", 1)


def test_repr_shows_index_and_size():
    assert repr(POINT) == "{'hosts': 1/2, 'gpus': 1/4}"


def test_equal_points_have_equal_rank_and_extent():
    assert Point(5, Extent(["hosts", "gpus"], [2, 4])) == POINT
    assert hash(POINT) == hash(Point(5, Extent(["hosts", "gpus"], [2, 4])))
    assert Point(4, EXTENT) != POINT
    assert Point(5, Extent(["all"], [8])) != POINT
    assert dict(POINT) != POINT


@pytest.mark.parametrize(
    "looked_at", [pytest.param(True, id="looked-at"), pytest.param(False, id="untouched")]
)
def test_a_point_survives_pickling(looked_at):
    point = Point(5, EXTENT)
    if looked_at:
        dict(point)
    copy = pickle.loads(pickle.dumps(point))
    assert (copy, dict(copy)) == (point, {"hosts": 1, "gpus": 1})


def test_making_a_point_computes_no_coordinates():
    assert Point(5, EXTENT)._coordinates is None


@pytest.mark.parametrize("rank", [-1, 8])
def test_a_rank_outside_the_extent_is_refused(rank):
    with pytest.raises(OutOfRange, match=f"rank {rank} is outside the extent .* of 8 points"):
        Point(rank, EXTENT)


@pytest.mark.parametrize("look_up", [Point.__getitem__, Point.size], ids=["index", "size"])
def test_an_unknown_label_names_the_labels(look_up):
    with pytest.raises(UnknownLabel, match="no dimension 'racks'; it has 'hosts' and 'gpus'"):
        look_up(POINT, "racks")
