"""Settings: configured, from the environment, or by default; inherited by what is spawned."""

from __future__ import annotations

import pytest

from monarch import config
from monarch.actor import Actor, endpoint, this_host
from monarch.config import (
    SETTINGS,
    clear_runtime_config,
    configure,
    configured,
    get_global_config,
    get_runtime_config,
)
from monarch.errors import ConfigError, ConfigTypeError

FRAME = "codec_max_frame_length"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # no file of settings there
    monkeypatch.setattr(config, "_runtime", {})
    monkeypatch.setattr(config, "_cached", {})
    monkeypatch.setattr(config, "_file_values", None)
    monkeypatch.setattr(config, "_file_path", None)


def test_without_anything_every_setting_has_its_default():
    assert get_global_config() == {name: setting.default for name, setting in SETTINGS.items()}
    assert get_runtime_config() == {}


def test_what_was_configured_comes_before_the_environment(monkeypatch):
    monkeypatch.setenv("MONARCH_CLEANUP_TIMEOUT", "7s")
    assert config.get("cleanup_timeout") == 7.0
    configure(cleanup_timeout=8)
    assert config.get("cleanup_timeout") == 8.0
    assert get_runtime_config() == {"cleanup_timeout": 8.0}
    clear_runtime_config()
    assert config.get("cleanup_timeout") == 7.0


def test_the_environment_is_read_once(monkeypatch):
    monkeypatch.setenv(f"MONARCH_{FRAME.upper()}", "1000")
    assert config.get(FRAME) == 1000
    monkeypatch.setenv(f"MONARCH_{FRAME.upper()}", "2000")
    assert config.get(FRAME) == 1000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30.0), ("1.5 m", 90.0), ("1h", 3600.0), ("2", 2.0), (" 3s ", 3.0)],
)
def test_durations_are_numbers_or_text_with_a_unit(text, seconds):
    configure(cleanup_timeout=text)
    assert config.get("cleanup_timeout") == seconds


def test_configured_holds_for_a_block_and_puts_back_what_was_there():
    configure(cleanup_timeout=1)
    with configured(cleanup_timeout=2, **{FRAME: 5}) as inside:
        assert (inside["cleanup_timeout"], inside[FRAME]) == (2.0, 5)
    assert get_runtime_config() == {"cleanup_timeout": 1.0}


def test_configured_puts_back_what_was_there_after_an_error():
    with pytest.raises(ZeroDivisionError), configured(cleanup_timeout=2):
        raise ZeroDivisionError
    assert get_runtime_config() == {}


@pytest.mark.parametrize(
    ("name", "value", "kind", "words"),
    [
        ("cleanup_timout", 1, ConfigError, "no setting 'cleanup_timout'; did you mean 'cleanup_timeout'"),
        (
            "nothing_like_it",
            1,
            ConfigError,
            "no setting 'nothing_like_it'; the settings are: .*cleanup_timeout",
        ),
        (FRAME, 1.5, ConfigTypeError, f"'{FRAME}' takes int, not float: 1.5"),
        (FRAME, True, ConfigTypeError, f"'{FRAME}' takes int, not bool"),
        (FRAME, None, ConfigTypeError, f"'{FRAME}' takes int, not NoneType"),
        (FRAME, "many", ConfigError, f"'{FRAME}' cannot be read from 'many'"),
        (FRAME, -1, ConfigError, f"'{FRAME}' must not be negative: -1"),
        ("cleanup_timeout", "5 weeks", ConfigError, "'cleanup_timeout' cannot be read from '5 weeks'"),
        ("cleanup_timeout", [1], ConfigTypeError, "takes seconds or text such as '30s', not list"),
        ("cleanup_timeout", float("nan"), ConfigError, "'cleanup_timeout'"),
    ],
)
def test_a_setting_that_is_wrong_is_refused_and_nothing_is_changed(name, value, kind, words):
    with pytest.raises(kind, match=words) as caught:
        configure(stop_actor_timeout=1, **{name: value})
    assert isinstance(caught.value, TypeError if kind is ConfigTypeError else ValueError)
    assert get_runtime_config() == {}


