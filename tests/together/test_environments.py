"""Programs in environments of their own: a virtual environment with the core and its three dependencies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from monarch.__about__ import __version__

NEEDED = ("monarch", "pluggy", "cloudpickle", "google.protobuf", "google._upb")
NOT_NEEDED = ("torch", "kubernetes", "IPython", "grpc", "numpy", "pytest")
PLUGINS = ("monarch_rdma", "monarch_fs", "monarch_telemetry", "monarch_k8s", "monarch_slurm")


class Environment:
    """A virtual environment whose interpreter is a link, with copies of what the core needs."""

    def __init__(self, folder, version=__version__):
        venv.create(folder, symlinks=True, with_pip=False)
        self.folder, self.python = folder, folder / "bin" / "python"
        self.packages = next((folder / "lib").glob("python*")) / "site-packages"
        for name in NEEDED:
            source = Path(find_spec(name).submodule_search_locations[0])
            place = self.packages.joinpath(*name.split("."))
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        (self.packages / "monarch" / "__about__.py").write_text(f'__version__ = "{version}"\n')

    def run(self, text, **environment):
        """Run a program in this environment and return what it printed."""
        script = self.folder / "program.py"
        script.write_text(text)
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        done = subprocess.run(
            [self.python, script],
            env=kept | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def newer(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("second"), "99.1.0")


PROBE = """
import os, sys
from monarch.actor import Actor, default_bootstrap_cmd, endpoint, this_host

class Probe(Actor):
    @endpoint
    def look(self, expression):
        import os, sys
        return eval(expression)

    @endpoint
    def nested(self, expression):
        mesh = this_host().spawn_procs()
        return mesh.spawn("probe", Probe).look.call_one(expression).get(30)

def probe(**options):
    return this_host().spawn_procs(**options).spawn("probe", Probe)
"""


def test_the_interpreter_of_the_environment_is_a_link(environment):
    assert environment.python.is_symlink()


def test_a_program_runs_where_nothing_else_is_installed(environment):
    assert environment.run(PROBE + "print(probe().look.call_one('1 + 1').get(30))") == ["2"]


@pytest.mark.parametrize("name", NOT_NEEDED)
def test_what_the_core_does_not_need_is_not_there(environment, name):
    assert environment.run(f"import importlib.util; print(importlib.util.find_spec({name!r}))") == ["None"]


def test_a_process_has_the_virtual_environment_of_its_program(environment):
    facts = "[sys.prefix, sys.executable]"
    printed = environment.run(PROBE + f"print(*probe().look.call_one({facts!r}).get(30))")
    assert printed == [str(environment.folder), str(environment.python)]


def test_processes_of_processes_have_it_too(environment):
    assert environment.run(PROBE + "print(probe().nested.call_one('sys.prefix').get(30))") == [
        str(environment.folder)
    ]


def test_modules_come_from_the_virtual_environment(environment):
    expression = "__import__('monarch').__file__"
    [file] = environment.run(PROBE + f"print(probe().look.call_one({expression!r}).get(30))")
    assert Path(file).is_relative_to(environment.packages)


def test_the_virtual_environment_is_kept_when_it_is_not_activated_and_path_is_empty(environment):
    printed = environment.run(PROBE + "print(probe().look.call_one('sys.prefix').get(30))", PATH="")
    assert printed == [str(environment.folder)]


def test_variables_are_there_before_the_environment_imports_anything(environment, tmp_path):
    # On PYTHONPATH, since some distributions have a sitecustomize that comes before one in a venv.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys; sys.x_at_start = os.environ.get('X'); sys.loaded = sorted(sys.modules)"
    )
    text = f"command = default_bootstrap_cmd().with_env({{'X': '1', 'PYTHONPATH': {str(tmp_path)!r}}})\n"
    text += "look = probe(bootstrap_command=command).look\n"
    text += "print(look.call_one('sys.x_at_start').get(30), 'monarch' in look.call_one('sys.loaded').get(30))"
    assert environment.run(PROBE + text) == ["1", "False"]


def test_a_process_of_another_version_is_refused_with_both_versions(environment, newer):
    printed = environment.run(
        PROBE
        + f"""
mesh = this_host().with_python_executable({str(newer.python)!r}).spawn_procs()
print(mesh.initialized.exception(30))
"""
    )
    text = " ".join(printed)
    assert f"monarch-core {__version__}" in text
    assert "monarch-core 99.1.0" in text


def test_a_call_to_a_process_of_another_version_fails_with_both_versions(environment, newer):
    text = " ".join(
        environment.run(
            PROBE
            + f"""
mesh = this_host().with_python_executable({str(newer.python)!r}).spawn_procs()
print(mesh.spawn("probe", Probe).look.call_one("1").exception(30))
"""
        )
    )
    assert f"monarch-core {__version__}" in text
    assert "monarch-core 99.1.0" in text


def test_the_refusal_comes_in_seconds(environment, newer):
    start = time.monotonic()
    environment.run(
        PROBE
        + f"""
this_host().with_python_executable({str(newer.python)!r}).spawn_procs().initialized.exception(30)
"""
    )
    assert time.monotonic() - start < 10


def test_an_interpreter_of_another_environment_has_its_own_packages(environment, tmp_path):
    other = Environment(tmp_path / "other")
    (other.packages / "only_there.py").write_text("ANSWER = 42")
    printed = environment.run(
        PROBE
        + f"""
mesh = this_host().with_python_executable({str(other.python)!r}).spawn_procs()
print(mesh.spawn("probe", Probe).look.call_one("(sys.prefix, __import__('only_there').ANSWER)").get(30))
"""
    )
    assert printed == [f"('{other.folder}',", "42)"]


# ---- with everything installed: what is not used is not imported


def imported_by(statement):
    code = f"{statement}\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import monarch", "import monarch.actor", "from monarch.actor import *"]
)
def test_the_import_loads_no_torch_no_grpc_and_no_plugin(statement):
    assert imported_by(statement).isdisjoint({*NOT_NEEDED, *PLUGINS})


@pytest.mark.parametrize("module", ["torch", "numpy", "grpc", "kubernetes", "IPython"])
def test_neither_program_nor_process_loads_what_it_does_not_use(module, tmp_path):
    script = tmp_path / "program.py"
    look = f"{module!r} in sys.modules"
    script.write_text(f"{PROBE}\nprint(probe().look.call_one({look!r}).get(30), {look})")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_import_starts_no_thread_and_opens_no_more_than_a_line_to_the_zygote():
    code = "import os, threading; before = len(os.listdir('/proc/self/fd')); import monarch.actor; "
    code += "print(threading.active_count(), len(os.listdir('/proc/self/fd')) - before)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["1", "1"]
