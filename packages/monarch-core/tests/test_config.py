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
def _fresh(monkeypatch):
    monkeypatch.setattr(config, "_runtime", {})
    monkeypatch.setattr(config, "_environment", {})


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
