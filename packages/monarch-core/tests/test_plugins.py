"""Plugins as other people write them: distributions on the path, found by their metadata."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from monarch import plugins
from monarch.errors import PluginError, PluginVersionError
from monarch.hookspecs import API_VERSION, PluginInfo

ACME = """
from monarch.hookspecs import PluginInfo, hookimpl
MONARCH_API = (1, 0)

@hookimpl
def monarch_plugin_info():
    return PluginInfo("acme-lsf", "1.2", ("launcher:lsf",))

@hookimpl
def monarch_make_launcher(scheme):
    return f"{scheme} launcher" if scheme == "lsf" else None

@hookimpl
def monarch_make_transport(scheme):
    return "pigeons" if scheme == "pigeon" else None
"""


@pytest.fixture(autouse=True)
def nothing_is_loaded(monkeypatch):
    monkeypatch.setattr(plugins, "_plugins", None)
    monkeypatch.setattr(plugins, "BUILTINS", ())


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Lay a distribution with one plugin module where Python finds it."""
    monkeypatch.syspath_prepend(tmp_path)

    def _install(source: str, *, module: str = "acme_lsf", name: str = "lsf", distribution: str = "acme-lsf"):
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(source)
        metadata = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (metadata / "entry_points.txt").write_text(f"[monarch.plugins]\n{name} = {module}\n")

    return _install


def test_a_plugin_is_found_by_its_entry_point_and_makes_what_it_offers(install):
    install(ACME)
    assert plugins.launcher_for("lsf") == "lsf launcher"
    assert plugins.transport_for("pigeon") == "pigeons"
    assert PluginInfo("acme-lsf", "1.2", ("launcher:lsf",)) in plugins.installed()


def test_a_plugin_that_does_not_introduce_itself_is_listed_by_its_metadata(install):
    install("MONARCH_API = (1, 0)")
    assert PluginInfo("acme-lsf", "1.2") in plugins.installed()


def test_what_ships_with_the_core_comes_in_by_the_same_door(install, monkeypatch):
    install(ACME, module="acme_builtin", name="unused")
    monkeypatch.setattr(plugins, "BUILTINS", ("no_such_builtin",))
    with pytest.raises(PluginError, match="plugin 'no_such_builtin' of monarch-core"):
        plugins.installed()


@pytest.mark.parametrize("kind", ["transport", "launcher"])
def test_a_missing_scheme_names_those_there_are_and_what_to_install(kind, install):
    install(ACME.replace("launcher:lsf", f"{kind}:carrier"))
    ask = getattr(plugins, f"{kind}_for")
    with pytest.raises(PluginError, match=f"no plugin offers a {kind} for 'nope', installed are: .*carrier"):
        ask("nope")


@pytest.mark.parametrize(
    ("installed", "remedy"),
    [
        pytest.param([], "pip install monarch-slurm$", id="missing"),
        pytest.param(
            [PluginInfo("monarch-slurm", "0.1.0")],
            "the installed monarch-slurm does not offer it: upgrade monarch-slurm$",
            id="too-old",
        ),
    ],
)
def test_a_scheme_of_our_own_plugins_says_how_to_get_it(installed, remedy, monkeypatch):
    monkeypatch.setattr(plugins, "installed", lambda: installed)
    with pytest.raises(PluginError, match=remedy):
        plugins.launcher_for("slurm")


@pytest.mark.parametrize(
    ("theirs", "remedy"),
    [
        pytest.param((API_VERSION[0], API_VERSION[1] + 1), "upgrade monarch-core", id="minor-too-new"),
        pytest.param((API_VERSION[0] + 1, 0), "upgrade monarch-core", id="major-too-new"),
        pytest.param((API_VERSION[0] - 1, 9), "upgrade acme-lsf", id="major-too-old"),
    ],
)
def test_another_interface_version_is_refused_with_both_versions_and_the_remedy(
    theirs, remedy, install, caplog
):
    install(f"MONARCH_API = {theirs}")
    with pytest.raises(
        PluginError, match=f"no plugin offers .*plugin 'lsf' of acme-lsf 1.2 .*{remedy}"
    ) as error:
        plugins.launcher_for("lsf")
    refusal = error.value.__cause__
    assert isinstance(refusal, PluginVersionError)
    assert (refusal.plugin, refusal.distribution) == ("lsf", "acme-lsf 1.2")
    assert (refusal.theirs, refusal.ours) == (theirs, API_VERSION)
    assert [record.getMessage() for record in caplog.records] == [str(refusal)]


