"""Plugins for another version of the interface, installed from wheels as they would be in the field."""

from __future__ import annotations

import pytest

from monarch.__about__ import __version__
from monarch.hookspecs import API_VERSION

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "acme-NAME"
version = "4.5"
dependencies = ["monarch-core"]
entry-points."monarch.plugins" = { NAME = "acme_NAME" }
"""

PLUGIN = """
from monarch.hookspecs import PluginInfo, hookimpl
MONARCH_API = VERSION

@hookimpl
def monarch_make_launcher(scheme):
    return object() if scheme == "NAME" else None
"""

MAJOR, MINOR = API_VERSION
VERSIONS = {"next": (MAJOR + 1, 0), "newer": (MAJOR, MINOR + 1), "old": (MAJOR - 1, 7), "fine": API_VERSION}


@pytest.fixture(scope="module")
def environment(make_environment, tmp_path_factory):
    """One with plugins of four versions, one of them the right one."""
    projects = []
    for name, version in VERSIONS.items():
        folder = tmp_path_factory.mktemp(name)
        (folder / "pyproject.toml").write_text(PROJECT.replace("NAME", name))
        (folder / f"acme_{name}.py").write_text(PLUGIN.replace("VERSION", str(version)).replace("NAME", name))
        projects.append(folder)
    return make_environment(*projects)


OLDER = f"upgrade monarch-core, which is {__version__}, or install an older"
REMEDIES = {
    "next": f"{OLDER} acme-next",
    "newer": f"{OLDER} acme-newer",
    "old": f"upgrade acme-old, or install a monarch-core older than {__version__}",
}
REFUSALS = {
    name: f"plugin '{name}' of acme-{name} 4.5 speaks interface {'.'.join(map(str, VERSIONS[name]))}, "
    f"this core speaks {MAJOR}.{MINOR}, so it is not used; {remedy}"
    for name, remedy in REMEDIES.items()
}


def test_each_is_named_at_load_with_both_versions_and_the_remedy(environment, tmp_path):
    warnings = environment.run("-c", "import monarch.plugins as p; p.installed()", folder=tmp_path).stderr
    assert sorted(warnings.splitlines()) == sorted(REFUSALS.values())


@pytest.mark.parametrize("name", REFUSALS)
def test_who_asks_for_what_it_offers_is_told_why_it_is_not_there(name, environment, tmp_path):
    program = f"""
from monarch.errors import PluginError
from monarch.plugins import launcher_for
try:
    launcher_for({name!r})
except PluginError as error:
    print(error)
"""
    said = environment.run("-c", program, folder=tmp_path).stdout
    assert f"no plugin offers a launcher for '{name}'" in said
    assert REFUSALS[name] in said


def test_the_others_and_what_ships_with_the_core_go_on(environment, tmp_path):
    program = """
from monarch.actor import Actor, endpoint, this_host
from monarch.plugins import launcher_for
class Worker(Actor):
    @endpoint
    def one(self): return 1
print(type(launcher_for("fine")).__name__)
print(this_host().spawn_procs().spawn("worker", Worker).one.call_one().get(30))
"""
    (tmp_path / "program.py").write_text(program)
    assert environment.run("program.py", folder=tmp_path).stdout.split() == ["object", "1"]
