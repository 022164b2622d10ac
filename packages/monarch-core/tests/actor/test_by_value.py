"""Classes and functions that another process cannot import travel by value."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest

from monarch.actor import Actor, endpoint


class Echo(Actor):
    @endpoint
    def one(self, value: Any) -> Any:
        return value

    @endpoint
    def apply(self, function: Any, *args: Any) -> Any:
        return function(*args)


@pytest.fixture(scope="module")
def echo(procs):
    return procs.slice(gpus=0).spawn("echo", Echo)


def local_function(x: int) -> int:
    return x + 1


def test_functions_closures_and_local_classes_travel(echo):
    offset = 10

    class Local:
        def method(self) -> str:
            return "local"

    assert echo.apply.call_one(lambda x: x + offset, 1).get() == 11
    assert echo.apply.call_one(local_function, 1).get() == 2
    assert echo.apply.call_one(len, [1, 2]).get() == 2
    assert type(echo.one.call_one(Local()).get()) is Local
    assert echo.apply.call_one(Local.method, Local()).get() == "local"


def test_a_class_made_at_run_time_travels(echo):
    made = type("Made", (), {"method": lambda self: "made"})
    assert echo.apply.call_one(made.method, made()).get() == "made"
    assert type(echo.one.call_one(made()).get()) is made


HIDDEN = """
SCALE = 3

class Thing:
    def scaled(self, x): return helper(x)

def helper(x): return x * SCALE
"""


def test_a_module_outside_the_path_of_the_workers_travels(echo, tmp_path, monkeypatch):
    path = tmp_path / "hidden_module.py"
    path.write_text(HIDDEN)
    spec = importlib.util.spec_from_file_location("hidden_module", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hidden_module", module)
    spec.loader.exec_module(module)
    assert echo.apply.call_one(module.helper, 2).get() == 6
    assert echo.apply.call_one(module.Thing().scaled, 2).get() == 6


def test_classes_and_functions_of_main_travel(script):
    done = script("""
import dataclasses, enum
from monarch.actor import Actor, ActorError, endpoint, this_host

class Colour(enum.Enum):
    RED = 1

@dataclasses.dataclass
class Point:
    x: int
    def norm(self): return helper(self.x)

class Odd(Exception):
    pass

def helper(x): return abs(x)

class A(Actor):
    calls = 0
    @endpoint
    def apply(self, f, *a):
        A.calls += 1
        return f(*a), A.calls
    @endpoint
    def fail(self, error): raise error

a = this_host().spawn_procs().spawn("a", A)
print(a.apply.call_one(lambda p: p.norm(), Point(-3)).get())
print(a.apply.call_one(Point.norm, Point(-4)).get(), a.apply.call_one(type, Colour.RED).get()[0] is Colour)
print(type(a.fail.call_one(Odd("x")).exception().exception) is Odd)
""")
    assert done.stdout.splitlines() == ["(3, 1)", "(4, 2) True", "True"], done.stderr


FAILING_MAIN = """
from monarch.actor import Actor, ActorError, endpoint, this_host

class Fails(Actor):
    @endpoint
    def run(self):
        raise ValueError("on purpose")

try:
    this_host().spawn_procs().spawn("fails", Fails).run.call_one().get()
except ActorError as error:
    print(error)
"""


def test_the_traceback_of_code_of_main_has_its_file_and_its_line(script):
    shown = script(FAILING_MAIN).stdout
    assert 'program.py", line 7, in run' in shown
    assert 'raise ValueError("on purpose")' in shown
