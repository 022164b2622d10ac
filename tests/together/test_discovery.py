"""All packages of the repository at once, as a user has them who installed everything."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points, version

import pytest

from monarch.errors import PluginError
from monarch.plugins import ENTRY_POINT_GROUP, installed, launcher_for, transport_for

PLUGINS = {
    "monarch-fs": ("remotemount", "gather_mount"),
    "monarch-k8s": ("KubernetesJob",),
    "monarch-rdma": ("RDMABuffer", "RDMAAction"),
    "monarch-slurm": ("SlurmJob",),
    "monarch-telemetry": ("TelemetryConfig", "QueryEngine"),
}
FEATURES = [(distribution, name) for distribution, names in PLUGINS.items() for name in names]


def test_every_plugin_has_one_entry_point():
    found = {entry.name: entry.value for entry in entry_points(group=ENTRY_POINT_GROUP)}
    assert found == {name.removeprefix("monarch-"): f"{name.replace('-', '_')}.plugin" for name in PLUGINS}


def test_the_core_lists_itself_and_every_plugin_with_its_version():
    assert {info.distribution: info.version for info in installed()} == {
        name: version(name) for name in ("monarch-core", *PLUGINS)
    }


@pytest.mark.parametrize("distribution", ["monarch-core", *PLUGINS])
def test_the_version_of_the_distribution_is_the_one_in_its_source(distribution):
    package = "monarch" if distribution == "monarch-core" else distribution.replace("-", "_")
    assert importlib.import_module(f"{package}.__about__").__version__ == version(distribution)


@pytest.mark.parametrize(("distribution", "name"), FEATURES)
def test_a_feature_to_come_names_its_distribution_and_version(distribution, name):
    with pytest.raises(
        PluginError, match=f"{distribution} {version(distribution)} does not offer {name} yet"
    ):
        getattr(importlib.import_module(distribution.replace("-", "_")), name)


def test_the_built_in_transport_and_launcher_are_there():
    assert transport_for("ipc") is not None
    assert launcher_for("local") is not None


def test_asking_for_a_scheme_of_an_installed_plugin_names_that_plugin():
    with pytest.raises(PluginError, match="the installed monarch-slurm does not offer it"):
        launcher_for("slurm")
