import pickle
import random

import pytest

from monarch.errors import OutOfRange, ShapeError
from monarch.shape import NDSlice, Selection, Shape

GRID = NDSlice.new_row_major([2, 4])


@pytest.fixture(autouse=True)
def draws_are_repeatable():
    state = random.getstate()
    random.seed(0)
    yield
    random.setstate(state)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("*", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("all", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("(*, 0:2)", [0, 1, 4, 5]),
        ("1", [4, 5, 6, 7]),
        ("1, 3", [7]),
        ("*, ::2", [0, 2, 4, 6]),
        ("*, 1::2", [1, 3, 5, 7]),
        ("0, 2:", [2, 3]),
        ("0, :2", [0, 1]),
        ("0, 2:99", [2, 3]),
        ("0, 2:2", []),
        ("0 | *, 0", [0, 1, 2, 3, 4]),
        ("0 & *, 0", [0]),
        ("0,0 | 1,1 & 1,2", [0]),
        ("(0,0 | 1,1) & 1", [5]),
        ("*, (0 | 3)", [0, 3, 4, 7]),
        ("(0 | 1), 2", [2, 6]),
    ],
)
def test_text_selects_ranks_in_mesh_order(text, ranks):
    assert Selection.from_string(text).ranks(GRID) == ranks


def test_a_selection_maps_to_the_ranks_of_the_shape():
    shape = Shape(["x", "y"], NDSlice(offset=4, sizes=[2, 3], strides=[10, 2]))
    assert Selection.from_string("1, 1:").ranks(shape) == [16, 18]


def test_all_needs_no_dimension():
    assert Selection.all().ranks(Shape.unity()) == [0]


def test_any_reaches_each_member_and_only_one_at_a_time():
    drawn = [Selection.any().ranks(GRID) for _ in range(500)]
    assert {len(ranks) for ranks in drawn} == {1}
    assert {ranks[0] for ranks in drawn} == set(GRID)


def test_a_question_mark_draws_anew_for_each_outer_index():
    drawn = {tuple(Selection.from_string("*, ?").ranks(NDSlice.new_row_major([2, 2]))) for _ in range(500)}
    assert drawn == {(0, 2), (0, 3), (1, 2), (1, 3)}


def test_drawing_from_nothing_gives_nothing():
    assert Selection.any().ranks(NDSlice.new_row_major([0])) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected an index, .*, found the end"),
        ("(*, 0:4", r"column 8: expected '\)', .*, found the end"),
        ("*,, 0", "column 3: expected an index, .*, found ','"),
        ("*, gpu", "column 4: expected an index, .*, found 'g'"),
        ("0 1", "column 3: expected the end, .*, found '1'"),
        ("-1", "column 1: expected an index, .*, found '-'"),
        ("*) ", r"column 2: expected the end, .*, found '\)'"),
        ("*, 0:4:0", "column 4: expected a step of at least 1, found '0:4:0'"),
    ],
)
def test_bad_text_is_refused_with_its_column(text, message):
    with pytest.raises(ShapeError, match=message):
        Selection.from_string(text)


def test_more_dimensions_than_the_mesh_has_are_refused():
    with pytest.raises(ShapeError, match="more dimensions than the mesh has"):
        Selection.from_string("*, *, *").ranks(GRID)


def test_a_single_index_must_exist():
    with pytest.raises(OutOfRange, match="index 4 for a dimension of size 4; use 0 to 3"):
        Selection.from_string("*, 4").ranks(GRID)


@pytest.mark.parametrize("text", ["all", "any", "*, 0:2"])
def test_a_selection_survives_pickling(text):
    selection = Selection.from_string(text)
    copy = pickle.loads(pickle.dumps(selection))
    assert (copy, hash(copy), repr(copy)) == (selection, hash(selection), f"Selection('{text}')")
    assert len(copy.ranks(GRID)) == len(selection.ranks(GRID))


def test_different_text_is_a_different_selection():
    assert Selection.all() != Selection.any()
