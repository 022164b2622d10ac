"""What runs in a process before its first actor, and which program the process is."""

from __future__ import annotations

import os
import sys

import pytest

from monarch.actor import Actor, BootstrapCommand, default_bootstrap_cmd, endpoint, this_host
from monarch.errors import PicklingError, SpawnError


class Probe(Actor):
    def __init__(self):
        self.at_birth = dict(os.environ)

    @endpoint
    def born_with(self, name):
        return self.at_birth.get(name)

    @endpoint
    def look(self, expression):
        return eval(expression)


def set_it():
    os.environ["SET_UP"] = "done"


async def set_it_later():
    import asyncio

    await asyncio.sleep(0)
    os.environ["SET_UP"] = "done"


class CallableObject:
    def __call__(self):
        set_it()


def fail():
    raise LookupError("no such card")


async def fail_later():
    raise LookupError("no such card")


def fail_on_rank_1():
    if os.environ["MY_RANK"] == "1":
        fail()


def with_rank(point):
    return default_bootstrap_cmd().with_env({"MY_RANK": str(point.rank)})


@pytest.mark.parametrize(
    "bootstrap",
    [
        pytest.param(set_it, id="function"),
        pytest.param(set_it_later, id="coroutine-function"),
        pytest.param(lambda: os.environ.update(SET_UP="done"), id="lambda"),
        pytest.param(lambda: set_it_later(), id="returns-a-coroutine"),
        pytest.param(CallableObject(), id="object"),
    ],
)
def test_the_set_up_function_runs_before_any_actor(crew, bootstrap):
    assert crew(bootstrap=bootstrap).spawn("probe", Probe).born_with.call_one("SET_UP").get(20) == "done"


def test_the_set_up_function_runs_once_in_each_process(crew, tmp_path):
    def leave_a_trace():
        with open(tmp_path / str(os.getpid()), "a") as file:
            file.write("x")

    mesh = crew(3, bootstrap=leave_a_trace)
    for name in ("first", "second"):
        mesh.spawn(name, Probe).look.call("1").get(20)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["x"] * 3


def test_a_closure_brings_its_values(crew):
    value = {"deep": [1, 2, 3]}
    mesh = crew(bootstrap=lambda: sys.modules.__setitem__("value", value))
    assert mesh.spawn("probe", Probe).look.call_one("__import__('sys').modules['value']").get(20) == value


@pytest.mark.parametrize("bootstrap", [fail, fail_later])
def test_a_set_up_function_that_raises_fails_initialized_with_its_traceback(crew, bootstrap):
    with pytest.raises(SpawnError, match=r"no such card") as caught:
        crew(bootstrap=bootstrap).initialized.get(20)
    assert f"in {bootstrap.__name__}" in str(caught.value)


@pytest.mark.parametrize("bootstrap", [fail, fail_later])
def test_a_set_up_function_that_raises_fails_every_call(crew, bootstrap):
    probe = crew(bootstrap=bootstrap).spawn("probe", Probe)
    for _ in range(3):
        with pytest.raises(SpawnError, match="LookupError.*no such card"):
            probe.look.call_one("1").get(20)


def test_a_set_up_function_that_raises_fails_the_initialized_of_the_actors(crew):
    with pytest.raises(SpawnError, match="no such card"):
        crew(bootstrap=fail).spawn("probe", Probe).initialized.get(20)


def test_actors_on_a_process_without_set_up_can_be_stopped(crew):
    crew(bootstrap=fail).spawn("probe", Probe).stop().exception(20)
    assert crew().spawn("probe", Probe).look.call_one("1").get(20) == 1


def test_one_rank_that_is_not_set_up_leaves_the_others_alone(crew):
    probes = crew(3, bootstrap=fail_on_rank_1, bootstrap_command=with_rank).spawn("probe", Probe)
    assert [probes.slice(procs=rank).look.call_one("1").get(20) for rank in (0, 2)] == [1, 1]
    with pytest.raises(SpawnError):
        probes.look.call("1").get(20)


def test_a_set_up_function_that_exits_ends_the_process_with_its_code(crew):
    error = crew(bootstrap=lambda: sys.exit(9)).initialized.exception(20)
    assert error.exit_code == 9


def test_a_set_up_function_that_cannot_travel_is_refused_at_once():
    lock = __import__("threading").Lock()
    with pytest.raises(PicklingError, match="the bootstrap function"):
        this_host().spawn_procs(bootstrap=lambda: lock)


# ---- commands


def test_a_command_sets_variables(crew):
    command = default_bootstrap_cmd().with_env({"COLOUR": "green"})
    assert (
        crew(bootstrap_command=command).spawn("probe", Probe).born_with.call_one("COLOUR").get(20) == "green"
    )


