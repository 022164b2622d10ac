"""Pickling: fast where it can be, by value where it must, large buffers out of band."""

from __future__ import annotations

import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monarch import config
from monarch._runtime.pickling import OUT_OF_BAND, copy_buffers, dumps, dumps_call, dumps_result, loads
from monarch.errors import MessageTooLarge, PicklingError

LARGE = 4 * OUT_OF_BAND


def _back(content: Any) -> Any:
    return loads(content.body, copy_buffers(content.buffers), content.body_in_buffer)


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
nested = st.recursive(
    plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner)
)


@settings(derandomize=True, deadline=None)
@given(nested)
def test_values_come_back_as_they_went(value):
    assert _back(dumps(value, "a value")) == value
    assert _back(dumps_result(value, "a value")) == value
    assert _back(dumps_call((value,), {"k": value}, "a value")) == ((value,), {"k": value})


@pytest.mark.parametrize(
    "make", [bytes, bytearray, lambda size: "x" * size], ids=["bytes", "bytearray", "text"]
)
@pytest.mark.parametrize("size", [0, OUT_OF_BAND - 1, OUT_OF_BAND, LARGE])
def test_content_of_any_size_comes_back(make, size):
    assert _back(dumps_result(make(size), "a value")) == make(size)


def test_a_small_value_has_a_body_alone():
    content = dumps((1, np.zeros(8)), "a value")
    assert (content.buffers, content.body_in_buffer) == ([], False)


def test_a_large_buffer_is_beside_the_body_and_not_copied():
    array = np.zeros(LARGE, dtype=np.uint8)
    content = dumps([array, array[:1000]], "a value")
    assert content.sizes() == [LARGE]
    array[0] = 7
    assert content.buffers[0][0][0] == 7


def test_a_large_body_is_a_buffer_itself():
    content = dumps([bytes(LARGE), np.zeros(LARGE, dtype=np.uint8)], "a value")
    assert (content.body, content.body_in_buffer, len(content.buffers)) == (b"", True, 2)
    assert _back(content)[0] == bytes(LARGE)


def test_what_is_not_contiguous_is_in_the_body():
    array = np.arange(LARGE).reshape(4, -1)[:, ::2]
    assert (_back(dumps(array, "a value")) == array).all()


def test_copies_share_nothing_with_the_sender():
    array = np.zeros(LARGE)
    back = _back(dumps(array, "a value"))
    back += 1
    assert not array.any()


def test_the_limit_counts_body_and_buffers():
    with config.configured(codec_max_frame_length=LARGE):
        assert _back(dumps(bytes(LARGE - 100), "a value"))
        for value in (bytes(LARGE), [np.zeros(LARGE // 2, dtype=np.uint8)] * 2 + [bytes(LARGE // 2)]):
            with pytest.raises(MessageTooLarge) as caught:
                dumps(value, "a value")
            assert caught.value.size > caught.value.limit == LARGE


@pytest.mark.parametrize("value", [bytes(2000), "x" * 2000, 1 << 20_000], ids=["bytes", "text", "int"])
def test_the_limit_holds_for_plain_values_too(value):
    with config.configured(codec_max_frame_length=1000):
        for refused in (lambda: dumps_result(value, "a value"), lambda: dumps_call((value,), {}, "a value")):
            with pytest.raises(MessageTooLarge, match="limit is 1000"):
                refused()


def test_a_number_too_long_for_a_message_is_a_buffer():
    content = dumps_result(1 << 8 * LARGE, "a value")
    assert content.body_in_buffer
    assert _back(content) == 1 << 8 * LARGE


def test_an_error_names_what_cannot_be_pickled():
    with pytest.raises(
        PicklingError, match=r"an argument of f\(\) cannot be pickled: TypeError: .*lock"
    ) as caught:
        dumps([threading.Lock()], "an argument of f()")
    assert isinstance(caught.value, pickle.PicklingError)


class Stubborn:
    def __reduce__(self) -> Any:
        raise KeyError("not me")


def test_whatever_a_reducer_raises_is_one_error():
    with pytest.raises(PicklingError, match="KeyError: 'not me'"):
        dumps(Stubborn(), "a value")


def test_what_another_process_can_import_goes_by_name():
    content = dumps((pytest.raises, threading.Thread, len, int), "a value")
    assert _back(content) == (pytest.raises, threading.Thread, len, int)
    assert len(content.body) < 200


def test_functions_of_main_go_by_value(monkeypatch):
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("def double(x): return factor * x\nfactor = 2", scope)
    content = dumps(scope["double"], "a function")
    scope["factor"] = 10
    assert _back(content)(4) == 8


def test_a_module_without_a_place_on_the_path_goes_by_value_and_is_not_marked_for_ever(tmp_path, monkeypatch):
    import cloudpickle

    path = tmp_path / "unseen.py"
    path.write_text("def triple(x): return 3 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import unseen  # type: ignore[import-not-found]

    monkeypatch.undo()
    content = dumps(unseen.triple, "a function")
    assert "unseen" not in cloudpickle.list_registry_pickle_by_value()
    del sys.modules["unseen"]
    assert _back(content)(3) == 9


def test_large_buffers_of_what_goes_by_value_are_beside_the_body():
    content = dumps((lambda: 1, np.zeros(LARGE)), "a value")
    assert content.sizes() == [8 * LARGE]
    function, array = _back(content)
    assert (function(), array.shape) == (1, (LARGE,))
