"""Wrong use is refused where it happens; each message names the thing, the fact and the remedy."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from monarch import config
from monarch.actor import (
    Actor,
    ActorMesh,
    Future,
    ProcId,
    Uid,
    as_endpoint,
    concurrent_endpoint,
    context,
    endpoint,
    send,
    this_host,
    this_proc,
)
from monarch.errors import (
    CallError,
    ConfigError,
    MeshClosed,
    MessageTooLarge,
    MonarchError,
    NotAnActor,
    PicklingError,
    SupervisionError,
)


class Plain(Actor):
    def __init__(self, start: int = 0) -> None:
        self.value = start

    @endpoint
    def add(self, n: int) -> int:
        return self.value + n

    @endpoint
    def other(self) -> None:
        pass

    def hidden(self) -> int:
        return self.value


class Stops(Actor):
    @endpoint
    def stop(self) -> None:
        pass


class NoActor:
    pass


def _method() -> None:
    pass


async def _async_method() -> None:
    pass


@pytest.fixture(scope="module")
def mesh(procs):
    return procs.spawn("plain", Plain)


@pytest.fixture(scope="module")
def done(mesh):
    future = mesh.slice(gpus=0).add.call_one(1)
    future.get()
    return future


def _too_large(mesh: Any) -> None:
    with config.configured(codec_max_frame_length=1000):
        mesh.add.broadcast(b"x" * 2000)


MESHES = [
    ("slice-unknown-dimension", TypeError, lambda m: m.slice(hosts=0), ["hosts", "has no dimension", "gpus"]),
    ("slice-out-of-range", IndexError, lambda m: m.slice(gpus=3), ["gpus", "3"]),
    ("slice-negative", IndexError, lambda m: m.slice(gpus=-1), ["gpus", "-1"]),
    ("slice-empty-range", ValueError, lambda m: m.slice(gpus=slice(2, 2)), ["gpus", "empty"]),
    ("slice-backwards", ValueError, lambda m: m.slice(gpus=slice(None, None, -1)), ["gpus", "-1"]),
    (
        "split-not-divisible",
        ValueError,
        lambda m: m.split(gpus=("a", "b"), b=2),
        ["gpus", "3", "choose sizes"],
    ),
    (
        "split-two-unknown",
        ValueError,
        lambda m: m.split(gpus=("a", "b")),
        ["gpus", "give sizes for all but one"],
    ),
    ("split-duplicate", ValueError, lambda m: m.split(gpus=("a", "a"), a=1), ["a"]),
    ("split-unused-size", ValueError, lambda m: m.split(gpus=("a", "b"), b=3, c=2), ["c", "no dimension"]),
    ("split-text", ValueError, lambda m: m.split(gpus="ab"), ["gpus", "give a tuple"]),
    (
        "flatten-sparse",
        ValueError,
        lambda m: m.slice(gpus=slice(0, 3, 2)).flatten("x"),
        ["sparse", "before you slice"],
    ),
    ("rename-unknown", ValueError, lambda m: m.rename(hosts="x"), ["hosts", "gpus"]),
    ("size-unknown", KeyError, lambda m: m.size("hosts"), ["hosts", "gpus"]),
]

CALLS = [
    (
        "call-one-of-many",
        ValueError,
        lambda m: m.add.call_one(1),
        ["'plain' has 3", "exactly 1", "slice the mesh"],
    ),
    ("missing-argument", TypeError, lambda m: m.add.call(), ["add()", "'n'"]),
    ("too-many-arguments", TypeError, lambda m: m.add.broadcast(1, 2), ["add()", "positional argument"]),
    ("unknown-argument", TypeError, lambda m: m.add.stream(k=1), ["add()", "'k'"]),
    ("choose-arguments", TypeError, lambda m: m.add.choose(), ["add()", "'n'"]),
    ("unknown-endpoint", AttributeError, lambda m: m.subtract, ["Plain", "'subtract'", "it has add, other"]),
    ("not-annotated", RuntimeError, lambda m: m.hidden(), ["Plain.hidden", "not annotated", "as_endpoint"]),
    (
        "not-annotated-adverb",
        RuntimeError,
        lambda m: m.hidden.call(),
        ["Plain.hidden", "not annotated", "@endpoint"],
    ),
    ("as-endpoint-of-a-function", ValueError, lambda m: as_endpoint(_method), ["_method", "mesh.method"]),
    ("unpicklable-argument", PicklingError, lambda m: m.add.call(threading.Lock()), ["plain.add()", "lock"]),
    (
        "future-as-argument",
        PicklingError,
        lambda m: m.add.call(m.add.call(1)),
        ["plain.add()", "a Future", "send its result"],
    ),
    ("too-large", MessageTooLarge, _too_large, ["2", "limit is 1000", "codec_max_frame_length"]),
    (
        "selection",
        ValueError,
        lambda m: send(m.add, (1,), {}, selection="some"),
        ["'some'", "'all' or 'choose'"],
    ),
    ("rref", CallError, lambda m: m.add.rref(1), ["plain.add", "tensor layer", "use call()"]),
]

DECLARATIONS = [
    ("endpoint-twice", ValueError, lambda: endpoint(Plain.add), ["'add'", "endpoint already", "only one"]),
    (
        "concurrent-twice",
        ValueError,
        lambda: concurrent_endpoint(Plain.add),
        ["'add'", "endpoint already", "only one"],
    ),
    ("concurrent-sync", ValueError, lambda: concurrent_endpoint(_method), ["'_method'", "async def"]),
    (
        "propagate",
        ValueError,
        lambda: endpoint(propagate="guess")(_async_method),
        ["'guess'", "cached", "function"],
    ),
    ("not-a-method", TypeError, lambda: endpoint(3), ["3", "method"]),
    ("future-constructed", TypeError, Future, ["Future", "mesh.endpoint.call"]),
    ("client-abort", RuntimeError, lambda: context().actor_instance.abort(), ["'client'", "not an actor"]),
    ("client-stop", RuntimeError, lambda: context().actor_instance.stop(), ["'client'", "not an actor"]),
    ("uid-text", ValueError, lambda: Uid.from_string("no"), ["'no'", "label<base58>"]),
    ("proc-id-text", ValueError, lambda: ProcId.from_string("a<0>"), ["'a<0>'", "label<base58>"]),
    (
        "setting",
        ConfigError,
        lambda: config.configure(codec_max=1),
        ["'codec_max'", "codec_max_frame_length"],
    ),
]

SPAWNS = [
    (
        "no-actor-class",
        NotAnActor,
        lambda p: p.spawn("x", NoActor),
        ["NoActor", "derives from monarch.actor.Actor"],
    ),
    ("an-instance", NotAnActor, lambda p: p.spawn("x", Plain()), ["Plain", "takes a class"]),
    ("name-taken", NotAnActor, lambda p: p.spawn("x", Stops), ["'stop' of Stops", "every mesh", "rename it"]),
    (
        "constructor-arguments",
        TypeError,
        lambda p: p.spawn("x", Plain, 1, 2),
        ["__init__()", "positional argument"],
    ),
    ("constructor-keyword", TypeError, lambda p: p.spawn("x", Plain, begin=1), ["__init__()", "'begin'"]),
    ("unpicklable", PicklingError, lambda p: p.spawn("x", Plain, threading.Lock()), ["Plain()", "lock"]),
]


def _cases(table: list[Any]) -> Any:
    return pytest.mark.parametrize(
        ("kind", "use", "words"), [pytest.param(*rest, id=name) for name, *rest in table]
    )


def _refused(kind: type, use: Any, words: list[str]) -> None:
    with pytest.raises(kind) as caught:
        use()
    assert [word for word in words if word not in str(caught.value)] == []


@_cases(MESHES)
def test_wrong_use_of_a_shape_is_refused(mesh, kind, use, words):
    _refused(kind, lambda: use(mesh), words)


@_cases(CALLS)
def test_wrong_use_of_an_endpoint_is_refused_and_nothing_is_sent(mesh, kind, use, words):
    _refused(kind, lambda: use(mesh), words)
    assert list(mesh.add.call(1).get().values()) == [1, 1, 1]


@_cases(DECLARATIONS)
def test_wrong_declarations_are_refused(kind, use, words):
    _refused(kind, use, words)


@_cases(SPAWNS)
def test_wrong_use_of_spawn_is_refused(procs, kind, use, words):
    _refused(kind, lambda: use(procs), words)


@pytest.mark.parametrize("timeout", [-1, -0.5, float("nan"), float("-inf"), "1", True, [], 1j])
@pytest.mark.parametrize("look", ["get", "result", "exception"])
def test_a_timeout_that_is_none_is_refused_also_for_a_result_that_is_there(done, look, timeout):
    _refused(ValueError, lambda: getattr(done, look)(timeout), ["timeout", repr(timeout), "seconds"])
    assert done.get() == 1


def test_an_actor_class_is_refused_before_anything_is_spawned(procs):
    with pytest.raises(NotAnActor):
        this_proc().spawn("x", Stops)
    assert "stop" in dir(ActorMesh)


# ---- use after the end


def test_a_stopped_mesh_of_actors_says_so(procs):
    mesh = procs.spawn("short", Plain)
    mesh.stop("no more work").get(timeout=20)
    for use in (mesh.add.call, mesh.slice(gpus=1).add.call_one, mesh.add.choose):
        error = use(1).exception(timeout=20)
        assert isinstance(error, MeshClosed)
        assert isinstance(error, SupervisionError)
        assert "'short'" in str(error)
        assert "stopped: no more work" in str(error)


def test_a_stopped_mesh_of_processes_says_so():
    procs = this_host().spawn_procs(name="short")
    mesh = procs.spawn("plain", Plain)
    procs.stop("enough").get(timeout=30)
    _refused(MeshClosed, lambda: procs.spawn("x", Plain), ["'x'", "'short'", "stopped: enough"])
    error = mesh.add.call_one(1).exception(timeout=20)
    assert isinstance(error, SupervisionError)
    assert "enough" in str(error)


def test_every_refusal_of_ours_has_one_base():
    assert all(
        issubclass(kind, MonarchError) for kind in (NotAnActor, PicklingError, MeshClosed, MessageTooLarge)
    )