def test_a_command_for_each_point_sees_the_labels_and_the_rank(crew):
    def command(point):
        return default_bootstrap_cmd().with_env({"POINT": f"{point.rank}:{dict(point)}"})

    found = crew(2, bootstrap_command=command).spawn("probe", Probe).born_with.call("POINT").get(20)
    assert list(found.values()) == ["0:{'procs': 0}", "1:{'procs': 1}"]


def test_none_unsets_an_inherited_variable(crew, monkeypatch):
    monkeypatch.setenv("UNWANTED", "here")
    command = default_bootstrap_cmd().with_env({"UNWANTED": None})
    assert (
        crew(bootstrap_command=command).spawn("probe", Probe).born_with.call_one("UNWANTED").get(20) is None
    )


def test_an_environment_that_is_not_inherited_has_only_what_is_given(crew, monkeypatch):
    monkeypatch.setenv("UNWANTED", "here")
    given = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "WANTED": "1"}
    default = default_bootstrap_cmd()
    command = BootstrapCommand(default.program, default.arg0, default.args, given, inherit_env=False)
    probe = crew(bootstrap_command=command).spawn("probe", Probe)
    seen = set(probe.look.call_one("list(self.at_birth)").get(20)) - {"LC_CTYPE"}  # set by Python itself
    assert seen == set(given)


def test_variables_are_set_before_the_interpreter_starts_anything(crew, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys; sys.colour_at_start = os.environ.get('COLOUR')"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = default_bootstrap_cmd().with_env({"COLOUR": "green", "PYTHONPATH": path})
    probe = crew(bootstrap_command=command).spawn("probe", Probe)
    assert probe.look.call_one("__import__('sys').colour_at_start").get(20) == "green"


def test_with_env_leaves_the_command_as_it_was():
    command = BootstrapCommand("python", env={"A": "1"})
    assert command.with_env({"B": "2"}).env == {"A": "1", "B": "2"}
    assert command.env == {"A": "1"}


def test_with_env_overrides_what_was_set_before():
    command = BootstrapCommand("python", env={"A": "1"}).with_env({"A": None}).with_env({"A": "3"})
    assert command.environment({}) == {"A": "3"}


def test_the_default_command_keeps_the_interpreter_as_it_was_called():
    assert default_bootstrap_cmd().program == sys.executable


def test_another_name_for_the_program_is_what_it_sees(crew, tmp_path):
    script = tmp_path / "script"
    script.write_text(f'ARG0="$(tr "\\0" " " < /proc/$$/cmdline)" exec "{sys.executable}" "$@"')
    command = BootstrapCommand("/bin/sh", "my-actor", [str(script), *default_bootstrap_cmd().args])
    seen = crew(bootstrap_command=command).spawn("probe", Probe).born_with.call_one("ARG0").get(20)
    assert seen.startswith("my-actor ")


@pytest.fixture
def wrapped_python(tmp_path):
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nWRAPPED=yes exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_a_program_that_execs_the_interpreter_becomes_the_process(crew, wrapped_python):
    command = BootstrapCommand(wrapped_python, args=default_bootstrap_cmd().args)
    assert (
        crew(bootstrap_command=command).spawn("probe", Probe).born_with.call_one("WRAPPED").get(20) == "yes"
    )


def test_another_interpreter_is_used_by_the_hosts_that_were_given_it(wrapped_python):
    plain = this_host()
    hosts = plain.with_python_executable(wrapped_python)
    meshes = [host.spawn_procs() for host in (hosts, plain)]
    seen = [mesh.spawn("probe", Probe).born_with.call_one("WRAPPED").get(20) for mesh in meshes]
    assert seen == ["yes", os.environ.get("WRAPPED")]
    for mesh in meshes:
        mesh.stop().get(20)


def test_a_command_wins_over_the_interpreter_of_the_hosts(wrapped_python):
    mesh = (
        this_host()
        .with_python_executable(wrapped_python)
        .spawn_procs(bootstrap_command=default_bootstrap_cmd())
    )
    assert mesh.spawn("probe", Probe).born_with.call_one("WRAPPED").get(20) is None
    mesh.stop().get(20)


def test_a_command_that_closes_its_descriptors_is_told_to_keep_them(crew, tmp_path, capfd, until):
    script = tmp_path / "python"
    closing = (
        "import os, sys; os.closerange(3, 256); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    script.write_text(f"#!{sys.executable}\n{closing}\n")
    script.chmod(0o755)
    command = BootstrapCommand(str(script), args=default_bootstrap_cmd().args)
    seen = []
    crew(bootstrap_command=command).initialized.exception(20)
    until(lambda: seen.append(capfd.readouterr().err) or "keep its descriptors open" in "".join(seen))
