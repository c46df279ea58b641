"""Settings: where they come from, and what is said about a wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.settings import MIB, Settings, environment, load
from schemas.errors import SettingsError

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No variable of ours, and a working directory without a file of ours."""
    for name in list(os.environ):
        if name.startswith("FACESTREAM_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults_need_no_configuration() -> None:
    settings = load()
    assert settings.topic_prefix == "facestream."
    assert settings.limits.batch_bytes == 4 * MIB
    assert settings.kafka.record_limit == 64 * MIB
    assert settings.store_url.startswith("file:///")


def test_caller_wins_over_environment_and_environment_over_file(
    bare_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare_environment / "facestream.toml").write_text(
        'topic_prefix = "file."\n[limits]\nsegments_in_flight = 1\nqueue_batches = 1\nbatch_bytes = 1\n'
    )
    monkeypatch.setenv("FACESTREAM_LIMITS__QUEUE_BATCHES", "2")
    monkeypatch.setenv("FACESTREAM_LIMITS__SEGMENTS_IN_FLIGHT", "2")
    settings = load({"limits": {"segments_in_flight": 3}})
    assert settings.topic_prefix == "file."
    assert settings.limits.batch_bytes == 1
    assert settings.limits.queue_batches == 2
    assert settings.limits.segments_in_flight == 3


def test_file_is_named_by_the_environment(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bare_environment / "elsewhere.toml"
    path.write_text('[kafka]\nbootstrap = "kafka:9092"\n')
    monkeypatch.setenv("FACESTREAM_CONFIG", str(path))
    assert load().kafka.bootstrap == "kafka:9092"


def test_any_librdkafka_setting_comes_in_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACESTREAM_KAFKA__CLIENT", '{"security.protocol": "SSL", "linger.ms": 3}')
    assert load().kafka.client == {"security.protocol": "SSL", "linger.ms": 3}


def test_secrets_are_in_no_representation() -> None:
    settings = load(
        {
            "kafka": {"client": {"sasl.password": "hush"}},
            "store_options": {"aws_secret_access_key": "hush"},
        }
    )
    assert "hush" not in repr(settings) + str(settings)
    assert "hush" not in repr(settings.kafka) + str(settings.kafka)


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("FACESTREAM_LIMITS__QUEUE_BATCHES", "many", "limits.queue_batches"),
        ("FACESTREAM_LIMITS__QUEUE_BATCHES", "0", "limits.queue_batches"),
        ("FACESTREAM_KAFKA__GROUP_PROTOCOL", "old", "kafka.group_protocol"),
        ("FACESTREAM_KAFKA__BOOTSTRA", "x:1", "kafka.bootstra"),
        ("FACESTREAM_KAFKA__CLIENT", '{"a":', "kafka"),
        ("FACESTREAM_LIMITS__BATCH_BYTES", "999999999", "limits.batch_bytes"),
        ("FACESTREAM_TOPIC_PREFIX", "a b", "topic_prefix"),
        ("FACESTREAM_CONFIG", "nowhere.toml", "FACESTREAM_CONFIG"),
    ],
)
def test_wrong_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, named: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=named):
        load()


def test_wrong_secret_is_named_but_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACESTREAM_KAFKA__CLIENT", '{"sasl.password": ["hush"]}')
    with pytest.raises(SettingsError, match=r"kafka\.client\.sasl\.password") as caught:
        load()
    assert "hush" not in str(caught.value)


def test_unknown_name_and_broken_file_are_refused(bare_environment: Path) -> None:
    path = bare_environment / "facestream.toml"
    path.write_text("[limits]\nsegments_in_fligth = 1\n")
    with pytest.raises(SettingsError, match=r"limits\.segments_in_fligth"):
        load()
    path.write_text("[limits\n")
    with pytest.raises(SettingsError, match=r"facestream\.toml: .*line 1"):
        load()


def test_child_process_gets_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACESTREAM_LIMITS__QUEUE_BATCHES", "2")
    settings = load({"limits": {"queue_batches": 3}, "kafka": {"client": {"linger.ms": 1}}})
    env = environment(settings, os.environ)
    assert env["PATH"] == os.environ["PATH"]
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("FACESTREAM_LIMITS__QUEUE_BATCHES")
    assert load() == settings


def test_other_cluster_changes_nothing_else() -> None:
    settings = load()
    moved = settings.with_bootstrap("kafka:9092")
    assert moved.kafka.bootstrap == "kafka:9092"
    assert moved.with_bootstrap("") == settings
    assert isinstance(moved, Settings)
