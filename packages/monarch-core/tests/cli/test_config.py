"""`monarch config`: values, and where they come from."""

from __future__ import annotations

import json

import pytest

from monarch import config
from monarch.cli import main


@pytest.fixture(autouse=True)
def _project(monkeypatch, tmp_path):
    (tmp_path / "monarch.toml").write_text("tail_log_lines = 5\n")
    monkeypatch.chdir(tmp_path)
    for name, fresh in (("_runtime", {}), ("_cached", {}), ("_file_values", None), ("_file_path", None)):
        monkeypatch.setattr(config, name, fresh)


def rows(capsys):
    return {each["name"]: each for each in json.loads(capsys.readouterr().out)["settings"]}


def test_all_settings_are_listed(capsys):
    assert main(["config", "--json"]) == 0
    assert rows(capsys).keys() == config.SETTINGS.keys()


def test_each_says_where_its_value_comes_from(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MONARCH_CLEANUP_TIMEOUT", "1s")
    main(["config", "--json"])
    found = rows(capsys)
    assert (found["tail_log_lines"]["value"], found["tail_log_lines"]["from"]) == (
        5,
        str(tmp_path / "monarch.toml"),
    )
    assert (found["cleanup_timeout"]["value"], found["cleanup_timeout"]["from"]) == (
        1.0,
        "MONARCH_CLEANUP_TIMEOUT",
    )
    assert found["proc_start_timeout"]["from"] == "default"


def test_some_can_be_asked_for_by_name(capsys):
    assert main(["config", "tail_log_lines"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "VALUE", "FROM", "MEANING"]
    assert row.split()[:2] == ["tail_log_lines", "5"]


def test_an_unknown_name_is_an_error_with_the_nearest(capsys):
    assert main(["config", "tail_log_line", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "ConfigError"
    assert "tail_log_lines" in error["message"]
