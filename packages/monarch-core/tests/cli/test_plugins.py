"""`monarch plugins`: what is plugged in."""

from __future__ import annotations

import json

import pytest

from monarch import __version__, plugins
from monarch.cli import main
from monarch.errors import PluginVersionError


def test_the_core_is_listed_with_what_it_offers(capsys):
    assert main(["plugins", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    [core] = [each for each in document["plugins"] if each["distribution"] == "monarch-core"]
    assert (core["version"], core["interface"]) == (__version__, document["interface"])
    assert {"transport:ipc", "launcher:local"} <= set(core["offers"])


def test_people_get_a_table(capsys):
    assert main(["plugins"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["DISTRIBUTION", "VERSION", "INTERFACE", "OFFERS"]
    assert any(line.startswith("monarch-core ") for line in lines)


@pytest.mark.parametrize("words", [["plugins"], ["plugins", "--json"]], ids=" ".join)
def test_one_that_is_not_used_is_named_with_the_remedy(words, capsys, monkeypatch):
    error = PluginVersionError("acme", "acme-monarch 2.0", (2, 0), (1, 0), "upgrade monarch-core")
    monkeypatch.setattr(plugins, "left_out", lambda: [error])
    assert main(words) == 0
    out, err = capsys.readouterr()
    shown = json.loads(out)["left_out"][0]["message"] if "--json" in words else err
    assert all(word in shown for word in ("acme", "2.0", "upgrade monarch-core"))