def test_a_plugin_of_another_interface_version_leaves_the_others_as_they_are(install):
    install("MONARCH_API = (99, 0)", module="acme_next", name="next", distribution="acme-next")
    install(ACME)
    assert plugins.launcher_for("lsf") == "lsf launcher"
    assert "acme-next" not in {info.distribution for info in plugins.installed()}


@pytest.mark.parametrize("statement", ["", "MONARCH_API = 1", "MONARCH_API = '1.0'", "MONARCH_API = (1,)"])
def test_a_plugin_has_to_state_its_interface_version(statement, install):
    install(statement)
    with pytest.raises(PluginError, match=r"plugin 'lsf' of acme-lsf .* states no interface version"):
        plugins.installed()


def test_a_plugin_that_cannot_be_imported_is_named_and_the_cause_kept(install):
    install("import no_such_module")
    with pytest.raises(PluginError, match="plugin 'lsf' of acme-lsf .* cannot be imported") as broken:
        plugins.installed()
    assert isinstance(broken.value.__cause__, ModuleNotFoundError)


def test_a_plugin_that_asks_the_core_for_what_it_has_not_is_written_for_another(install):
    install("from monarch.abc import TelepathicTransport")
    with pytest.raises(PluginError, match="'TelepathicTransport'.*written for another monarch-core than"):
        plugins.installed()


def test_two_plugins_of_one_name_are_refused_and_both_named(install):
    install(ACME)
    install(ACME, module="other_lsf", distribution="other-lsf")
    with pytest.raises(
        PluginError, match="two plugins have the name 'lsf': (acme|other)-lsf and (acme|other)-lsf"
    ):
        plugins.installed()


@pytest.mark.parametrize(
    "hook", ["monarch_make_launcher(scheme, colour)", "monarch_make_coffee()"], ids=["argument", "hook"]
)
def test_an_unknown_hook_or_argument_is_an_error_that_names_the_plugin(hook, install):
    install(f"from monarch.hookspecs import hookimpl\nMONARCH_API = (1, 0)\n@hookimpl\ndef {hook}: ...\n")
    with pytest.raises(PluginError, match="plugin 'lsf' of acme-lsf .* cannot be registered"):
        plugins.installed()


def test_an_implementation_may_take_fewer_arguments_than_the_hook_offers(install):
    hook = "@hookimpl\ndef monarch_make_launcher(): return 'the only one'\n"
    install(f"from monarch.hookspecs import hookimpl\nMONARCH_API = (1, 0)\n{hook}")
    assert plugins.launcher_for("anything") == "the only one"


def test_plugins_load_once_however_many_threads_ask(install, tmp_path):
    install(ACME + "\nwith open(__file__ + '.count', 'a') as count: count.write('x')\n")
    threads = [threading.Thread(target=plugins.installed) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert (tmp_path / "acme_lsf.py.count").read_text() == "x"


def test_a_plugin_that_asks_for_plugins_while_it_is_imported_gets_an_error_and_no_deadlock(install):
    install("from monarch.plugins import installed\ninstalled()")
    with pytest.raises(PluginError, match="while it was being imported"):
        plugins.installed()


def test_a_feature_to_come_is_refused_with_the_version_and_other_names_as_usual():
    refuse = plugins.not_yet_offered("acme-lsf", "1.2", "LsfJob")
    with pytest.raises(PluginError, match=r"acme-lsf 1\.2 does not offer LsfJob yet"):
        refuse("LsfJob")
    with pytest.raises(AttributeError, match="module 'acme_lsf' has no attribute 'LsfJobs'"):
        refuse("LsfJobs")


def test_importing_the_module_loads_no_plugin_and_no_packaging_metadata():
    late = ("importlib.metadata", "monarch._builtin")
    program = f"import sys, monarch.plugins; print(*[name for name in {late} if name in sys.modules])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
