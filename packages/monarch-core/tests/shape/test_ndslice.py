import pickle

import pytest

from monarch.errors import OutOfRange, ShapeError
from monarch.shape import NDSlice, Slice

SPARSE = NDSlice(offset=4, sizes=[2, 3], strides=[10, 2])


def test_slice_is_the_same_class():
    assert Slice is NDSlice


def test_ranks_are_strided_from_the_offset():
    assert (list(SPARSE), len(SPARSE), SPARSE.ndim) == ([4, 6, 8, 14, 16, 18], 6, 2)


def test_offset_sizes_and_strides_are_what_was_given():
    assert (SPARSE.offset, SPARSE.sizes, SPARSE.strides) == (4, [2, 3], [10, 2])


@pytest.mark.parametrize(
    ("ndslice", "ranks"),
    [
        pytest.param(NDSlice(offset=7, sizes=[], strides=[]), [7], id="no-dimension"),
        pytest.param(NDSlice(offset=0, sizes=[2, 3], strides=[1, 2]), [0, 2, 4, 1, 3, 5], id="column-major"),
        pytest.param(NDSlice(offset=0, sizes=[0, 3], strides=[3, 1]), [], id="empty"),
        pytest.param(
            NDSlice(offset=0, sizes=[1, 3], strides=[1, 1]), [0, 1, 2], id="stride-of-size-1-is-free"
        ),
        pytest.param(NDSlice(offset=0, sizes=[2, 2], strides=[3, 2]), [0, 2, 3, 5], id="interleaved"),
    ],
)
def test_order_is_row_major_whatever_the_strides(ndslice, ranks):
    assert list(ndslice) == ranks
    assert [ndslice.index(rank) for rank in ranks] == list(range(len(ranks)))


def test_lookups_go_both_ways():
    assert (SPARSE.get(4), SPARSE[4], SPARSE.index(16)) == (16, 16, 4)
    assert (SPARSE.nditem([1, 1]), SPARSE.coordinates(16)) == (16, [1, 1])
    assert (16 in SPARSE, 15 in SPARSE) == (True, False)


def test_a_python_slice_gives_a_tuple_of_ranks():
    assert (SPARSE[0:2], SPARSE[::-1], SPARSE[9:]) == ((4, 6), (18, 16, 14, 8, 6, 4), ())


@pytest.mark.parametrize("value", [-1, 3, 5, 10, 19, 24])
@pytest.mark.parametrize("look_up", [NDSlice.index, NDSlice.coordinates], ids=["index", "coordinates"])
def test_an_absent_rank_is_a_value_error(look_up, value):
    with pytest.raises(OutOfRange, match=f"rank {value} is not in Slice") as caught:
        look_up(SPARSE, value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "look_up",
    [
        pytest.param(lambda: SPARSE.get(6), id="get-past-the-end"),
        pytest.param(lambda: SPARSE.get(-1), id="get-negative"),
        pytest.param(lambda: SPARSE[6], id="getitem"),
        pytest.param(lambda: SPARSE.nditem([1, 3]), id="nditem-past-the-end"),
        pytest.param(lambda: SPARSE.nditem([-1, 0]), id="nditem-negative"),
        pytest.param(lambda: SPARSE.nditem([1]), id="nditem-too-few"),
    ],
)
def test_a_position_outside_is_an_index_error(look_up):
    with pytest.raises(OutOfRange) as caught:
        look_up()
    assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"sizes": [2, 3], "strides": [1]}, "different lengths", id="lengths-differ"),
        pytest.param({"sizes": [2, 3], "strides": [1, 1]}, "a rank twice", id="overlap"),
        pytest.param({"sizes": [-2], "strides": [1]}, "too small", id="negative-size"),
        pytest.param({"sizes": [2], "strides": [0]}, "too small", id="no-stride"),
        pytest.param({"offset": -1, "sizes": [2], "strides": [1]}, "too small", id="negative-offset"),
    ],
)
def test_impossible_slices_are_refused(fields, message):
    with pytest.raises(ShapeError, match=message):
        NDSlice(**{"offset": 0} | fields)


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [
        pytest.param([2, 3, 4], [12, 4, 1], id="three-dimensions"),
        pytest.param([], [], id="no-dimension"),
        pytest.param([2, 0], [1, 1], id="an-empty-dimension"),
    ],
)
def test_new_row_major_is_dense(sizes, strides):
    assert NDSlice.new_row_major(sizes) == NDSlice(offset=0, sizes=sizes, strides=strides)


@pytest.mark.parametrize(
    ("ranks", "runs"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([3], [(3, 1, 1)], id="one"),
        pytest.param([0, 1, 2, 5, 6, 7, 9], [(0, 3, 1), (5, 3, 1), (9, 1, 1)], id="runs"),
        pytest.param([0, 1, 3, 5, 7, 9, 10], [(0, 2, 1), (3, 4, 2), (10, 1, 1)], id="strided-run"),
        pytest.param([7, 3, 9, 3], [(3, 2, 4), (9, 1, 1)], id="unsorted-and-repeated"),
    ],
)
def test_from_list_covers_ranks_with_runs(ranks, runs):
    expected = [NDSlice(offset=start, sizes=[size], strides=[stride]) for start, size, stride in runs]
    assert NDSlice.from_list(ranks) == expected


def test_equal_slices_hash_alike_and_pickle():
    copy = pickle.loads(pickle.dumps(SPARSE))
    assert (copy, hash(copy)) == (SPARSE, hash(SPARSE))
    assert NDSlice(offset=5, sizes=[2, 3], strides=[10, 2]) != SPARSE


def test_repr_shows_all_three_fields():
    assert repr(SPARSE) == "Slice { offset: 4, sizes: [2, 3], strides: [10, 2] }"