def test_a_wrong_environment_is_an_error_that_names_the_setting(monkeypatch):
    monkeypatch.setenv("MONARCH_CLEANUP_TIMEOUT", "soon")
    with pytest.raises(ConfigError, match="'cleanup_timeout' cannot be read from 'soon'"):
        config.get("cleanup_timeout")


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_setting_has_a_default_of_its_kind_and_a_sentence(setting):
    assert type(setting.default) is setting.kind
    assert setting.parse(setting.default) == setting.default
    assert setting.help[0].isupper()
    assert setting.help.endswith(".")


class Settings(Actor):
    @endpoint
    def value(self, name: str) -> object:
        return config.get(name)


def test_processes_inherit_what_was_configured_before_they_were_spawned():
    with configured(cleanup_timeout=42):
        procs = this_host().spawn_procs()
    assert procs.spawn("settings", Settings).value.call_one("cleanup_timeout").get(timeout=30) == 42.0
    procs.stop().get(timeout=30)


@pytest.mark.parametrize("value", ["spawn", "", "FORK"])
def test_a_setting_with_choices_takes_no_other(value):
    with pytest.raises(ConfigError, match="'proc_start_method' takes 'fork' or 'exec', not"):
        configure(proc_start_method=value)


# ---- the file of the project

TABLES = {"monarch.toml": "", "pyproject.toml": "[tool.monarch]\n"}


@pytest.mark.parametrize("name", TABLES)
def test_a_file_of_the_project_comes_before_the_defaults(tmp_path, name):
    (tmp_path / name).write_text(TABLES[name] + 'cleanup_timeout = "7s"\ntail_log_lines = 5\n')
    assert (config.get("cleanup_timeout"), config.get("tail_log_lines")) == (7.0, 5)
    assert config.source_of("cleanup_timeout") == str(tmp_path / name)


def test_the_environment_comes_before_the_file(tmp_path, monkeypatch):
    (tmp_path / "monarch.toml").write_text("cleanup_timeout = 7\n")
    monkeypatch.setenv("MONARCH_CLEANUP_TIMEOUT", "8s")
    assert config.get("cleanup_timeout") == 8.0
    assert config.source_of("cleanup_timeout") == "MONARCH_CLEANUP_TIMEOUT"


def test_the_nearest_file_counts_whole(tmp_path, monkeypatch):
    (tmp_path / "monarch.toml").write_text("cleanup_timeout = 7\ntail_log_lines = 5\n")
    inner = tmp_path / "inner" / "most"
    inner.mkdir(parents=True)
    (inner.parent / "pyproject.toml").write_text("[tool.monarch]\ncleanup_timeout = 9\n")
    monkeypatch.chdir(inner)
    assert (config.get("cleanup_timeout"), config.get("tail_log_lines")) == (9.0, 20)


def test_the_project_of_somebody_else_is_passed_over(tmp_path, monkeypatch):
    (tmp_path / "monarch.toml").write_text("cleanup_timeout = 7\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[tool.other]\nfile = 'monarch'\n")
    monkeypatch.chdir(inner)
    assert config.get("cleanup_timeout") == 7.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cleanup_timout = 1\n", ["cleanup_timout", "did you mean 'cleanup_timeout'"]),
        ("cleanup_timeout = []\n", ["cleanup_timeout", "seconds"]),
        ("cleanup_timeout = -1\n", ["cleanup_timeout", "negative"]),
        ("cleanup_timeout\n", ["TOML"]),
    ],
    ids=["unknown", "type", "value", "syntax"],
)
def test_a_wrong_file_is_an_error_that_names_it(tmp_path, text, words):
    (tmp_path / "monarch.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.get("tail_log_lines")
    assert all(word in str(caught.value) for word in ["monarch.toml", *words])


def test_a_folder_that_was_removed_has_no_file(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert config.get("tail_log_lines") == 20


def test_spawned_processes_have_what_the_file_says(tmp_path):
    class Reader(Actor):
        @endpoint
        def read(self):
            return config.get("tail_log_lines"), config.source_of("tail_log_lines")

    (tmp_path / "monarch.toml").write_text("tail_log_lines = 5\n")
    procs = this_host().spawn_procs()
    value, source = procs.spawn("reader", Reader).read.call_one().get(20)
    procs.stop().get(20)
    assert value == 5
    assert source != "default"
