"""What travels, by which way, and that nobody sees what another does to it."""

from __future__ import annotations

import dataclasses
import os
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from monarch.actor import Actor, endpoint, this_proc

LARGE = 1 << 20


class Echo(Actor):
    @endpoint
    def echo(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    @endpoint
    def one(self, value: Any) -> Any:
        return value

    @endpoint
    def bump(self, array: Any, by: int = 1) -> Any:
        array += by
        return array


@pytest.fixture(scope="module")
def echoes(procs):
    return procs.spawn("echoes", Echo)


@pytest.fixture(scope="module")
def echo(echoes):
    return echoes.slice(gpus=0)


@pytest.fixture(scope="module", params=["client", "process"])
def either(request, echo):
    return this_proc().spawn("local", Echo) if request.param == "client" else echo


@dataclasses.dataclass
class Pair:
    left: Any
    right: Any


# ---- by kind


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="none"),
        pytest.param(10**100, id="big-int"),
        pytest.param("text " * LARGE, id="long-text"),
        pytest.param([1, {"two": (3.0, {4})}, b"five"], id="nested"),
        pytest.param([[number, str(number)] for number in range(50_000)], id="large-body"),
        pytest.param(Pair(1, Pair([2], None)), id="dataclass"),
        pytest.param(range(3), id="range"),
        pytest.param(b"", id="no-bytes"),
        pytest.param(os.urandom(1000), id="bytes"),
        pytest.param(os.urandom(3 * LARGE), id="large-bytes"),
        pytest.param(bytearray(b"abc"), id="bytearray"),
        pytest.param(bytearray(os.urandom(LARGE)), id="large-bytearray"),
        pytest.param(ValueError("as a value"), id="exception"),
    ],
)
def test_values_come_back_as_they_went(either, value):
    back = either.one.call_one(value).get()
    assert type(back) is type(value)
    assert repr(back) == repr(value) if isinstance(value, Exception) else back == value


@pytest.mark.parametrize("size", [10, LARGE], ids=["small", "large"])
def test_a_pickle_buffer_arrives_with_its_bytes(either, size):
    content = bytearray(os.urandom(size))
    assert bytes(either.one.call_one(pickle.PickleBuffer(content)).get()) == content


ARRAYS = [
    pytest.param(np.arange(6, dtype=np.int16).reshape(2, 3), id="small"),
    pytest.param(np.arange(LARGE, dtype=np.float32).reshape(1024, -1), id="large"),
    pytest.param(np.zeros((0, 3)), id="empty"),
    pytest.param(np.array(3.5), id="no-dimensions"),
    pytest.param(np.asfortranarray(np.arange(LARGE).reshape(1024, -1)), id="column-order"),
    pytest.param(np.arange(LARGE)[::3], id="strided"),
    pytest.param(np.arange(LARGE).reshape(1024, -1).T[::-1], id="reversed"),
    pytest.param(np.array(["a", "bc"]), id="text"),
    pytest.param(np.array([{"an": "object"}, None]), id="objects"),
    pytest.param(np.zeros(3, dtype=[("x", "i4"), ("y", "f8")]), id="records"),
]


@pytest.mark.parametrize("array", ARRAYS)
def test_arrays_come_back_as_they_went_and_writable(either, array):
    back = either.one.call_one(array).get()
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert (back == array).all()
    assert back.flags.writeable


DTYPES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "float8_e4m3fn",
]


@pytest.mark.parametrize("count", [4, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_every_type_come_back_as_they_went(either, dtype, count):
    tensor = (torch.arange(count) % 2).to(getattr(torch, dtype)).reshape(2, -1)
    back = either.one.call_one(tensor).get()
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(back.view(torch.uint8), tensor.view(torch.uint8))


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.empty(0, 3), id="empty"),
        pytest.param(torch.tensor(2.5), id="no-dimensions"),
        pytest.param(torch.arange(12).reshape(3, 4).t(), id="transposed"),
        pytest.param(torch.arange(LARGE)[::2], id="strided"),
        pytest.param(torch.ones(3).expand(4, 3), id="expanded"),
        pytest.param(torch.eye(3).to_sparse(), id="sparse"),
        pytest.param(torch.tensor([1 + 2j]).conj(), id="conjugate"),
        pytest.param(torch.ones(2, requires_grad=True), id="leaf-with-gradient"),
        pytest.param(torch.nn.Parameter(torch.ones(300, 300)), id="parameter"),
        pytest.param(torch.nn.Parameter(torch.ones(2), requires_grad=False), id="frozen-parameter"),
    ],
)
def test_tensors_of_every_layout_come_back_as_they_went(either, tensor):
    back = either.one.call_one(tensor).get()
    assert (type(back), back.requires_grad) == (type(tensor), tensor.requires_grad)
    assert torch.equal(back.to_dense(), tensor.to_dense())


def test_a_tensor_that_arrives_can_be_written(either):
    assert either.bump.call_one(torch.arange(3)).get().tolist() == [1, 2, 3]
    assert (either.one.call_one(torch.zeros(LARGE)).get().add_(1) == 1).all()


def test_a_module_arrives_with_its_parameters(echo):
    module = torch.nn.Linear(300, 300)
    back = echo.one.call_one(module).get()
    assert isinstance(back.weight, torch.nn.Parameter)
    assert torch.equal(back(torch.ones(300)), module(torch.ones(300)))


def test_one_tensor_named_twice_arrives_as_one(echo):
    tensor = torch.zeros(LARGE)
    left, right = echo.one.call_one((tensor, tensor)).get()
    assert left is right


def test_many_buffers_travel_in_one_message(echo):
    arrays = [np.full(LARGE >> 3, number) for number in range(100)]
    assert [int(array[-1]) for array in echo.one.call_one(arrays).get()] == [*range(100)]


@pytest.mark.parametrize("format", ["B", "i", "d"])
@pytest.mark.parametrize("count", [0, 8, LARGE])
def test_a_view_of_memory_comes_back_as_it_went(either, format, count):
    view = memoryview(bytearray(os.urandom(count))).cast(format)
    back = either.one.call_one(view).get()
    assert (back.format, back.shape, back.tobytes()) == (format, view.shape, view.tobytes())
