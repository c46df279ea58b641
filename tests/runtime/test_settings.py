"""Settings: where they come from, and what is said about a wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime import security
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


def test_the_poll_interval_of_the_client_is_the_one_that_counts() -> None:
    assert load({"kafka": {"max_poll_ms": 70_000}}).kafka.poll_ms == 70_000
    assert load({"kafka": {"client": {"max.poll.interval.ms": 60_000}}}).kafka.poll_ms == 60_000


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


def test_child_process_gets_secrets_and_not_their_stars(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kafka = {"security": "sasl_tls", "user": "u", "password": "hush-hush", "tls_ca": tmp_path / "ca.pem"}
    settings = load({"kafka": kafka, "broker": {"properties": {"a.b": True}}})
    assert "hush-hush" not in repr(settings)
    for name, value in environment(settings, {}).items():
        monkeypatch.setenv(name, value)
    again = load()
    assert again == settings
    assert again.kafka.password is not None
    assert again.kafka.password.get_secret_value() == "hush-hush"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"security": "sasl_tls"}, "user is needed"),
        ({"password": "a", "password_file": "b"}, "exclude each other"),
        ({"tls_cert": "a.pem"}, "belong together"),
        ({"security": "ssl"}, r"kafka\.security"),
    ],
)
def test_security_that_cannot_be_is_refused(values: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load({"kafka": values})


def test_security_becomes_librdkafkas_settings(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hush-hush\n")
    values = {"security": "sasl_plaintext", "user": "u", "password_file": secret}
    assert security.client(load({"kafka": values}).kafka) == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "hush-hush",
    }
    oauth = values | {"sasl_mechanism": "OAUTHBEARER", "oauth_url": "https://id/token"}
    config = security.client(load({"kafka": oauth}).kafka)
    assert config["sasl.oauthbearer.method"] == "oidc"
    assert config["sasl.oauthbearer.client.secret"] == "hush-hush"
    with pytest.raises(SettingsError, match=r"password_file: .*missing"):
        security.client(load({"kafka": values | {"password_file": tmp_path / "missing"}}).kafka)
    with pytest.raises(SettingsError, match=r"kafka: ca: .*missing"):
        security.client(load({"kafka": {"security": "tls", "tls_ca": tmp_path / "missing"}}).kafka)
