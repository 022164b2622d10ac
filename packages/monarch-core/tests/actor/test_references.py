"""Meshes, processes, hosts and ports are arguments and results like any others."""

from __future__ import annotations

from typing import Any

import pytest

from monarch.actor import Actor, Channel, endpoint, this_host


class Echo(Actor):
    def __init__(self) -> None:
        self.log: list[Any] = []

    @endpoint
    def one(self, value: Any) -> Any:
        return value

    @endpoint
    def notes(self) -> list[int]:
        return self.log

    @endpoint
    def call_one_of(self, mesh: Echo, value: Any) -> Any:
        return mesh.one.call_one(value).get()

    @endpoint
    def spawn_on(self, procs: Any) -> int:
        return len(procs.spawn("from afar", Echo).notes.call().get())

    @endpoint
    def spawn_procs_on(self, host: Any) -> int:
        procs = host.spawn_procs({"k": 2})
        count = len(procs.spawn("from afar", Echo).notes.call().get())
        procs.stop().get()
        return count


@pytest.fixture(scope="module")
def echoes(procs):
    return procs.spawn("echoes", Echo)


@pytest.fixture(scope="module")
def echo(echoes):
    return echoes.slice(gpus=0)


def test_meshes_of_actors_are_arguments(echoes):
    assert echoes.slice(gpus=0).call_one_of.call_one(echoes.slice(gpus=2), "x").get() == "x"
    back = echoes.slice(gpus=0).one.call_one(echoes).get()
    assert (back.sizes, len(back.notes.call().get())) == ({"gpus": 3}, 3)


def test_processes_and_hosts_are_arguments(echo, procs):
    assert echo.spawn_on.call_one(procs.slice(gpus=slice(1, 3))).get(timeout=30) == 2
    assert echo.spawn_procs_on.call_one(this_host()).get(timeout=30) == 2


def test_ports_are_arguments_and_results(echo):
    port, receiver = Channel.open()
    echo.one.call_one(port).get().send("back home")
    assert receiver.recv().get(timeout=20) == "back home"


def test_a_mesh_is_an_argument_before_its_actors_are_there(echo, procs):
    fresh = procs.slice(gpus=2).spawn("fresh", Echo)
    assert echo.call_one_of.call_one(fresh, 5).get(timeout=20) == 5
