"""Pickles what travels: fast where it can, by value where it must, large buffers out of band.

The C pickler carries almost everything by reference. What the other side cannot import
(`__main__`, lambdas, local classes, modules outside its path) goes through cloudpickle, by value.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, NamedTuple

from monarch import config
from monarch.errors import MessageTooLarge, PicklingError

OUT_OF_BAND = 64 << 10
"""Buffers of at least so many bytes travel beside the message, not in it."""

_SMALL = 512  # bytes
_PLAIN = frozenset({int, float, bool, type(None), complex})
_PLAIN_TEXT = frozenset({str, bytes})


def _is_plain(value: Any) -> bool:
    kind = type(value)
    return kind in _PLAIN or (kind in _PLAIN_TEXT and len(value) < OUT_OF_BAND)


class Pickled(NamedTuple):
    """A pickled value: its body in chunks, and its out-of-band buffers."""

    body: bytes
    buffers: Sequence[Sequence[bytes | memoryview]] = ()
    body_in_buffer: bool = False

    def sizes(self) -> list[int]:
        """Return the size of each buffer in bytes."""
        return [sum(memoryview(chunk).nbytes for chunk in chunks) for chunks in self.buffers]

    def kept(self) -> Pickled:
        """Return the same value in memory of its own, to be sent later."""
        return self._replace(buffers=[[buffer] for buffer in copy_buffers(self.buffers)])


class _ByValue(Exception):
    """Something is not importable on the other side."""


class _TooLarge(Exception):
    """Stops a pickler as soon as the limit is passed."""

    def __init__(self, size: int) -> None:
        self.size = size


class _Sink:
    """Takes what a pickler writes. Large bytes objects stay what they are: not copied here."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size = limit, 0
        self.chunks: list[bytes] = []
        self.buffers: list[memoryview] = []

    def write(self, chunk: bytes) -> None:
        self._count(len(chunk))
        self.chunks.append(chunk)

    def take_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Keep a large contiguous buffer out of band; True sends it in the body instead."""
        try:
            view = buffer.raw()
        except BufferError:  # not contiguous
            return True
        if view.nbytes < OUT_OF_BAND:
            return True
        self._count(view.nbytes)
        self.buffers.append(view)
        return False

    def _count(self, size: int) -> None:
        self.size += size
        if self.size > self.limit:
            raise _TooLarge(self.size)


@lru_cache(maxsize=4096)
def _importable(module: str) -> bool:
    """Whether another process with the same path finds the module by its name."""
    if module == "__main__":
        return False
    path: Any = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = _find_spec(name, path)
        if spec is None:
            return name in sys.builtin_module_names
        path = spec.submodule_search_locations
    return True


def _find_spec(name: str, path: Any) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path, None)
        if spec is not None:
            return spec
    return None


def _reduce(obj: Any) -> Any:
    """`reducer_override` of the fast pickler: refuse what needs cloudpickle, carry tensors in one piece."""
    kind = type(obj)
    if kind is FunctionType or isinstance(obj, type):
        if "<" in obj.__qualname__ or not _importable(obj.__module__ or "__main__"):
            raise _ByValue
        return NotImplemented
    if kind is BuiltinFunctionType:
        return NotImplemented
    if kind is memoryview:
        return _reduce_view(obj)
    torch = sys.modules.get("torch")
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        return _reduce_tensor(torch, obj)
    return NotImplemented


class _FastPickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        return _reduce(obj)


def _slow_pickler(sink: _Sink) -> Any:
    import cloudpickle

    class ByValuePickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
        def reducer_override(self, obj: Any) -> Any:
            torch = sys.modules.get("torch")
            if torch is not None and type(obj) in (torch.Tensor, torch.nn.Parameter):
                return _reduce_tensor(torch, obj)
            if type(obj) is memoryview:
                return _reduce_view(obj)
            if type(obj) is CodeType:
                # cloudpickle hides the file, and tracebacks would be without their source lines.
                make, args, *_ = self.dispatch_table[CodeType](obj)
                return make, tuple(obj.co_filename if arg == "<dynamic-code>" else arg for arg in args)
            return super().reducer_override(obj)

    return ByValuePickler(sink, 5, buffer_callback=sink.take_buffer)


def _reduce_view(view: memoryview) -> Any:
    """Carry a view as a buffer: that is what a large `pickle.PickleBuffer` is where it arrives."""
    return rebuild_view, (pickle.PickleBuffer(view), view.format, view.shape)


def rebuild_view(buffer: Any, kind: Any, shape: tuple[int, ...]) -> memoryview:
    """Return the view that `_reduce_view` took apart, on the memory of `buffer`."""
    view = memoryview(buffer).cast("B")
    return view.cast(kind, shape) if view.nbytes else view.cast(kind)


def _register_by_value(modules: set[str]) -> Callable[[], None]:
    """Have cloudpickle carry these modules by value; returns what undoes it."""
    import cloudpickle

    added = []
    for name in modules:
        module = sys.modules.get(name)
        if module is not None and name not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(module)
            added.append(module)

    def undo() -> None:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)

    return undo


def dumps(value: Any, what: str) -> Pickled:
    """Pickle a value.

    Args:
        value: anything.
        what: names the value in errors, such as "the arguments of f".

    Raises:
        MessageTooLarge: if it has more bytes than the setting `codec_max_frame_length`.
        PicklingError: if some part of it cannot be pickled.
    """
    limit = config.get("codec_max_frame_length")
    try:
        sink = _Sink(limit)
        try:
            _FastPickler(sink, 5, buffer_callback=sink.take_buffer).dump(value)
        except (_ByValue, pickle.PicklingError):  # the latter for a class that its module does not have
            sink = _Sink(limit)
            _dump_by_value(value, sink)
    except _TooLarge as error:
        raise MessageTooLarge(error.size, limit) from None
    except Exception as error:
        raise PicklingError(f"{what} cannot be pickled: {type(error).__name__}: {error}") from error
    return _pack(sink)


def _dump_by_value(value: Any, sink: _Sink) -> None:
    loaded = {name for name, module in list(sys.modules.items()) if _is_hidden(name, module)}
    undo = _register_by_value(loaded)
    try:
        _slow_pickler(sink).dump(value)
    finally:
        undo()


def _is_hidden(name: str, module: Any) -> bool:
    return name != "__main__" and getattr(module, "__file__", None) is not None and not _importable(name)


def _pack(sink: _Sink) -> Pickled:
    buffers: list[Sequence[bytes | memoryview]] = [(view,) for view in sink.buffers]
    body_size = sum(map(len, sink.chunks))
    if body_size >= OUT_OF_BAND:
        return Pickled(b"", [sink.chunks, *buffers], body_in_buffer=True)
    return Pickled(b"".join(sink.chunks), buffers)


def dumps_call(args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> Pickled:
    """Pickle the arguments of a call; plain scalars take a short cut."""
    if kwargs or not all(map(_is_plain, args)):
        return dumps((args, kwargs), what)
    return _dumps_plain((args, kwargs), what)


def dumps_result(value: Any, what: str) -> Pickled:
    """Pickle the result of a call; plain scalars take a short cut."""
    return _dumps_plain(value, what) if _is_plain(value) else dumps(value, what)


def _dumps_plain(value: Any, what: str) -> Pickled:
    body = pickle.dumps(value, 5)
    size = len(body)
    # The limit is looked up where it could matter: most messages are smaller than any limit.
    if size > _SMALL and (size >= OUT_OF_BAND or size > config.get("codec_max_frame_length")):
        return dumps(value, what)
    return Pickled(body)


def loads(body: bytes, buffers: Sequence[memoryview], body_in_buffer: bool) -> Any:
    """Return the value that `dumps` pickled. Call it only with bytes of an authenticated peer."""
    if body_in_buffer:
        return pickle.loads(buffers[0], buffers=buffers[1:])
    if buffers:
        return pickle.loads(body, buffers=buffers)
    return pickle.loads(body)


def copy_buffers(buffers: Sequence[Sequence[bytes | memoryview]]) -> list[memoryview]:
    """Return the buffers in memory of their own, as a receiver in the same process needs them."""
    copies = []
    for chunks in buffers:
        copy = io.BytesIO()
        for chunk in chunks:
            copy.write(chunk)
        copies.append(copy.getbuffer())
    return copies


# ---- torch, only where the program has imported it


def _reduce_tensor(torch: Any, tensor: Any) -> Any:
    """Carry a dense tensor of the CPU as one buffer; torch itself would copy it three times."""
    simple = (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.is_nested)
        and (tensor.is_leaf or not tensor.requires_grad)
    )
    if not simple:
        return NotImplemented
    data = tensor.detach().contiguous()
    size = data.numel() * data.element_size()
    array: Any = (ctypes.c_ubyte * size).from_address(data.data_ptr()) if size else bytearray()
    if size:
        array.owner = data  # keeps the memory while the buffer lives
    facts = (type(tensor), data.dtype, tuple(data.shape), tensor.requires_grad)
    return rebuild_tensor, (pickle.PickleBuffer(array), *facts)


def rebuild_tensor(buffer: Any, kind: Any, dtype: Any, shape: tuple[int, ...], requires_grad: bool) -> Any:
    """Return the tensor that `_reduce_tensor` took apart, on the memory of `buffer`."""
    import torch

    if memoryview(buffer).nbytes == 0:
        tensor = torch.empty(shape, dtype=dtype)
    else:
        if memoryview(buffer).readonly:
            buffer = bytearray(buffer)
        tensor = torch.frombuffer(buffer, dtype=torch.uint8).view(dtype).view(shape)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)
