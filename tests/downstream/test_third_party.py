"""A transport that somebody else wrote: built, installed, found, tested by the kit, and used by a program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ACME = Path(__file__).parent / "acme-monarch-loopback"

# Installed beside it: a module that answers for `ipc`, the scheme of all processes of this host.
EVERYWHERE = """
from acme_loopback.transport import LoopbackTransport
from monarch.hookspecs import hookimpl

MONARCH_API = (1, 0)

@hookimpl
def monarch_make_transport(scheme):
    return LoopbackTransport() if scheme == "ipc" else None
"""

PROGRAM = """
import glob, os
import monarch.actor
from monarch.actor import Actor, SupervisionError, endpoint, this_host

class Worker(Actor):
    @endpoint
    def double(self, content):
        return bytes(content) * 2

    @endpoint
    def tcp_sockets(self):
        links = {os.readlink(path) for path in glob.glob("/proc/self/fd/*") if os.path.islink(path)}
        with open("/proc/net/tcp") as table:
            return len(links & {f"socket:[{line.split()[9]}]" for line in table})

    @endpoint
    def crash(self):
        os._exit(3)

monarch.actor.unhandled_fault_hook = lambda failure: None
workers = this_host().spawn_procs({"gpus": 2}).spawn("workers", Worker)
large = os.urandom(5 << 20)
print(all(value == large * 2 for value in workers.double.call(large).get(30).values()))
print(all(count >= 2 for count in workers.tcp_sockets.call().get(30).values()))
try:
    workers.slice(gpus=1).crash.call_one().get(30)
except SupervisionError as error:
    print("exited with code 3" in str(error))
"""


@pytest.fixture(scope="module")
def environment(make_environment):
    return make_environment(ACME)


def test_the_core_finds_it_in_the_metadata(environment, tmp_path):
    listing = "import monarch.plugins; print(*monarch.plugins.installed(), sep='\\n')"
    found, core = environment.run("-c", listing, folder=tmp_path).stdout.splitlines()
    assert found == (
        "PluginInfo(distribution='acme-monarch-loopback', version='0.1.0', offers=('transport:loopback',))"
    )
    assert "distribution='monarch-core'" in core


def test_it_passes_the_kit_that_the_core_ships(environment, tmp_path):
    shutil.copytree(ACME / "tests", tmp_path / "tests")
    shutil.copy(ACME / "pyproject.toml", tmp_path)
    summary = environment.run("-m", "pytest", "-q", "-rs", folder=tmp_path).stdout.splitlines()[-1]
    assert "passed" in summary
    assert "skipped" not in summary


def test_a_program_runs_on_it(environment, tmp_path):
    (environment.packages / "everywhere.py").write_text(EVERYWHERE)
    metadata = environment.packages / "everywhere-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: everywhere\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[monarch.plugins]\neverywhere = everywhere\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    try:
        assert environment.run("program.py", folder=tmp_path).stdout.split() == ["True"] * 3
    finally:
        shutil.rmtree(metadata)
