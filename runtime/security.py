"""From our settings of TLS and SASL to librdkafka's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime import redact
from runtime.settings import KafkaSettings
from schemas.errors import SettingsError

_PROTOCOLS = {
    "plaintext": "plaintext",
    "tls": "ssl",
    "sasl_plaintext": "sasl_plaintext",
    "sasl_tls": "sasl_ssl",
}


def client(kafka: KafkaSettings) -> dict[str, Any]:
    """What a client needs to be let in. Raises SettingsError for a file that cannot be read."""
    if kafka.security == "plaintext":
        return {}
    config: dict[str, Any] = {"security.protocol": _PROTOCOLS[kafka.security]}
    if kafka.security.endswith("tls"):
        config |= _tls(kafka)
    if kafka.security.startswith("sasl"):
        config |= _sasl(kafka)
    return config


def _tls(kafka: KafkaSettings) -> dict[str, Any]:
    """Files are read by librdkafka; that they can be is seen here, since it says little."""
    named = {"ssl.ca.location": kafka.tls_ca, "ssl.certificate.location": kafka.tls_cert}
    named["ssl.key.location"] = kafka.tls_key
    config: dict[str, Any] = {}
    for name, path in named.items():
        if path is not None:
            _read(path, name.split(".")[1])
            config[name] = str(path)
    if kafka.tls_key_password is not None:
        config["ssl.key.password"] = kafka.tls_key_password.get_secret_value()
    return config


def _sasl(kafka: KafkaSettings) -> dict[str, Any]:
    config: dict[str, Any] = {"sasl.mechanism": kafka.sasl_mechanism}
    if not kafka.user:
        return config  # kafka.client says the rest
    password = _password(kafka)
    if kafka.sasl_mechanism != "OAUTHBEARER":
        return config | {"sasl.username": kafka.user, "sasl.password": password}
    if not kafka.oauth_url:
        raise SettingsError("kafka.oauth_url: the token endpoint is needed with OAUTHBEARER")
    return config | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": kafka.user,
        "sasl.oauthbearer.client.secret": password,
        "sasl.oauthbearer.token.endpoint.url": kafka.oauth_url,
    }


def _password(kafka: KafkaSettings) -> str:
    if kafka.password_file is not None:
        password = _read(kafka.password_file, "password_file").rstrip("\r\n")
        redact.hide(password)
        return password
    if kafka.password is None:
        raise SettingsError(f"kafka.password: user {kafka.user} needs a password, or a password_file")
    return kafka.password.get_secret_value()


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise SettingsError(f"kafka: {what}: {path}: {error.strerror}") from None
